"""Scoring with a DiPair export: texts encoded once, pairs scored by the head. No training code."""

from common.scoring.scorer import PairScorer


class Scorer(PairScorer):
  """An exported DiPair student; a slot's vectors are [texts, k, D], its k kept tokens.

  A position past a text's end is an all-zero row.

  >>> scorer = Scorer.load('runs/p2t/export')
  >>> products = scorer.encode(titles, side='right')  # once per text
  >>> scorer.rank('nike shoes', products, top_k=10)
  """

  kind = 'dipair'
