"""An exported DSE student: all pairs' scores are the plain ones, however they are asked for."""

import errno
import itertools

import numpy as np
import pytest

from common import files
from common.errors import InputError
from common.vectors.values import Stored
from dse.embedder import Embedder

LEFT = ['a red dog', 'blue', 'two green cats run', 'black']
RIGHT = ['red', 'the blue one', 'a cat']
OTHER_LENGTHS = {'max_lengths': (4, 16), 'encoder_layers': 1, 'pooled_layers': 1}


@pytest.fixture(name='embedders', scope='module')
def _embedders(exported, classes):
  """Embedders of one output and one encoder, and of three and two."""
  return [Embedder.load(one.folder) for one in (exported, classes)]


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


@pytest.mark.usefixtures('tensorflow_alone')
def test_the_side_is_left_out_only_where_both_encode_alike(embedders, export):
  one = embedders[0]
  np.testing.assert_array_equal(one.encode(LEFT), one.encode(LEFT, 'right'))
  for other in (embedders[1], Embedder.load(export('dse', **OTHER_LENGTHS).folder)):
    with pytest.raises(InputError, match="^side: 'left' or 'right' is needed; each side of this"):
      other.encode(LEFT)


@pytest.mark.parametrize('number', [0, 1])
@pytest.mark.parametrize('block', [2, 1024])
def test_all_pairs_are_scored_as_each_pair_is(embedders, number, block, monkeypatch):
  monkeypatch.setattr('common.scoring.tensorflow_runtimes._BLOCK', block)
  embedder = embedders[number]
  u, v = embedder.encode(LEFT, 'left'), embedder.encode(RIGHT, 'right')
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


def test_texts_of_both_sides_are_encoded_once_where_the_encoder_is_one(embedders, monkeypatch):
  sides, encode = [], Embedder.encode_listed
  monkeypatch.setattr(
    Embedder,
    'encode_listed',
    lambda self, texts, side: sides.append(side) or encode(self, texts, side),
  )
  for embedder in embedders:
    embedder.score_all_pairs(LEFT)
  assert sides == ['left', 'left', 'right']


@pytest.mark.usefixtures('tensorflow_alone')
def test_texts_are_cut_at_their_own_sides_length(export):
  embedder = Embedder.load(export('dse', **OTHER_LENGTHS).folder)
  texts = ['red wide nike shoes', 'a red dog', 'blue']  # the first is longer than a left text
  with pytest.raises(InputError, match='a text length of its own: right, of encode'):
    embedder.score_all_pairs(vectors := embedder.encode(texts, 'left'))
  expected = embedder.score_all_pairs(vectors, embedder.encode(texts, 'right'))
  assert np.abs(expected - embedder.score_all_pairs(vectors, vectors)).max() > 1e-4
  np.testing.assert_allclose(embedder.score_all_pairs(texts), expected, atol=1e-6)


def test_a_full_disk_has_the_name_of_its_file(embedders, tmp_path, monkeypatch):
  def refuse(_):
    raise OSError(errno.ENOSPC, 'No space left on device')

  monkeypatch.setattr(files, 'reserve', refuse)
  with pytest.raises(OSError, match="No space left on device: '.*/scores.npy.tmp'$"):
    embedders[0].score_all_pairs(LEFT, out=tmp_path / 'scores.npy')


def test_texts_that_come_one_by_one_are_scored(embedders, tmp_path):
  whole = embedders[0].score_all_pairs(LEFT)
  found = embedders[0].score_all_pairs((text for text in LEFT), out=tmp_path / 'scores.npy')
  np.testing.assert_allclose(found, whole, atol=1e-6)
  with pytest.raises(InputError, match='out=.*none/a.npy: there is no folder .*none$'):
    embedders[0].score_all_pairs(LEFT, out=tmp_path / 'none' / 'a.npy')


@pytest.mark.parametrize('number', [0, 1])
def test_texts_in_an_array_are_scored_as_in_a_list(embedders, number):
  whole = embedders[number].score_all_pairs(LEFT)
  for dtype in (None, object, bytes):
    found = embedders[number].score_all_pairs(np.array(LEFT, dtype))
    np.testing.assert_allclose(found, whole, atol=1e-6)


def test_what_a_model_cannot_do_is_refused(embedders):
  with pytest.raises(InputError, match='top_k takes a model of one output'):
    embedders[1].score_all_pairs(LEFT, top_k=1)
  with pytest.raises(
    InputError, match="an encoder or a text length of its own: right, of encode.texts, 'right'."
  ):
    embedders[1].score_all_pairs(embedders[1].encode(LEFT, 'left'))  # right ones are no left ones
  with pytest.raises(
    InputError, match="an encoder or a text length of its own: right, of encode.texts, 'right'."
  ):
    embedders[1].score_all_pairs(Stored(embedders[1].encode(LEFT, 'left'), None))
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
