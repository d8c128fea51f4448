"""The client without a server, and with exports behind the local one, by gRPC and by REST."""

import io

import grpc
import numpy as np
import pytest

from common.errors import InputError
from common.local_server.__main__ import ServerConfig, serving
from common.local_server.models import Version
from common.serving import client as clients
from common.serving.client import Client, ServingError, _only
from common.vectors import values
from tests import limits

# The first and the fourth tie.
PRODUCTS = ['red throw', 'black nike shoes', 'x y', 'red throw', 'blue queen blanket']


def test_the_client_repeats_what_may_be_repeated():
  calls = []

  class Flaky:
    def predict(self, model, signature, inputs, seconds):
      calls.append(seconds)
      if len(calls) < 3:
        raise ServingError('busy', grpc.StatusCode.UNAVAILABLE)
      if len(calls) == 4:
        raise ServingError('wrong', grpc.StatusCode.INVALID_ARGUMENT)
      return {'y': np.ones(1)}

  client = Client('localhost:1', 'toy')
  client._transport = Flaky()
  assert client.call('head', '', {})['y'] == 1 and len(calls) == 3
  with pytest.raises(ServingError, match="model 'toy_head', signature '', inputs : wrong"):
    client.call('head', '', {})
  assert len(calls) == 4


def test_the_client_names_what_is_no_text():
  client = Client('localhost:1', 'x')
  for texts, message in (
    ('shoes', '^right texts: a list of texts is needed, not one text$'),
    (['shoes', None], '^right texts, row 1: None is not a text$'),
  ):
    with pytest.raises(InputError, match=message):
      client.encode(texts, 'right')
  with pytest.raises(InputError, match='^3 sides given; left and right, or each slot by its name$'):
    client.score(*np.zeros([3, 1, 2]))
  for call in (lambda: client.score(['nike'], np.zeros([1, 2])), lambda: client.rank('a', ['b'])):
    with pytest.raises(InputError, match=r'^(left|candidates): vectors are needed, as of encode\('):
      call()


@pytest.mark.parametrize(
  'body', [b'<html>', b'[]', b'{"error": "x"}', b'{"outputs": [[1], [1, 2]]}']
)
def test_an_answer_that_is_none_is_a_serving_error(monkeypatch, body):
  monkeypatch.setattr('urllib.request.urlopen', lambda *of, **options: io.BytesIO(body))
  with pytest.raises(ServingError, match='no outputs in the answer, which starts ') as raised:
    clients.Rest('http://localhost:1').predict('toy', '', {}, 1)
  assert raised.value.code == grpc.StatusCode.UNKNOWN


def test_the_longer_the_texts_the_fewer_a_request_has(monkeypatch):
  client, sent = Client('localhost:1', 'p2t', max_batch=3), []

  def call(model, signature, inputs):
    sent.append([len(text) for text in inputs['text']])
    return {'vectors': np.zeros([len(inputs['text']), 2])}

  monkeypatch.setattr(client, 'call', call)
  monkeypatch.setattr('common.serving.inputs._TEXT', 10)
  found = client.encode(['½' * n for n in (1, 1, 1, 1, 4, 2, 9, 0)], 'right')
  assert (found.shape, sent) == ((8, 2), [[2, 2, 2], [2, 8], [4], [18], [0]])
  assert client.encode([], 'right').shape == (0, 2)


def test_the_servers_order_is_taken_as_it_is(monkeypatch):
  client = Client('localhost:1', 'p2t')
  answer = {'scores': np.array([0.1, 0.2, 0.3]), 'order': np.array([0, 2, 1])}
  monkeypatch.setattr(client, 'call', lambda *of: answer)
  scores, order = client.rank('a', np.zeros([3, 2]))
  assert (scores.tolist(), order.tolist()) == ([0.1, 0.2, 0.3], [0, 2, 1])
  monkeypatch.setattr('common.serving.client._CANDIDATES', 3)
  answers = [
    {'scores': np.array([1.0, 1.0, 1.0]), 'order': np.array([2, 0, 1])},
    {'scores': np.array([0.5, 1.0, 1.0]), 'order': np.array([2, 1, 0])},
  ]
  monkeypatch.setattr(client, 'call', lambda *of: answers.pop(0))
  assert client.rank('a', np.zeros([6, 2]))[1].tolist() == [2, 0, 1, 5, 4, 3]


@pytest.mark.parametrize(
  ('shape', 'sizes'),
  [((1500, 2), [1024, 476]), ((1500, 24, 128), [682, 682, 136]), ((2, 1 << 22), [1, 1])],
)
def test_the_wider_candidates_are_the_fewer_a_request_has(monkeypatch, shape, sizes):
  client, sent = Client('localhost:1', 'p2t'), []

  def call(model, signature, inputs):
    sent.append(len(inputs['candidates']))
    return {'scores': np.zeros(sent[-1]), 'order': np.arange(sent[-1])}

  monkeypatch.setattr(client, 'call', call)
  client.rank('a', np.zeros(shape, np.float32))
  assert sent == sizes


def test_the_wider_the_vectors_the_fewer_rows_a_request_to_the_head_has(monkeypatch):
  client, sent = Client('localhost:1', 'p2t'), []

  def call(model, signature, inputs):
    sent.append(inputs['left'].shape[0])
    return {'score': np.zeros(sent[-1])}

  monkeypatch.setattr(client, 'call', call)
  assert len(client.score(np.zeros([200, 4, 8]), np.zeros([200, 12, 8]))) == 200
  client.score(np.zeros([5, 1 << 19]), np.zeros([5, 1 << 19]))
  assert sent == [128, 72, 2, 2, 1]


def test_rest_names_an_only_output_by_its_model_whatever_a_slot_is_called():
  slots = {
    signature: _only('a_encoder', signature) for signature in ('head', 'part', 'part_tokens')
  }
  assert slots == {'head': 'vectors', 'part': 'vectors', 'part_tokens': 'tokens'}
  heads = {
    signature: _only('a_head', signature) for signature in ('x_part', 'attention', 'of_parts')
  }
  assert heads == {'x_part': 'part', 'attention': 'attention', 'of_parts': 'score'}
  assert (_only('a_online', 'serving_default'), _only('other', 'x')) == ('scores', '')


@pytest.fixture(name='folders', scope='module')
def _folders(export):
  """Exports by name: of both students, of one score and of three classes."""
  return {
    'p2t': export('dipair').folder,
    'snli': export('dipair', 3).folder,
    'stsb': export('dse').folder,
    'mnli': export('dse', 3, shared_encoder=False).folder,
  }


@pytest.fixture(name='server', scope='module')
def _server(folders):
  """Targets of one server, by transport."""
  models = [
    f'{name}_{part}={folder}/{part}'
    for name, folder in folders.items()
    for part in ('encoder', 'head', 'online')
  ]
  with serving(ServerConfig(models=tuple(models), port=0, rest_api_port=0)) as (grpc, rest):
    yield {'grpc': f'localhost:{grpc.port}', 'rest': f'http://localhost:{rest.port}'}


@pytest.fixture(name='target', params=['grpc', 'rest'])
def _target(request, server):
  return server[request.param]


@pytest.mark.parametrize('name', ['p2t', 'stsb'])
def test_a_ranking_is_the_servers(target, folders, load, name):
  client, scorer = Client(target, name, deadline=limits.ANSWER), load(folders[name])
  vectors = client.encode(PRODUCTS, 'right')
  scores, order = client.rank('nike shoes', vectors)
  expected = scorer.rank('nike shoes', vectors)
  assert order.tolist() == [row for row, _ in expected]  # ties as they came
  np.testing.assert_allclose(scores[order], [score for _, score in expected], atol=1e-5)
  queries = client.encode(['nike shoes'] * len(PRODUCTS), 'left')
  np.testing.assert_allclose(client.score(queries, vectors), scores, atol=1e-5)


@pytest.mark.parametrize('name', ['p2t', 'stsb'])
def test_vectors_as_an_int8_store_holds_them(target, folders, load, name):
  client, scorer = Client(target, name, deadline=limits.ANSWER), load(folders[name])
  query, vectors = scorer.encode(['nike shoes'], 'left'), scorer.encode(PRODUCTS, 'right')
  narrow, scale = values.narrowed(vectors, 'int8')
  left = {'left_part': scorer.parts(query, 'left')}
  if name == 'stsb':  # DSE's head takes both
    left['left'] = query
  stored = {**left, 'right': narrow, 'right_scale': scale}
  wide = {**left, 'right': values.widened(narrow, scale)}
  expected = client.call('head', 'one_to_many', wide)['score']
  found = client.call('head', 'one_to_many_int8', stored)['score']
  np.testing.assert_allclose(found, expected, atol=1e-5)
  exact = scorer.score(np.repeat(query, len(PRODUCTS), 0), vectors)
  np.testing.assert_allclose(found, exact, atol=0.01)
  version = Version(name, f'{folders[name]}/head', 1, 'litert', 'tensorflow')
  found = version.signature('one_to_many_int8').call(stored)['score']
  np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_part_has_its_name(target, folders, load):
  client, query = (
    Client(target, 'p2t', deadline=limits.ANSWER),
    load(folders['p2t']).encode(['a'], 'left'),
  )
  found = client.call('head', 'left_part', {'left': query})['part']
  np.testing.assert_allclose(found, load(folders['p2t']).parts(query, 'left'), atol=1e-5)
  right = client.encode(['red'], 'right')
  assert list(client.call('head', 'attention', {'left': query, 'right': right})) == ['attention']
  text = {'text': np.array([b'red'], object)}
  assert list(client.call('encoder', 'left_tokens', text)) == ['tokens']


@pytest.mark.parametrize('name', ['p2t', 'stsb'])
def test_online_by_litert_ranks_too(folders, load, name):
  scorer = load(folders[name])
  vectors = scorer.encode(PRODUCTS, 'right')
  version = Version(name, f'{folders[name]}/online', 1, 'litert', 'litert')
  inputs = {'text': np.array([b'nike shoes'], object), 'candidates': vectors}
  found = version.signature('serving_default').call(inputs)
  assert found['order'].tolist() == [row for row, _ in scorer.rank('nike shoes', vectors)]


@pytest.mark.parametrize('name', ['p2t', 'stsb'])
def test_requests_that_were_joined_have_one_order(target, monkeypatch, name):
  client = Client(target, name, deadline=limits.ANSWER)
  vectors = client.encode(PRODUCTS[:3], 'right')
  scores, order = client.rank('nike shoes', vectors)
  monkeypatch.setattr(clients, '_CANDIDATES', 2)
  joined, joined_order = client.rank('nike shoes', vectors)
  np.testing.assert_allclose(joined, scores, atol=1e-5)
  assert joined_order.tolist() == order.tolist()


@pytest.mark.parametrize('name', ['snli', 'mnli'])
@pytest.mark.parametrize('candidates', [1024, 2])
def test_classes_have_scores_and_no_order(target, folders, load, monkeypatch, candidates, name):
  monkeypatch.setattr(clients, '_CANDIDATES', candidates)
  client, scorer = Client(target, name, deadline=limits.ANSWER), load(folders[name])
  vectors = client.encode(PRODUCTS, 'right')
  scores, order = client.rank('red', vectors)
  assert (scores.shape, order) == ((5, 3), None)
  np.testing.assert_allclose(scores, scorer.score(['red'] * 5, vectors), atol=1e-5)


@pytest.mark.parametrize('name', ['p2t', 'stsb'])
def test_word_ids_outside_the_vocabulary_are_refused(target, name):
  client = Client(target, name, deadline=limits.ANSWER)
  for wrong in (10**6, -1):
    with pytest.raises(ServingError, match=rf'= {wrong} is not in \[0, '):
      client.encode_ids(np.array([[2, wrong, 3]]), 'left')
