"""The rerank server as its clients meet it: a process of its own, asked over HTTP."""

import concurrent.futures
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys

import numpy as np
import pytest

from common.rerank_server.__main__ import model_name
from common.rerank_server.bounds import MOST_BYTES
from common.scoring.first_stage import FirstStageWeight
from common.scoring.scorer import PairScorer
from common.vectors.neighbors import Index
from common.vectors.store import VectorStore
from common.vectors.values import Stored, narrowed
from tests import limits
from tests.conftest import ROOT

TEXTS = {'a': 'red shoe', 'b': 'blue queen blanket', 'c': 'wide red boots', 'd': 'x'}
KEY = 'a secret'


class Server:
  """A server's process, and its answers."""

  def __init__(self, *options):
    command = [sys.executable, '-m', 'common.rerank_server', '--port=0', *options]
    self.process = subprocess.Popen(
      command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    line = self.process.stdout.readline()
    assert line, self.process.stderr.read()
    self.port = int(line.rsplit(':', 1)[1])

  def ask(self, path, body=None, **headers):
    """Status and JSON, or text, of an answer."""
    asked = http.client.HTTPConnection('127.0.0.1', self.port, timeout=limits.ANSWER)
    content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    headers.setdefault('Content-Type', 'application/json')
    asked.request('GET' if body is None else 'POST', path, content, headers)
    answer = asked.getresponse()
    text = answer.read().decode()
    asked.close()
    json_type = answer.getheader('content-type') == 'application/json'
    return answer.status, json.loads(text) if json_type else text

  def rerank(self, query, documents, **fields):
    status, found = self.ask('/v1/rerank', {'query': query, 'documents': documents, **fields})
    assert status == 200, found
    return found

  def stop(self, number=signal.SIGTERM):
    self.process.send_signal(number)
    said = self.process.communicate(timeout=limits.PROCESS)
    return self.process.returncode, *said


@pytest.fixture(name='folder', scope='module')
def _folder(export):
  return export('dipair')[0]


@pytest.fixture(name='files', scope='module')
def _files(tmp_path_factory):
  folder = tmp_path_factory.mktemp('served')
  rows = (json.dumps({'id': key, 'text': text}) for key, text in TEXTS.items())
  (folder / 'texts.jsonl').write_text('\n'.join(rows) + '\n')
  (folder / 'keys').write_text(f'another\n{KEY}\n')
  return folder


@pytest.fixture(name='weighted', scope='module')
def _weighted(folder, files):
  """The export with a weight for a first stage."""
  copy = shutil.copytree(folder, files / 'dipair-1' / 'export')
  FirstStageWeight('bm25', 0.5, 3.0).write(str(copy))
  return copy


@pytest.fixture(name='server', scope='module')
def _server(weighted, files):
  found = Server(
    f'--export={weighted}',
    f'--store={files}/store',
    f'--input={files}/texts.jsonl',
    f'--index={files}/index',
    '--runtime=litert',
    '--encoder_runtime=litert',
  )
  yield found
  found.stop()


@pytest.fixture(name='scorer', scope='module')
def _scorer(weighted):
  return PairScorer.load(str(weighted), 'litert', encoder_runtime='litert')


def ranked(scorer, query, texts, **fields):
  """The order and scores by the scorer, of vectors in int8."""
  vectors = Stored(*narrowed(scorer.encode(texts, 'right'), 'int8'))
  return scorer.rank(query, vectors, len(texts), **fields)


def order(found):
  return [(one['index'], one['relevance_score']) for one in found['results']]


def test_scores_are_the_scorers_and_a_document_is_encoded_once(server, scorer):
  texts = ['nike shoes', 'a throw', 'nike shoes', 'blue']
  first = server.rerank('shoe', texts)
  again = server.rerank('shoe', [{'text': text, 'price': 3} for text in texts])
  expected = ranked(scorer, 'shoe', texts)
  assert [row for row, _ in order(first)] == [row for row, _ in expected]
  np.testing.assert_allclose(
    [score for _, score in order(first)], [score for _, score in expected], atol=1e-6
  )
  assert order(again) == order(first)
  assert first['usage'] == {'documents': 4, 'encoded_documents': 3}
  assert again['usage'] == {'documents': 4, 'encoded_documents': 0}


def test_an_answer_has_what_was_asked_for(server):
  asked = {'query': 'shoe', 'documents': ['a shoe', 'a'], 'top_n': 1, 'return_documents': True}
  (status, one), (_, two) = (server.ask(f'/v{n}/rerank', {**asked, 'model': 'any'}) for n in (1, 2))
  assert status == 200 and sorted(one) == ['id', 'model', 'results', 'usage']
  (best,) = one['results']
  assert best['document'] == {'text': asked['documents'][best['index']]}
  assert two['results'] == one['results'] and one['model'] == 'dipair-1'
  assert len(server.rerank('shoe', ['a'] * 3, top_n=9)['results']) == 3


def test_a_first_stages_scores_are_summed_with_the_logits(server, scorer):
  texts, scores = ['nike shoes', 'a throw', 'blue'], [1.5, 30, 12]
  asked = {'query': 'shoe', 'documents': texts, 'first_stage': {'name': 'bm25', 'scores': scores}}
  expected = ranked(scorer, 'shoe', texts, first_stage_scores=scores, first_stage_name='bm25')
  assert [row for row, _ in expected] == [1, 2, 0]
  for version in (1, 2):
    status, found = server.ask(f'/v{version}/rerank', asked)
    assert status == 200 and [row for row, _ in order(found)] == [1, 2, 0]
    np.testing.assert_allclose([s for _, s in order(found)], [s for _, s in expected], atol=1e-6)


def test_many_new_documents_are_encoded_step_by_step(server, scorer):
  texts = [f'{"many words " * (number % 7)}{number}' for number in range(600)]
  found = server.rerank('words', texts)
  assert found['usage']['encoded_documents'] == 600
  expected = dict(ranked(scorer, 'words', texts))
  scores = {row: score for row, score in order(found)}
  np.testing.assert_allclose(
    [scores[row] for row in range(600)], [expected[row] for row in range(600)], atol=1e-5
  )


def test_documents_by_id_and_search(server, scorer, files):
  store = VectorStore(str(files / 'store'))
  _, found = server.ask(
    '/v1/rerank', {'query': 'red', 'document_ids': ['d', 'a', 'c'], 'return_documents': True}
  )
  expected = scorer.rank('red', store.stored(store.rows(['d', 'a', 'c'])), 3)
  assert order(found) == expected and found['usage']['encoded_documents'] == 0
  key = ['d', 'a', 'c'][expected[0][0]]
  assert found['results'][0]['document'] == {'id': key, 'text': TEXTS[key]}

  _, found = server.ask('/v1/search', {'query': 'red', 'top_n': 2, 'shortlist': 3})
  near = Index.of_store(store).nearest(scorer.encode(['red'], 'left'), 3)[0]
  expected = scorer.rank('red', store, 2, rows=np.sort(near))
  assert [(one['id'], one['relevance_score']) for one in found['results']] == [
    (store.ids([row])[0], score) for row, score in expected
  ]
  assert [one['id'] for one in found['first_stage']] == store.ids(near[:2])
  assert [one['first_stage_rank'] for one in found['first_stage']] == [1, 2]
  assert sorted(found['ms']) == ['encode', 'first_stage', 'head']


@pytest.mark.parametrize(
  ('export', 'name'),
  [
    *(('medquad', 'medquad'), ('runs/p2t/export', 'p2t'), ('runs/p2t/export/', 'p2t')),
    *(('export', 'repository'), ('/export', 'export'), ('hf://org/name', 'org/name')),
  ],
)
def test_a_model_has_the_name_of_its_run(export, name, tmp_path, monkeypatch):
  (tmp_path / 'repository').mkdir()
  monkeypatch.chdir(tmp_path / 'repository')
  assert model_name(export) == name


def test_what_a_server_tells_of_itself(server):
  _, models = server.ask('/v1/models')
  (model,) = models['data']
  assert (model['id'], model['vector_shape'], model['stored']) == ('dipair-1', [4, 8], 4)
  assert model['first_stage'] == 'bm25'
  assert server.ask('/healthz') == (200, {'status': 'ok'})
  _, description = server.ask('/openapi.json')
  for name, path in (('RerankRequest', '/v1/rerank'), ('SearchRequest', '/v1/search')):
    (example,) = description['components']['schemas'][name]['examples']
    assert server.ask(path, example)[0] == 200
  _, metrics = server.ask('/metrics')
  assert re.search(r'dipair_documents_encoded_total{path="/v1/rerank"} [1-9]', metrics)


@pytest.mark.parametrize(
  ('path', 'body', 'status', 'message'),
  [
    ('rerank', b'{"query": ', 422, r'JSON'),
    ('rerank', [], 422, r'dictionary'),
    ('rerank', {'documents': ['a']}, 422, r'^query: Field required'),
    ('rerank', {'query': 'a'}, 422, r'documents, or document_ids .* one of them'),
    ('rerank', {'query': 'a', 'documents': ['a'], 'document_ids': ['a']}, 422, r'one of them'),
    ('rerank', {'query': 'a', 'documents': []}, 422, r'^documents: .*at least 1'),
    ('rerank', {'query': 'a', 'documents': ['a', 3]}, 422, r'^documents\.1'),
    ('rerank', {'query': 'a', 'documents': ['a'] * 10_001}, 422, r'^documents: .*at most 10000'),
    ('rerank', {'query': 'a' * 100_001, 'documents': ['a']}, 422, r'^query: .*100000'),
    ('rerank', {'query': 'a', 'documents': ['a'], 'top_n': 0}, 422, r'^top_n: '),
    ('rerank', b'{"query": "a", "documents": ["\\ud800"]}', 400, r'surrogate'),
    *(
      ('rerank', {'query': 'a', 'documents': ['a'], 'first_stage': given}, status, message)
      for given, status, message in (
        ({'name': 'bm25', 'scores': [1, 2]}, 422, r'first_stage.scores: 2 scores for 1 documents$'),
        ({'name': 'bm25', 'scores': [float('nan')]}, 422, r'^first_stage.scores.0: .*finite'),
        ({'scores': [1]}, 422, r'^first_stage.name: Field required'),
        ({'name': 'dense', 'scores': [1]}, 400, r"^first stage 'dense': .* for 'bm25' alone; fit"),
      )
    ),
    ('rerank', {'query': 'a', 'document_ids': ['zebra']}, 400, r"no vectors of id 'zebra'"),
    ('search', {'query': 'a', 'top_n': 10_001}, 422, r'^top_n: '),
    ('rerank', b' ' * (MOST_BYTES + 1), 413, r'bytes; 16,777,216 at the most'),
    ('nothing', {}, 404, r'POST /v1/nothing: Not Found'),
  ],
)
def test_bad_requests_are_told_in_one_line(server, path, body, status, message):
  found, answer = server.ask(f'/v1/{path}', body)
  assert (found, list(answer)) == (status, ['message'])
  assert re.search(message, answer['message']) and '\n' not in answer['message']


def test_a_request_carries_a_key_where_there_are_keys(folder, files):
  server = Server(f'--export={folder}', f'--api_key_file={files}/keys')
  asked = {'query': 'a', 'documents': ['a']}
  assert server.ask('/v1/rerank', asked, Authorization=f'Bearer {KEY}')[0] == 200
  for headers in ({}, {'Authorization': 'Bearer a'}, {'Authorization': f'Bearer {KEY}a'}):
    assert server.ask('/v1/rerank', asked, **headers) == (
      401,
      {'message': 'a key is needed: Authorization: Bearer KEY'},
    )
  weighted = {**asked, 'first_stage': {'name': 'bm25', 'scores': [1]}}
  status, answer = server.ask('/v1/rerank', weighted, Authorization=f'Bearer {KEY}')
  assert status == 400 and 'the export has no weight for its scores' in answer['message']
  assert server.ask('/healthz')[0] == 200 and server.ask('/metrics')[0] == 401
  assert server.stop()[0] == 128 + signal.SIGTERM


def test_sigterm_answers_what_was_begun(folder):
  server = Server(f'--export={folder}')
  texts = [f'{"word " * 30}{number}' for number in range(1500)]
  with concurrent.futures.ThreadPoolExecutor() as pool:
    answer = pool.submit(server.rerank, 'word', texts)
    while 'in_work 1' not in server.ask('/metrics')[1]:
      assert not answer.done()
    status, out, err = server.stop()
    assert answer.result()['usage']['encoded_documents'] == 1500
  assert (status, out, err.replace('INFO: ', '')) == (143, '', err.replace('INFO: ', ''))


def test_a_killed_server_loses_no_document_that_it_answered(folder, tmp_path):
  texts = [f'text {number}' for number in range(300)]
  one, two = (Server(f'--export={folder}', f'--cache_dir={tmp_path}/cache') for _ in range(2))
  found = one.rerank('text', texts)
  assert one.stop(signal.SIGKILL)[0] == -signal.SIGKILL
  again = two.rerank('text', texts)  # beside it, of the same cache
  assert (order(again), again['usage']['encoded_documents']) == (order(found), 0)
  two.stop()


def test_a_client_that_goes_or_sends_no_body_is_let_go(server):
  head = b'POST /v1/rerank HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n'
  for sent in (
    b'Content-Length: 100\r\n\r\n{"query"',
    b'Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
  ):
    with socket.create_connection(('127.0.0.1', server.port), timeout=limits.ANSWER) as client:
      client.sendall(head + sent)
      if b'chunked' in sent:
        assert client.recv(100).startswith(b'HTTP/1.1 411')
  assert server.ask('/healthz')[0] == 200


@pytest.mark.parametrize(
  ('options', 'message'),
  [
    ((), '--export is needed'),
    (('--export=medquad', '--index=i'), '--index=i: --store is needed with it'),
    (('--export=medquad', '--store=nowhere'), 'nowhere: no whole vector store there'),
    (('--export=medquad', '--host=192.0.2.1'), '--host=192.0.2.1 --port=8000: cannot be listened'),
    (('--export=medquad', f'--api_key_file={os.devnull}'), 'no key in it; write one a line'),
  ],
)
def test_a_server_that_cannot_start_says_why(python, options, message):
  done = python('-m', 'common.rerank_server', *options)
  assert (done.returncode, done.stdout) == (2, '')
  assert done.stderr.splitlines()[-1].startswith('error: ') and message in done.stderr
