"""LangChain reranks with a DiPair student, without TensorFlow.

  pip install . langchain-classic
  python examples/langchain_reranker.py 'what causes gout'

`DiPairScores` goes wherever LangChain takes a `BaseCrossEncoder`.
"""

import csv
import sys

from langchain_classic.retrievers.document_compressors import CrossEncoderReranker
from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.documents import Document

import dipair


class DiPairScores(BaseCrossEncoder):
  """A cross-encoder of LangChain; `export` is a run's export or 'medquad'."""

  def __init__(self, export: str = 'medquad'):
    self.model = dipair.CrossEncoder(export, runtime='litert-int8', encoder_runtime='litert-int8')

  def score(self, text_pairs: list[tuple[str, str]]) -> list[float]:
    """Probabilities of pairs; each distinct text is encoded once."""
    return self.model.predict(text_pairs).tolist()


if __name__ == '__main__':
  with open('examples/answers.tsv', encoding='utf-8') as file:
    rows = csv.DictReader(file, delimiter='\t')
    answers = [Document(row['text'], metadata={'id': row['id']}) for row in rows]
  reranker = CrossEncoderReranker(model=DiPairScores(), top_n=3)
  for answer in reranker.compress_documents(answers, ' '.join(sys.argv[1:]) or 'what causes gout'):
    print(answer.metadata['id'], answer.page_content, sep='  ')
