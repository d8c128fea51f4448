"""Embedders by handle: SavedModels of texts, checkpoints; what is none is refused."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from common import files
from common.distillation import embedders
from common.errors import InputError
from common.training import strategies

TEXT = tf.TensorSpec([None], tf.string)


class Module(tf.Module):
  """Counts letters: as universal-sentence-encoder-qa, a response also has a context."""

  @tf.function
  def question(self, input):
    a, b = (tf.strings.length(tf.strings.regex_replace(input, f'[^{c}]', '')) for c in 'ab')
    return {'outputs': tf.cast(tf.stack([a, b], 1), tf.float32)}

  @tf.function
  def response(self, input, context):
    return {'outputs': self.question(input)['outputs'] + 2 * self.question(context)['outputs']}


def test_a_saved_model_of_two_sides(tmp_path):
  module, path = Module(), str(tmp_path / 'use')
  question = module.question.get_concrete_function(TEXT)
  response = module.response.get_concrete_function(TEXT, TEXT)
  signatures = {'question_encoder': question, 'response_encoder': response}
  tf.saved_model.save(module, path, signatures)
  embedder = embedders.load(path)
  np.testing.assert_allclose(embedder.encode(['aaab' * 9, 'a'], 'left')[1], [1, 0])
  np.testing.assert_allclose(embedder.encode(['b', 'aaabbbb'], 'right')[1], [0.6, 0.8], atol=1e-6)
  tf.saved_model.save(module, path, {'serving_default': question})
  assert embedders.load(path).fingerprint != embedder.fingerprint
  tf.saved_model.save(module, path, {'other': question})
  with pytest.raises(InputError, match='signatures other; question_encoder or serving_default'):
    embedders.load(path)


def test_embedders_in_a_bucket(monkeypatch):
  root = 'ram://bucket/embedders'  # in memory, by TensorFlow's file systems as gs:// is
  module, prints = Module(), []
  question = module.question.get_concrete_function(TEXT)
  for name, signatures in (('one', {'serving_default': question}), ('other', {})):
    signatures = {'question_encoder': question, 'response_encoder': question, **signatures}
    tf.saved_model.save(module, f'{root}/{name}', signatures)
    prints.append(embedders.load(f'{root}/{name}').fingerprint)
  assert len(set(prints)) == 2  # of what the files hold
  monkeypatch.setattr(embedders, '_Export', lambda folder: folder)
  files.write_json(f'{root}/one/scorer.json', {})
  assert embedders.load(f'{root}/one') == f'{root}/one'


def test_a_checkpoint(monkeypatch):
  monkeypatch.setattr(embedders, '_MAX_LENGTH', 16)  # few to convert for
  tf_keras.utils.set_random_seed(1)
  vectors = embedders.load('random-tiny').encode(['abc', 'abc d', 'abc'], 'right')
  np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
  np.testing.assert_allclose(vectors[0], vectors[2], atol=1e-6)
  with strategies.precision('mixed_bfloat16'):  # of training; nearness stays what it is
    tf_keras.utils.set_random_seed(1)
    found = embedders.load('random-tiny').encode(['abc', 'abc d'], 'right')
  np.testing.assert_allclose(found, vectors[:2], atol=1e-6)


def test_what_is_none(tmp_path):
  with pytest.raises(InputError, match='none: no such folder, nor minilm, random-tiny'):
    embedders.load(str(tmp_path / 'none'))
