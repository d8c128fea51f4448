"""The bidirectional LSTM against a slow one in numpy, text by text; its embeddings."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from scipy.special import expit

from common.errors import InputError
from common.modeling import encoders
from common.modeling.bilstm import BiLSTM, BiLSTMConfig
from tests.common.modeling.slow_bert import WIDTH, H, V, random_tensors, write

E, UNITS = 5, 3  # width of the embeddings, and of a direction
TEXTS = ([2, 5, 3], [2, 7, 6, 7, 4, 3], [3])


def slow_lstm(x, kernel, recurrent, bias):
  """Outputs [n, UNITS] of one direction (Hochreiter and Schmidhuber, 1997)."""
  h, c, outputs = np.zeros(UNITS), np.zeros(UNITS), []
  for x_t in x:
    i, f, new, o = np.split(x_t @ kernel + h @ recurrent + bias, 4)
    c = expit(f) * c + expit(i) * np.tanh(new)
    h = expit(o) * np.tanh(c)
    outputs.append(h)
  return np.stack(outputs)


def slow(encoder, ids):
  embeddings, *weights = (v.numpy().astype(np.float64) for v in encoder.variables)
  x = embeddings[ids]
  forward, backward = slow_lstm(x, *weights[:3]), slow_lstm(x[::-1], *weights[3:])[::-1]
  return np.concatenate([forward, backward], 1)


@pytest.mark.parametrize('length', [6, 9])
def test_tokens_are_the_slow_ones_however_a_text_is_padded(length):
  tf_keras.utils.set_random_seed(2)
  encoder = encoders.build(BiLSTMConfig(8, E, 2 * UNITS), pad_id=0)
  for variable in encoder.variables:
    variable.assign(tf.random.normal(variable.shape))
  ids = np.array([text + [0] * (length - len(text)) for text in TEXTS], np.int32)
  found = encoder(tf.constant(ids))
  for text, tokens, mask in zip(TEXTS, found.tokens, found.mask, strict=True):
    assert mask.numpy().tolist() == [1] * len(text) + [0] * (length - len(text))
    np.testing.assert_allclose(tokens[: len(text)], slow(encoder, text), atol=1e-5)


@pytest.mark.parametrize('kind', ['bert', 'electra'])
def test_it_starts_from_the_word_embeddings_of_a_checkpoint(tmp_path, kind):
  tensors = random_tensors(kind)
  pretrained = encoders.read(f'bilstm:{write(tmp_path / "hub", kind, tensors)}')
  assert pretrained.config == BiLSTMConfig(V, WIDTH[kind], H)
  encoder = BiLSTM(pretrained.config, pad_id=0)
  encoder.restore(pretrained)
  words = tensors[f'{kind}.embeddings.word_embeddings.weight'].astype(np.float64)
  expected = (words - words.mean(0)) / words.std()
  np.testing.assert_allclose(encoder.embeddings.get_weights()[0], expected, atol=1e-5)


def test_what_a_bilstm_cannot_be_is_refused(build):
  with pytest.raises(InputError, match='^--pooled_layers=2: bilstm:random-tiny has 1$'):
    build('dse', pretrained='bilstm:random-tiny')
  with pytest.raises(InputError, match='^/nowhere: no such folder'):
    encoders.read('bilstm:/nowhere')
  with pytest.raises(InputError, match='^hidden_size=5: two directions need an even number'):
    BiLSTMConfig(8, 4, 5)
