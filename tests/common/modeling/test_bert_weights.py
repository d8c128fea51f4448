"""Weights of a BERT by TF1's names: their strict assignment to an encoder, and back."""

import numpy as np
import pytest
import tensorflow as tf

from common.errors import InputError
from common.modeling import bert_network, bert_weights
from common.modeling.bert_network import EncoderConfig

TINY = EncoderConfig(
  vocab_size=11, hidden_size=8, num_layers=3, num_heads=2, inner_dim=12, max_positions=7
)
INPUTS = {
  'input_word_ids': tf.constant([[2, 5, 9, 3, 0], [2, 7, 7, 8, 3]]),
  'input_mask': tf.constant([[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]),
  'input_type_ids': tf.constant([[0, 0, 1, 1, 0], [0, 1, 1, 1, 1]]),
}


def _weights(encoder) -> bert_weights.Weights:
  """Random weights by TF1 name, in TF1 shapes written out by hand."""
  rng = np.random.default_rng(0)
  shapes = {
    'bert/embeddings/word_embeddings': (11, 8),
    'bert/embeddings/position_embeddings': (7, 8),
    'bert/embeddings/token_type_embeddings': (2, 8),
    'bert/embeddings/LayerNorm/gamma': (8,),
    'bert/embeddings/LayerNorm/beta': (8,),
    'bert/pooler/dense/kernel': (8, 8),
    'bert/pooler/dense/bias': (8,),
  }
  for i in range(len(encoder.transformer_layers)):
    scope = f'bert/encoder/layer_{i}/'
    for dense, inputs, outputs in (
      ('attention/self/query', 8, 8),
      ('attention/self/key', 8, 8),
      ('attention/self/value', 8, 8),
      ('attention/output/dense', 8, 8),
      ('intermediate/dense', 8, 12),
      ('output/dense', 12, 8),
    ):
      shapes |= {scope + dense + '/kernel': (inputs, outputs), scope + dense + '/bias': (outputs,)}
    for norm in ('attention/output/LayerNorm', 'output/LayerNorm'):
      shapes |= {scope + norm + '/gamma': (8,), scope + norm + '/beta': (8,)}
  return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.fixture
def encoder():
  return bert_network.build(TINY)


@pytest.fixture
def weights(encoder):
  return _weights(encoder)


def test_assign_sets_every_variable(encoder, weights):
  bert_weights.assign(encoder, weights)
  names = bert_weights.places(3)
  assert names.keys() == weights.keys()
  total = sum(float(tf.reduce_sum(tf.abs(v))) for v in encoder.trainable_variables)
  assert total == pytest.approx(sum(np.abs(w).sum() for w in weights.values()), rel=1e-5)


def test_assign_takes_heads_split_or_merged(encoder, weights):
  bert_weights.assign(encoder, weights)
  merged = encoder(INPUTS)['pooled_output'].numpy()
  scope = 'bert/encoder/layer_0/attention/'
  weights[scope + 'self/query/kernel'] = weights[scope + 'self/query/kernel'].reshape(8, 2, 4)
  weights[scope + 'self/query/bias'] = weights[scope + 'self/query/bias'].reshape(2, 4)
  weights[scope + 'output/dense/kernel'] = weights[scope + 'output/dense/kernel'].reshape(2, 4, 8)
  other = bert_network.build(TINY)
  bert_weights.assign(other, weights)
  np.testing.assert_array_equal(other(INPUTS)['pooled_output'], merged)


def test_assign_names_all_that_does_not_fit_and_sets_nothing(encoder, weights):
  before = encoder.get_weights()
  scope = 'bert/encoder/layer_1/'
  del weights[scope + 'output/dense/bias']
  weights[scope + 'intermediate/dense/kernel'] = np.zeros((8, 9), np.float32)
  weights[scope + 'attention/self/key/kernel'] = np.zeros((8, 4, 2), np.float32)  # other heads
  weights['bert/extra'] = np.zeros((3,), np.float32)
  with pytest.raises(InputError) as error:
    bert_weights.assign(encoder, weights)
  assert str(error.value) == (
    'the weights do not fit: '
    'bert/encoder/layer_1/attention/self/key/kernel is (8, 4, 2), the encoder needs (8, 2, 4); '
    'bert/encoder/layer_1/intermediate/dense/kernel is (8, 9), the encoder needs (8, 12); '
    'missing bert/encoder/layer_1/output/dense/bias (8,); '
    'surplus bert/extra (3,)'
  )
  for old, new in zip(before, encoder.get_weights(), strict=True):
    np.testing.assert_array_equal(old, new)


def test_a_long_list_of_problems_is_cut(encoder):
  with pytest.raises(InputError, match=r'; and 42 more$'):  # 53 without the pooler, and a surplus
    bert_weights.assign(encoder, {'bert/extra': np.zeros(3, np.float32)})


def test_half_a_pooler_is_missing_a_weight(encoder, weights):
  with pytest.raises(InputError, match=r'fit: missing bert/pooler/dense/bias \(8,\)$'):
    bert_weights.assign(encoder, _without(weights, 'bert/pooler/dense/bias'))


def test_a_pooler_that_is_absent_stays_as_initialized(encoder, weights):
  before = encoder.pooler_layer.get_weights()
  pooler = [name for name in weights if 'pooler' in name]
  bert_weights.assign(encoder, _without(weights, *pooler))
  for old, new in zip(before, encoder.pooler_layer.get_weights(), strict=True):
    np.testing.assert_array_equal(old, new)


def test_an_encoder_gives_what_it_was_given(encoder, weights):
  bert_weights.assign(encoder, weights)
  found = bert_weights.of_encoder(encoder)
  assert found.keys() == weights.keys()
  for name, array in found.items():
    np.testing.assert_array_equal(array, weights[name])


def _without(items: dict, *keys: str) -> dict:
  return {key: value for key, value in items.items() if key not in keys}
