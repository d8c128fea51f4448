"""Haystack ranks with a DiPair student, without TensorFlow.

pip install . haystack-ai
python examples/haystack_ranker.py 'what causes gout'
"""

import csv
import sys
from dataclasses import replace

from haystack import Document, Pipeline, component

import dipair


@component
class DiPairRanker:
  """A ranker; `export` is a run's export or 'medquad'."""

  def __init__(self, export: str = 'medquad', top_k: int = 10):
    self.export, self.top_k = export, top_k  # a saved pipeline has these
    self.model = dipair.CrossEncoder(export, runtime='litert-int8', encoder_runtime='litert-int8')

  @component.output_types(documents=list[Document])
  def run(self, query: str, documents: list[Document], top_k: int | None = None):
    """The best documents, best first, with their scores."""
    best = self.model.rank(query, [d.content for d in documents], top_k or self.top_k)
    return {'documents': [replace(documents[i['corpus_id']], score=i['score']) for i in best]}


if __name__ == '__main__':
  with open('examples/answers.tsv', encoding='utf-8') as file:
    rows = [*csv.reader(file, 'excel-tab')][1:]
  answers = [Document(id=name, content=text) for name, text in rows]
  pipeline = Pipeline()
  pipeline.add_component('ranker', DiPairRanker(top_k=3))
  asked = {'query': ' '.join(sys.argv[1:]) or 'what causes gout', 'documents': answers}
  for answer in pipeline.run({'ranker': asked})['ranker']['documents']:
    print(f'{answer.score:.3f}  {answer.content}')
