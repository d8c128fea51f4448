"""Numbers of vectors in any units, in the layer in an encoder's place, at the start and after."""

import types
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from common.data.tokenization import Tokenizer
from common.export import encoder_fingerprint
from common.modeling import checkpoints
from common.scoring import litert_encoder
from common.scoring.runtime import EncoderFunction
from common.training import strategies
from dipair import initialization
from dipair.config import StudentConfig
from dipair.encoder import VectorTokens
from dipair.student import DiPair

VECTORS = np.eye(3, dtype=np.float32) + np.float32(0.25)


def test_each_number_of_a_vector_has_an_equal_share_of_the_tokens_at_the_start():
  given = np.random.default_rng(0).normal(size=[500, 3]) * (1, 1000, 0) + (0, 5, 7)
  mean, scale = initialization._units(given)
  np.testing.assert_allclose(scale, [1 / given[:, 0].std(), 1 / given[:, 1].std(), 1 / 7])
  layer, plain = VectorTokens(3, 2, 2000, 'image'), (given - mean) * scale
  kernel, bias = initialization._random(plain, layer, seed=1)
  tokens = plain @ kernel + bias
  assert np.abs(tokens.mean(0)).max() < 1e-6 and tokens.var(0).mean() == pytest.approx(1, rel=0.1)
  np.testing.assert_allclose((kernel**2).mean(1), [0.5, 0.5, 0], rtol=0.1)


def _learnt(vectors, target):
  """A layer after some steps towards tokens, and what it makes of the vectors."""
  layer = VectorTokens(4, 2, 8, 'image')
  student = types.SimpleNamespace(
    widths=(4,), projections=[layer], head=mock.Mock(), vectors=lambda x, _: layer(x)
  )
  initialization.start(student, [vectors], seed=1)
  optimizer = tf_keras.optimizers.legacy.Adam(0.05)
  for _ in range(20):
    optimizer.minimize(lambda: tf.nn.l2_loss(layer(vectors) - target), layer.trainable_variables)
  return layer, layer(vectors).numpy()


def test_vectors_in_any_units_learn_and_quantize_as_standardized_ones(tmp_path):
  rng = np.random.default_rng(0)
  plain = rng.normal(size=[64, 4]).astype(np.float32)
  year = plain * np.float32([9, 1, 1, 1]) + np.float32([2005, 0, 0, 0])
  target = rng.normal(size=[64, 2, 8]).astype(np.float32)
  with strategies.precision('mixed_bfloat16'):
    (_, expected), (layer, exact) = (_learnt(vectors, target) for vectors in (plain, year))
  np.testing.assert_allclose(exact, expected, atol=0.02)
  words = Tokenizer(checkpoints.read('random-tiny').vocabulary, True)
  function = {'right': EncoderFunction(layer, 8, 4)}
  litert_encoder.write(str(tmp_path), function, layer.variables, words, batches=(32,))
  found, runtime = np.zeros_like(exact), litert_encoder.LiteRTEncoder(str(tmp_path), 'int8', 1)
  runtime.encode(year, 'right', found, 0, lambda _: None)
  assert np.corrcoef(found.ravel(), exact.ravel())[0, 1] > 0.999


def test_a_timestamp_leaves_small_numbers_their_share():
  given = np.random.default_rng(0).normal(size=[500, 2]) * (1e7, 1) + (1.6e9, 0)
  _, scale = initialization._units(given.astype(np.float32))
  np.testing.assert_allclose(given.std(0) * scale, 1, rtol=1e-3)


def test_units_are_saved_with_the_student_and_stand_in_its_fingerprint(tmp_path):
  config = StudentConfig(
    pretrained='random-tiny', encoder_layers=1, max_lengths=(2, 2), output_tokens=(2, 2)
  )
  student, tokenizer = DiPair.from_pretrained(config, 1, (0, 3))
  before = encoder_fingerprint.of_student(student, tokenizer, ('left', 'right'))
  student.projections[1].mean.assign([1, 2, 3])
  student.projections[1].scale.assign([2, 2, 2])
  student.save(str(tmp_path), tokenizer)
  loaded, _ = DiPair.load(str(tmp_path))
  after = encoder_fingerprint.of_student(loaded, tokenizer, ('left', 'right'))
  assert after == encoder_fingerprint.of_student(student, tokenizer, ('left', 'right')) != before
  np.testing.assert_array_equal(loaded.vectors(VECTORS, 1), student.vectors(VECTORS, 1))
