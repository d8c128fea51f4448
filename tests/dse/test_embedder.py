"""An exported DSE student: the plain score, however it is asked for."""

import itertools
import os

import numpy as np
import pytest
import tensorflow as tf

from common.errors import InputError
from common.export import student_export
from common.scoring import exported
from dse.embedder import Embedder

LEFT = ['a red dog', 'blue', 'two green cats run', 'black']
RIGHT = ['red', 'the blue one', 'a cat']


@pytest.fixture(name='embedders', scope='module')
def _embedders(tiny, tmp_path_factory):
  """Embedders of one output and one encoder, and of three and two."""
  found = []
  for options in ({}, {'outputs': 3, 'shared_encoder': False}):
    folder = str(tmp_path_factory.mktemp('run') / 'export')
    samples = (LEFT, LEFT[::-1])
    slots = ('left', 'right')
    result = student_export.write(
      folder, *tiny(**options), slots=slots, task='regression', samples=samples
    )
    assert result['max_difference'] <= 1e-5
    found.append(Embedder.load(folder))
    found[-1].folder = folder
  return found


def pairwise(embedder):
  """Scores of all pairs by the plain form."""
  pairs = list(itertools.product(LEFT, RIGHT))
  scores = embedder.score([a for a, _ in pairs], [b for _, b in pairs])
  return scores.reshape([len(LEFT), len(RIGHT), *scores.shape[1:]])


def test_one_text_or_none_is_refused(embedders):
  with pytest.raises(InputError, match='^left texts: a list of texts is needed, not one text$'):
    embedders[0].encode('a red dog')
  with pytest.raises(InputError, match='^right texts: a list of texts is needed, not one text$'):
    embedders[0].score_all_pairs(LEFT, 'red')
  with pytest.raises(InputError, match='^left texts, row 4: nan is not a text$'):
    embedders[0].score_all_pairs([*LEFT, float('nan')])


@pytest.mark.parametrize('number', [0, 1])
@pytest.mark.parametrize('block', [2, 1024])
def test_all_pairs_are_scored_as_each_pair_is(embedders, number, block, monkeypatch):
  monkeypatch.setattr('common.scoring.tensorflow_head._BLOCK', block)
  embedder = embedders[number]
  u, v = embedder.encode(LEFT), embedder.encode(RIGHT, 'right')
  found = embedder.score_all_pairs(u, v)
  np.testing.assert_allclose(found, pairwise(embedder), atol=1e-5)
  assert np.ptp(found) > 1e-4


def test_blocks_a_file_and_the_best_alone_are_the_same_scores(embedders, tmp_path, monkeypatch):
  embedder = embedders[0]
  whole = embedder.score_all_pairs(LEFT)
  monkeypatch.setattr('dse.embedder._SCORES_HELD', 8)  # two rows at a time
  path = str(tmp_path / 'scores.npy')
  np.testing.assert_allclose(embedder.score_all_pairs(LEFT, out=path), whole, atol=1e-6)
  np.testing.assert_allclose(np.load(path), whole, atol=1e-6)
  assert [file.name for file in tmp_path.iterdir()] == ['scores.npy']
  numbers, scores = embedder.score_all_pairs(LEFT, top_k=3)
  np.testing.assert_allclose(scores, -np.sort(-whole, axis=1)[:, :3], atol=1e-6)
  np.testing.assert_allclose(np.take_along_axis(whole, numbers, 1), scores, atol=1e-6)


def test_rank_is_the_order_of_scores_with_and_without_parts(embedders):
  embedder = embedders[0]
  v = embedder.encode(RIGHT, 'right')
  ranked = embedder.rank(LEFT[0], v, top_k=2)
  expected = pairwise(embedder)[0]
  np.testing.assert_allclose([s for _, s in ranked], -np.sort(-expected)[:2], atol=1e-5)
  given = embedder.rank(embedder.encode(LEFT[:1])[0], v, top_k=2, parts=embedder.parts(v, 'right'))
  np.testing.assert_allclose([s for _, s in given], [s for _, s in ranked], atol=1e-6)


def test_online_scores_and_order_are_those_of_encode_and_rank(embedders):
  for embedder in embedders:
    candidates = embedder.encode([*RIGHT, RIGHT[0]], 'right')  # the last ties with the first
    signatures = exported.load(os.path.join(embedder.folder, 'online')).signatures
    found = signatures['serving_default'](
      text=tf.constant(LEFT[:1]), candidates=tf.constant(candidates)
    )
    scores = embedder.score(LEFT[:1] * 4, candidates)
    np.testing.assert_allclose(found['scores'], scores, atol=1e-5)
    if embedder.outputs == 1:
      ranked = [i for i, _ in embedder.rank(LEFT[0], candidates)]
      assert found['order'].numpy().tolist() == ranked
    else:
      assert set(found) == {'scores'}


def test_what_a_model_cannot_do_is_refused(embedders):
  with pytest.raises(InputError, match='top_k takes a model of one output'):
    embedders[1].score_all_pairs(LEFT, top_k=1)
  with pytest.raises(InputError, match='rank takes a model of two sides and one output'):
    embedders[1].rank('red', RIGHT)
  with pytest.raises(InputError, match='right: vectors of shape'):
    embedders[0].rank('red', np.zeros([2, 3], np.float32))


def test_nothing_is_scored_as_nothing(embedders):
  embedder, none = embedders[0], np.zeros([0, embedders[0].vector_shapes['left'][0]], np.float32)
  assert embedder.rank('red', none) == []
  assert embedder.score_all_pairs(LEFT, none).shape == (4, 0)
  assert embedder.score_all_pairs(none, LEFT).shape == (0, 4)
  assert [part.shape for part in embedder.score_all_pairs(LEFT, none, top_k=2)] == [(4, 0)] * 2
