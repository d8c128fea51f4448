"""Cohere's SDK at the server's address: `Client` (/v1) and `ClientV2` (/v2)."""

from typing import Any

import cohere
from run import assert_scores

PACKAGES = ('cohere',)


def check(given: dict[str, Any]) -> list[str]:
  """Asserts, and names, what works."""
  query, documents = given['query'], given['documents']
  asked = {'model': 'dipair', 'query': query, 'documents': documents}
  client = cohere.ClientV2('secret', base_url=given['url'])
  answer = client.rerank(**asked)
  assert_scores(given, {item.index: item.relevance_score for item in answer.results})
  found = [item.index for item in client.rerank(**asked, top_n=3).results]
  assert found == [item.index for item in answer.results][:3]
  usage = dict(client.rerank(**asked))['usage']
  assert usage == {'documents': len(documents), 'encoded_documents': 0}, usage

  client = cohere.Client('secret', base_url=given['url'])
  objects = [{'text': text} for text in documents]
  answer = client.rerank(**{**asked, 'documents': objects}, return_documents=True)
  assert all(item.document.text == documents[item.index] for item in answer.results)

  for key, changes, error, message in (
    ('wrong', {}, cohere.UnauthorizedError, 'key'),
    ('secret', {'top_n': 0}, cohere.UnprocessableEntityError, 'top_n'),
    ('secret', {'documents': []}, cohere.UnprocessableEntityError, 'documents'),
  ):
    try:
      cohere.ClientV2(key, base_url=given['url']).rerank(**{**asked, **changes})
      raise AssertionError(f'{changes}, key {key}: answered')
    except error as refused:
      assert message in refused.body['message'], refused.body
  return [
    'ClientV2.rerank: scores, top_n, and usage, where the second call encodes nothing',
    'Client.rerank: objects, return_documents',
    'errors: a wrong key, top_n of 0, no documents',
  ]
