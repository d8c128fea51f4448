"""Haystack: a ranker over an export, in a pipeline."""

from typing import Any

from haystack import Document, Pipeline
from haystack_ranker import DiPairRanker
from run import assert_scores

PACKAGES = ('haystack-ai',)


def check(given: dict[str, Any]) -> list[str]:
  """Asserts, and names, what works."""
  documents = [Document(id=str(i), content=text) for i, text in enumerate(given['documents'])]
  pipeline = Pipeline()
  pipeline.add_component('ranker', DiPairRanker(given['export'], top_k=len(documents)))
  for ranker in (
    pipeline,
    Pipeline.loads(pipeline.dumps(), allowed_modules=[DiPairRanker.__module__]),
  ):
    asked = {'query': given['query'], 'documents': documents}
    found = ranker.run({'ranker': asked})['ranker']['documents']
    assert_scores(given, {int(document.id): document.score for document in found})
    found = ranker.run({'ranker': {**asked, 'top_k': 3}})['ranker']['documents']
    assert len(found) == 3
  return ['a pipeline of examples/haystack_ranker.py: scores, top_k; saved and loaded']
