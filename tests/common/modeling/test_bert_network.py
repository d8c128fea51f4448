"""The encoder's config and its construction."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from common.errors import InputError
from common.modeling import bert_network
from common.modeling.bert_network import EncoderConfig
from tests.common.modeling.slow_bert import BERT_JSON, DEPTH, TINY, inputs


@pytest.fixture
def encoder():
  return bert_network.build(TINY)


@pytest.mark.parametrize(
  'change, message',
  [
    ({'vocab_size': 0}, 'vocab_size=0: an integer of 1 or more'),
    ({'num_layers': 1.5}, 'num_layers=1.5: an integer of 1 or more'),
    ({'inner_dim': '12'}, "inner_dim='12': an integer of 1 or more"),
    ({'max_positions': True}, 'max_positions=True: an integer of 1 or more'),
    ({'num_heads': 3}, 'hidden_size=8: not a multiple of 3 heads'),
    ({'activation': 'swish'}, "activation='swish': choose one of gelu, gelu_tanh, relu"),
    ({'dropout': 1.0}, r'dropout=1.0: a rate in \[0, 1\)'),
    ({'dropout': -0.1}, r'dropout=-0.1: a rate in \[0, 1\)'),
  ],
)
def test_a_wrong_config_is_refused(change, message):
  with pytest.raises(InputError, match=message):
    dataclasses.replace(TINY, **change)


@pytest.mark.parametrize(
  'google, name, activation',
  [
    (True, 'gelu', 'gelu_tanh'),
    (False, 'gelu', 'gelu'),
    (False, 'gelu_new', 'gelu_tanh'),
    (False, 'gelu_pytorch_tanh', 'gelu_tanh'),
    (True, 'relu', 'relu'),
    (False, 'relu', 'relu'),
  ],
)
def test_json_config(google, name, activation):
  config = EncoderConfig.from_json(BERT_JSON | {'hidden_act': name}, google=google)
  assert config == dataclasses.replace(TINY, activation=activation)


@pytest.mark.parametrize(
  'change, message',
  [
    ({'model_type': 'roberta'}, "model_type='roberta' is not supported; 'bert' is"),
    ({'position_embedding_type': 'relative_key'}, "'relative_key' is not supported; 'absolute' is"),
    ({'layer_norm_eps': 1e-5}, 'layer_norm_eps=1e-05 is not supported; 1e-12 is'),
    ({'embedding_size': 4}, 'embedding_size=4 is not supported; 8 is'),
    ({'is_decoder': True}, 'is_decoder=True is not supported; False is'),
    ({'hidden_act': 'silu'}, "hidden_act='silu': not one of gelu, gelu_new"),
    ({'hidden_size': '8'}, "hidden_size='8': an integer"),
  ],
)
def test_json_of_another_architecture_is_refused(change, message):
  with pytest.raises(InputError, match=message):
    EncoderConfig.from_json(BERT_JSON | change, google=False)


def test_json_without_a_field_is_refused():
  with pytest.raises(InputError, match="no 'intermediate_size'"):
    EncoderConfig.from_json(
      {name: of for name, of in BERT_JSON.items() if name != 'intermediate_size'}, google=True
    )


@pytest.mark.parametrize(
  'activation, value',
  [('gelu', 0.8413447), ('gelu_tanh', 0.8411920), ('relu', 1.0)],  # x * Phi(x) at 1: erf, tanh
)
def test_activation_at_one(activation, value):
  encoder = bert_network.build(dataclasses.replace(TINY, activation=activation, num_layers=1))
  (layer,) = encoder.transformer_layers
  np.testing.assert_allclose(layer._inner_activation(tf.constant(1.0)), value, atol=1e-6)


def test_build_creates_every_variable():
  encoder = bert_network.build(TINY)
  assert len(encoder.trainable_variables) == 5 + DEPTH * 16 + 2
  assert encoder.trainable_variables[0].name == 'bert/word_embeddings/embeddings:0'


def test_dropout_reaches_the_layers():
  encoder = bert_network.build(dataclasses.replace(TINY, dropout=0.25))
  config = encoder.get_config()
  assert (config['output_dropout'], config['attention_dropout']) == (0.25, 0.25)


@pytest.mark.parametrize('rows', [1, 3, 5])
def test_output_range_is_a_slice_of_the_full_output(encoder, rows):
  sliced = bert_network.build(TINY, output_range=rows)
  sliced.set_weights(encoder.get_weights())
  full, part = encoder(inputs()), sliced(inputs())
  assert part['sequence_output'].shape == (2, rows, 8)
  np.testing.assert_allclose(
    part['sequence_output'], full['sequence_output'][:, :rows], atol=1e-5, rtol=0
  )
  np.testing.assert_allclose(part['pooled_output'], full['pooled_output'], atol=1e-5, rtol=0)
