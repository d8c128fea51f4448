"""The client without a server, with one that is busy, and with exports behind the local one."""

import contextlib
import time
from concurrent import futures

import grpc
import numpy as np
import pytest

from common.errors import InputError
from common.local_server.__main__ import ServerConfig, serving
from common.serving import client as clients
from common.serving.client import Client, ServingError
from common.vectors import values
from tests import limits

# The first and the fourth tie.
PRODUCTS = ['red throw', 'black nike shoes', 'x y', 'red throw', 'blue queen blanket']


@contextlib.contextmanager
def answering(answer):
  """Target of a server whose `Predict` is a function of a request's bytes and the context."""
  handler = {'Predict': grpc.unary_unary_rpc_method_handler(answer)}
  service = grpc.method_handlers_generic_handler('tensorflow.serving.PredictionService', handler)
  server = grpc.server(futures.ThreadPoolExecutor(1), [service])
  port = server.add_insecure_port('localhost:0')
  server.start()
  yield f'localhost:{port}'
  server.stop(None)


def test_the_client_repeats_what_found_the_server_unavailable():
  codes, asked = [grpc.StatusCode.UNAVAILABLE] * 2, []

  def answer(data, context):
    asked.append(data)
    if codes:
      context.abort(codes.pop(), 'busy')
    return b''

  large = np.zeros([300, 300], np.float32)  # more than gRPC keeps by itself
  with answering(answer) as target:
    assert Client(target, 'toy', deadline=limits.ANSWER).call('head', '', {'x': large}) == {}
    assert len(asked) == 3 and len(set(asked)) == 1
    codes[:] = [grpc.StatusCode.INVALID_ARGUMENT]
    with pytest.raises(ServingError, match="model 'toy_head', signature '', inputs : busy"):
      Client(target, 'toy').call('head', '', {})
    assert len(asked) == 4


def test_a_call_ends_at_its_deadline():
  with (
    answering(lambda data, context: time.sleep(1)) as target,
    pytest.raises(ServingError) as late,
  ):
    Client(target, 'toy', deadline=0.1).call('head', '', {})
  assert late.value.code == grpc.StatusCode.DEADLINE_EXCEEDED


def test_the_client_names_what_is_no_text():
  with pytest.raises(InputError, match='^http://localhost:8501: host:port of gRPC is needed'):
    Client('http://localhost:8501', 'x')
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
  ('most', 'shapes', 'sizes'),
  [
    (1024, [(1500, 2)], [1024, 476]),
    (1024, [(1500, 24, 128)], [682, 682, 136]),
    (1024, [(2, 1 << 22)], [1, 1]),
    (128, [(200, 4, 8), (200, 12, 8)], [128, 72]),
    (128, [(5, 1 << 19), (5, 1 << 19)], [2, 2, 1]),
    (128, [(0, 2)], [0]),
  ],
)
def test_the_wider_the_vectors_the_fewer_rows_a_request_has(most, shapes, sizes):
  inputs = [np.broadcast_to(np.float32(0), shape) for shape in shapes]
  found = [[len(block) for block in of] for of in clients._blocks(most, *inputs)]
  assert found == [[size] * len(shapes) for size in sizes]


@pytest.fixture(name='folders', scope='module')
def _folders(export):
  """Exports by name: of both students, of one score and of three classes."""
  return {
    'p2t': export('dipair').folder,
    'snli': export('dipair', 3, max_lengths=(8, 8)).folder,
    'stsb': export('dse').folder,
    'mnli': export('dse', 3, shared_encoder=False).folder,
  }


@pytest.fixture(name='target', scope='module')
def _target(folders):
  """Target of the local server."""
  models = [
    f'{name}_{part}={folder}/{part}'
    for name, folder in folders.items()
    for part in ('encoder', 'head', 'online')
  ]
  with serving(ServerConfig(models=tuple(models), port=0, rest_api_port=0)) as (grpc, _):
    yield f'localhost:{grpc}'


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


def test_a_part_has_its_name(target, folders, load):
  client = Client(target, 'p2t', deadline=limits.ANSWER)
  query = load(folders['p2t']).encode(['a'], 'left')
  found = client.call('head', 'left_part', {'left': query})['part']
  np.testing.assert_allclose(found, load(folders['p2t']).parts(query, 'left'), atol=1e-5)


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
      client.call('encoder', 'left_ids', {'ids': np.array([[2, wrong, 3]], np.int32)})
