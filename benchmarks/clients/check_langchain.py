"""LangChain: a cross-encoder over an export, and `CohereRerank` at the server's address."""

from typing import Any

from langchain_classic.retrievers.document_compressors import CrossEncoderReranker
from langchain_cohere import CohereRerank
from langchain_core.documents import Document
from langchain_reranker import DiPairScores
from run import assert_scores

PACKAGES = ('langchain-classic', 'langchain-core', 'langchain-cohere', 'cohere')


def check(given: dict[str, Any]) -> list[str]:
  """Asserts, and names, what works."""
  documents = [Document(text, metadata={'row': i}) for i, text in enumerate(given['documents'])]
  best = sorted(range(len(documents)), key=lambda row: -given['scores'][row])
  reranker = CrossEncoderReranker(model=DiPairScores(given['export']), top_n=3)
  found = reranker.compress_documents(documents, given['query'])
  assert [document.metadata['row'] for document in found] == best[:3], found

  options = {'model': 'dipair', 'cohere_api_key': 'secret', 'base_url': given['url']}
  found = CohereRerank(**options, top_n=None).compress_documents(documents, given['query'])
  assert_scores(given, {one.metadata['row']: one.metadata['relevance_score'] for one in found})
  return [
    'CrossEncoderReranker over examples/langchain_reranker.py',
    'CohereRerank at base_url: scores',
  ]
