"""An export called as sentence-transformers' `CrossEncoder`: `predict` and `rank` of texts."""

import types
from collections.abc import Sequence
from typing import Any

import numpy as np

from common.data.texts import check_text, distinct, listed, shown
from common.errors import InputError, check_whole
from common.scoring.scorer import PairScorer

_LISTS = (Sequence, np.ndarray)


class CrossEncoder:
  """A student of either kind, called as a cross-encoder of sentence-transformers is.

  It encodes each distinct text of a call once, and keeps none: where the same documents come again,
  a `Scorer` ranks stored vectors. The evaluators of sentence-transformers take it too.

  >>> model = dipair.CrossEncoder('runs/p2t/export')  # was: CrossEncoder('cross-encoder/…')
  >>> model.predict([('nike shoes', 'Nike Air'), ('nike shoes', 'a red throw')])
  >>> model.rank('nike shoes', titles, top_k=10, return_documents=True)

  Args:
    folder: The `export` folder of a run.
    **options: As for `Scorer.load`: `runtime`, `encoder_runtime`, `threads`.

  Attributes:
    scorer: The export, of texts alone.
    num_labels: Outputs of the model: 1, or C for C classes.
    model_card_data: Drops the metrics that an evaluator hands in; the evaluator returns them.
  """

  def __init__(self, folder: str, **options: Any):
    self.scorer = PairScorer.load(folder, **options)
    if self.scorer.widths:
      raise InputError(
        f'{folder}: its {", ".join(self.scorer.widths)} takes vectors, and a CrossEncoder texts; a '
        'Scorer takes both'
      )
    self.num_labels = self.scorer.outputs
    self.model_card_data = types.SimpleNamespace(set_evaluation_metrics=lambda *_: None)

  def predict(
    self,
    sentences: Sequence[Any],
    batch_size: int = 128,
    show_progress_bar: bool | None = None,
    *,
    prompt_name: None = None,
    convert_to_numpy: bool = True,
  ) -> np.ndarray:
    """Scores pairs of texts.

    Args:
      sentences: Pairs of texts, or one pair.
      batch_size: Texts encoded at a time, by TensorFlow.
      show_progress_bar: Whether encoding shows one.
      prompt_name: None; these models have no prompts.
      convert_to_numpy: True; scores are numpy's.

    Returns:
      [pairs] probabilities, as of a cross-encoder with a sigmoid; [pairs, C] for C classes; of one
      pair its score alone.
    """
    if prompt_name is not None or not convert_to_numpy:
      given = f'prompt_name={prompt_name!r}, convert_to_numpy={convert_to_numpy}'
      raise InputError(f'{given}: None and True alone are taken')
    if isinstance(sentences, str) or not isinstance(sentences, _LISTS):
      raise InputError(f'sentences: a list of pairs of texts is needed, not {shown(sentences)}')
    if len(sentences) and isinstance(sentences[0], str):
      return self.predict([sentences], batch_size, show_progress_bar)[0]
    slots = self.scorer.slots
    for number, pair in enumerate(sentences):
      if isinstance(pair, str) or not isinstance(pair, _LISTS):
        raise InputError(f'pair {number}: {shown(pair)} is no pair of texts')
      if len(pair) != len(slots):
        raise InputError(f'pair {number}: {len(pair)} texts; this model takes {", ".join(slots)}')
      for text in pair:  # here, where the pair's number is known
        check_text(text, f'pair {number}')
    columns = zip(*sentences, strict=True) if len(sentences) else [()] * len(slots)
    sides = []
    for slot, texts in zip(slots, columns, strict=True):
      once, rows = distinct(texts)
      sides.append((self._encode(once, slot, batch_size, show_progress_bar), rows))
    return self.scorer.scored(*sides)[1]

  def rank(
    self,
    query: str,
    documents: Sequence[str],
    top_k: int | None = None,
    return_documents: bool = False,
    batch_size: int = 128,
    show_progress_bar: bool | None = None,
  ) -> list[dict[str, Any]]:
    """Ranks documents for a query.

    Args:
      query: A text.
      documents: Texts.
      top_k: Results at the most; None: all.
      return_documents: Whether a result holds its text.
      batch_size: As for `predict`.
      show_progress_bar: As for `predict`.

    Returns:
      [{'corpus_id', 'score'}], with 'text' where asked for, best first; `corpus_id` counts from 0.
    """
    if not isinstance(query, str):
      raise InputError(f'query: one text is needed, not {shown(query)}')
    check_text(query, 'query')
    documents = listed(documents, 'documents')
    top_k = max(1, len(documents)) if top_k is None else top_k
    check_whole('top_k', top_k, 1)
    self.scorer.check_ranks()
    vectors = self._encode(documents, self.scorer.slots[-1], batch_size, show_progress_bar)
    found = self.scorer.rank(query, vectors, top_k)
    results: list[dict[str, Any]] = [{'corpus_id': row, 'score': score} for row, score in found]
    if return_documents:
      results = [{**result, 'text': documents[result['corpus_id']]} for result in results]
    return results

  def _encode(
    self, texts: list[str], slot: str, batch_size: int, progress: bool | None
  ) -> np.ndarray:
    check_whole('batch_size', batch_size, 1)
    return self.scorer.encode_listed(texts, slot, batch_size, bool(progress))
