"""Truncation, projection, and the contract that a text's vectors depend on it alone."""

import numpy as np
import pytest
import tensorflow as tf

from common.modeling.bert_network import EncoderConfig
from common.training import strategies
from dipair.encoder import Projection, TokenEncoder

CONFIG = EncoderConfig(
  vocab_size=50, hidden_size=16, num_layers=2, num_heads=2, inner_dim=32, max_positions=32
)
IDS = np.array([[5, 6, 7, 8, 9, 0], [5, 6, 0, 0, 0, 0]], np.int32)


def full_output(encoder, ids):
  return encoder.encoder(tf.constant(ids)).tokens.numpy()


@pytest.mark.parametrize('dim', [0, 4])
def test_projected_tokens_are_float32_whatever_trains(dim):
  with strategies.precision('mixed_bfloat16'):
    projection = Projection(3, dim, 'p')
  tokens = tf.constant([[[1.0, 1 / 3, 0], [0, 0, 0]]])
  found = projection(tokens)
  assert found.dtype == tf.float32 and not found[0, 1].numpy().any()
  if not dim:
    np.testing.assert_array_equal(found, tokens)


def test_the_last_tokens_are_those_before_the_padding():
  encoder = TokenEncoder(CONFIG, 3, 'last', pad_id=0)
  whole = full_output(encoder, IDS)
  kept = encoder(tf.constant(IDS), 3).numpy()
  np.testing.assert_allclose(kept[0], whole[0, 2:5], atol=1e-6)
  np.testing.assert_allclose(kept[1, :2], whole[1, :2], atol=1e-6)
  assert not kept[1, 2].any()


def test_the_first_tokens_are_exact_and_rows_past_the_end_are_zero():
  encoder = TokenEncoder(CONFIG, 3, 'first', pad_id=0)
  whole = TokenEncoder(CONFIG, 3, 'last', pad_id=0)
  for variable, other in zip(whole.variables, encoder.variables, strict=True):
    variable.assign(other)
  kept = encoder(tf.constant(IDS), 3).numpy()
  np.testing.assert_allclose(kept[0], full_output(whole, IDS)[0, :3], atol=1e-6)
  np.testing.assert_allclose(kept[1, :2], full_output(whole, IDS)[1, :2], atol=1e-6)
  assert not kept[1, 2].any()


def test_the_mean_of_all_tokens_stands_where_cls_is():
  encoder = TokenEncoder(CONFIG, 3, 'mean', pad_id=0)
  whole, kept = full_output(encoder, IDS), encoder(tf.constant(IDS), 3).numpy()
  np.testing.assert_allclose(kept[:, 0], [whole[0, :5].mean(0), whole[1, :2].mean(0)], atol=1e-6)
  np.testing.assert_allclose(kept[0, 1:], whole[0, 1:3], atol=1e-6)
  assert not kept[1, 2].any()
  fewer = encoder(tf.constant(IDS), 2)  # a study reads them from the kept of more
  np.testing.assert_allclose(fewer, kept[:, :2], atol=1e-6)


@pytest.mark.parametrize('selection', ['first', 'last', 'mean'])
@pytest.mark.parametrize('width', [2, 4, 12])
def test_a_texts_vectors_do_not_depend_on_padding_or_on_its_neighbours(selection, width):
  encoder = TokenEncoder(CONFIG, 4, selection, pad_id=0)
  alone = encoder(tf.constant([[5, 6]], tf.int32), 4).numpy()
  padded = np.zeros([3, width], np.int32)
  padded[:, :2] = [[9, 9], [5, 6], [7, 8]]
  among = encoder(tf.constant(padded), 4).numpy()
  np.testing.assert_allclose(among[1], alone[0], atol=1e-5)
  assert alone.shape == (1, 4, 16)


def test_projection_keeps_zero_rows_zero_and_0_means_none():
  tokens = tf.constant([[[1.0, 2.0], [0.0, 0.0]]])
  projection = Projection(2, 3, 'p')
  projection.dense.kernel.assign([[1, 0, 1], [0, 1, 1]])
  projection.dense.bias.assign([10, 20, 30])
  np.testing.assert_array_equal(projection(tokens)[0], [[11, 22, 33], [0, 0, 0]])
  assert Projection(2, 0, 'none')(tokens) is tokens
