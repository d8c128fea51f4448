"""Weights of a BERT by TF1's names: their strict assignment to an encoder, and back."""

import numpy as np
import pytest

from common.errors import InputError
from common.modeling import bert_network, bert_weights
from tests.common.modeling.slow_bert import TINY, inputs, random_tensors, tf1, unscoped


@pytest.fixture
def encoder():
  return bert_network.build(TINY)


@pytest.fixture
def weights():
  return tf1(unscoped('bert', random_tensors('bert')))


def test_assign_takes_heads_split_or_merged(encoder, weights):
  bert_weights.assign(encoder, weights)
  merged = encoder(inputs())['pooled_output'].numpy()
  scope = 'bert/encoder/layer_0/attention/'
  weights[scope + 'self/query/kernel'] = weights[scope + 'self/query/kernel'].reshape(8, 2, 4)
  weights[scope + 'self/query/bias'] = weights[scope + 'self/query/bias'].reshape(2, 4)
  weights[scope + 'output/dense/kernel'] = weights[scope + 'output/dense/kernel'].reshape(2, 4, 8)
  other = bert_network.build(TINY)
  bert_weights.assign(other, weights)
  np.testing.assert_array_equal(other(inputs())['pooled_output'], merged)


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
  with pytest.raises(InputError, match=r'; and 26 more$'):  # 37 without the pooler, and a surplus
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
