"""The client and an export behind the local server, by gRPC and by REST."""

import numpy as np
import pytest

from common.export import student_export
from common.local_server.__main__ import ServerConfig, serving
from common.serving import client as clients
from common.serving.client import Client
from dipair.scorer import Scorer

# The first and the fourth tie.
PRODUCTS = ['red throw', 'black nike shoes', 'x y', 'red throw', 'blue queen blanket']


@pytest.fixture(name='folders', scope='module')
def _folders(exported, tiny, tmp_path_factory):
  """Exports by name: of one score, and of three classes."""
  classes = str(tmp_path_factory.mktemp('classes') / 'export')
  student_export.write(
    classes,
    *tiny(outputs=3),
    slots=('left', 'right'),
    task='multiclass',
    samples=(['red', 'a'], PRODUCTS[:2]),
  )
  return {'p2t': exported[0], 'snli': classes}


@pytest.fixture(name='target', scope='module', params=['grpc', 'rest'])
def _target(request, folders):
  models = [
    f'{name}_{part}={folder}/{part}'
    for name, folder in folders.items()
    for part in ('encoder', 'head', 'online')
  ]
  with serving(ServerConfig(models=tuple(models), port=0, rest_api_port=0)) as (grpc, rest):
    yield f'localhost:{grpc.port}' if request.param == 'grpc' else f'http://localhost:{rest.port}'


def test_a_ranking_is_the_servers(target, folders):
  client, scorer = Client(target, 'p2t', deadline=60), Scorer.load(folders['p2t'])
  vectors = client.encode(PRODUCTS, 'right')
  scores, order = client.rank('nike shoes', vectors)
  expected = scorer.rank('nike shoes', vectors)
  assert order.tolist() == [row for row, _ in expected]  # ties as they came
  np.testing.assert_allclose(scores[order], [score for _, score in expected], atol=1e-5)
  queries = client.encode(['nike shoes'] * len(PRODUCTS), 'left')
  np.testing.assert_allclose(client.score(queries, vectors), scores, atol=1e-5)


def test_the_servers_order_is_taken_as_it_is(monkeypatch):
  client = Client('localhost:1', 'p2t')
  answer = {'scores': np.array([0.1, 0.2, 0.3]), 'order': np.array([0, 2, 1])}
  monkeypatch.setattr(client, 'call', lambda *of: answer)
  scores, order = client.rank('a', np.zeros([3, 2]))
  assert (scores.tolist(), order.tolist()) == ([0.1, 0.2, 0.3], [0, 2, 1])


def test_requests_that_were_joined_have_one_order(target, monkeypatch):
  client = Client(target, 'p2t', deadline=60)
  vectors = client.encode(PRODUCTS[:3], 'right')
  scores, order = client.rank('nike shoes', vectors)
  monkeypatch.setattr(clients, '_CANDIDATES', 2)
  joined, joined_order = client.rank('nike shoes', vectors)
  np.testing.assert_allclose(joined, scores, atol=1e-5)
  assert joined_order.tolist() == order.tolist()


@pytest.mark.parametrize('candidates', [1024, 2])
def test_classes_have_scores_and_no_order(target, folders, monkeypatch, candidates):
  monkeypatch.setattr(clients, '_CANDIDATES', candidates)
  client, scorer = Client(target, 'snli', deadline=60), Scorer.load(folders['snli'])
  vectors = client.encode(PRODUCTS, 'right')
  scores, order = client.rank('red', vectors)
  assert (scores.shape, order) == ((5, 3), None)
  np.testing.assert_allclose(scores, scorer.score(['red'] * 5, vectors), atol=1e-5)


def test_word_ids_outside_the_vocabulary_are_refused(target):
  client = Client(target, 'p2t', deadline=60)
  for wrong in (10**6, -1):
    with pytest.raises(clients.ServingError, match=rf'= {wrong} is not in \[0, '):
      client.encode_ids(np.array([[2, wrong, 3]]), 'left')
