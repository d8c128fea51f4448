"""Distillation of a language model: where the student starts, and its loss by hand."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from scipy.special import log_softmax

from common.data.tokenization import Tokenizer
from common.errors import InputError
from common.modeling import bert_weights, checkpoints
from common.modeling.bert_network import EncoderConfig
from common.pretrain import checkpoint, distilbert
from common.pretrain.batches import Batch
from common.pretrain.distilbert import Distillation
from common.pretrain.language_model import LanguageModel
from tests.common.modeling import slow_bert

WORDS = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', 'a', 'b']
TEACHER = EncoderConfig(len(WORDS), 8, 3, 2, 12, max_positions=6, dropout=0.0)
BATCH = Batch(
  ids=tf.constant([[2, 5, 4, 3, 0], [2, 4, 5, 6, 3]]),
  segments=tf.zeros([2, 5], tf.int32),
  positions=tf.constant([[2, 1], [1, 0]]),
  labels=tf.constant([[6, 5], [5, 0]]),
  weights=tf.constant([[1.0, 1.0], [1.0, 0.0]]),
  next_sentence=tf.constant([0, 0]),
)


@pytest.fixture(name='pretrained')
def _pretrained(tmp_path):
  """A teacher of three layers, with its head, as a folder that was read."""
  model = LanguageModel(TEACHER, 0, next_sentence=False)
  for variable in model.variables:
    variable.assign(tf.random.stateless_normal(variable.shape, [len(variable.shape), 3]))
  tokenizer = Tokenizer(WORDS, lower_case=True)
  checkpoint.write(str(tmp_path), model, tokenizer, one_segment=False)
  return checkpoints.read(str(tmp_path))


def distillation(pretrained):
  student = LanguageModel(distilbert.student_config(pretrained.config), 0, next_sentence=False)
  return Distillation(student, pretrained)


def test_a_student_starts_from_every_other_layer_and_the_head(pretrained):
  made = distillation(pretrained)
  teacher, student = (
    bert_weights.of_encoder(model.encoder.network) for model in (made.teacher, made.student)
  )
  assert {name.split('/')[2] for name in student if '/layer_' in name} == {'layer_0', 'layer_1'}
  for name, values in student.items():
    np.testing.assert_array_equal(values, teacher[name.replace('layer_1/', 'layer_2/')])
  heads = [model.masked_lm.get_weights() for model in (made.teacher, made.student)]
  for expected, found in zip(*heads, strict=True):
    np.testing.assert_array_equal(found, expected)


def test_the_loss_by_hand(pretrained, monkeypatch):
  monkeypatch.setattr(distilbert, 'TEMPERATURE', 3.0)
  weights = (30.0, 2.0, 100.0)  # the terms' sizes are then alike
  monkeypatch.setattr(distilbert, 'WEIGHTS', weights)
  made = distillation(pretrained)
  for variable in made.student.trainable_variables:
    variable.assign_add(
      tf.random.stateless_normal(variable.shape, [len(variable.shape), 5], 0, 0.3)
    )
  t, s = (model(*BATCH[:3]) for model in (made.teacher, made.student))
  expected = []
  for row, (predictions, tokens) in enumerate(
    [(2, 4), (1, 5)]
  ):  # without what only fills the batch
    kl, cross, turned = [], [], []
    for i in range(predictions):
      p, q = (log_softmax(x.words[row, i].numpy() / 3) for x in (t, s))
      kl.append(9 * np.sum(np.exp(p) * (p - q)))
      cross.append(-log_softmax(s.words[row, i].numpy())[BATCH.labels[row, i]])
    for u, v in zip(t.tokens[row, :tokens].numpy(), s.tokens[row, :tokens].numpy(), strict=True):
      turned.append(1 - u @ v / np.linalg.norm(u) / np.linalg.norm(v))
    terms = [np.mean(kl), np.mean(cross), np.mean(turned)]
    assert min(terms) > 0.01
    expected.append(np.dot(weights, terms))
  np.testing.assert_allclose(made.losses(BATCH), expected, rtol=2e-5)


def test_what_cannot_teach_is_refused(pretrained, tmp_path):
  distilbert.check(pretrained)
  classifier = slow_bert.write(tmp_path / 'hub', 'bert', slow_bert.random_tensors('bert'))
  with pytest.raises(InputError, match='^--distil_from: .*hub has no head for masked tokens'):
    distilbert.check(checkpoints.read(classifier))
  of_tensorflow = dataclasses.replace(pretrained, format='tf1')
  with pytest.raises(InputError, match='is a TensorFlow checkpoint, whose head .* is not read'):
    distilbert.check(of_tensorflow)
