"""sentence-transformers: its evaluators of cross-encoders over an export."""

from typing import Any

from sentence_transformers.cross_encoder import evaluation

import dipair

PACKAGES = ('sentence-transformers', 'torch')


def check(given: dict[str, Any]) -> list[str]:
  """Asserts, and names, what works: labels that are the scores themselves give 1 everywhere."""
  options = {'runtime': 'litert-int8', 'encoder_runtime': 'litert-int8'}
  model = dipair.CrossEncoder(given['export'], **options)
  query, documents, scores = given['query'], given['documents'], given['scores']
  pairs = [(query, text) for text in documents]
  middle = sorted(scores)[len(scores) // 2]
  relevant = [score >= middle for score in scores]
  positive, negative = (
    [text for text, of in zip(documents, relevant, strict=True) if of is wanted]
    for wanted in (True, False)
  )
  listed = [{'query': query, 'positive': positive, 'negative': negative}]
  evaluators = {
    'CrossEncoderRerankingEvaluator': evaluation.CrossEncoderRerankingEvaluator(listed),
    'CrossEncoderClassificationEvaluator': evaluation.CrossEncoderClassificationEvaluator(
      pairs, [int(of) for of in relevant]
    ),
    'CrossEncoderCorrelationEvaluator': evaluation.CrossEncoderCorrelationEvaluator(pairs, scores),
  }
  checked = []
  for name, evaluator in evaluators.items():
    found = evaluator(model)
    primary = evaluator.primary_metric
    assert abs(found[primary] - 1) < given['tolerance'], (name, found)
    checked.append(f'{name}: {primary}')
  return checked
