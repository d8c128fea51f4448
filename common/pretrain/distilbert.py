"""Language model of every other layer of a larger one, which teaches it.

DistilBERT (Sanh et al., 2019, Sec. 2):

  L = a T^2 KL(softmax(t / T) || softmax(s / T)) + b L_mlm + c (1 - cos(h_t, h_s))

t and s are teacher's and student's logits of the predicted tokens, where L_mlm is too; h_t and h_s
are their last layer's outputs, of every token. Each term is a sequence's mean.

Dimensions: B sequences, L tokens, H width, P predictions, V word pieces.
"""

import dataclasses

import tensorflow as tf

from common.errors import InputError
from common.modeling import bert_weights
from common.modeling.bert_network import EncoderConfig
from common.modeling.checkpoints import Pretrained
from common.pretrain import checkpoint, language_model
from common.pretrain.batches import Batch
from common.pretrain.language_model import LanguageModel, mean

# T, and a, b and c: the paper names none, its authors' training script has these.
TEMPERATURE, WEIGHTS = 2.0, (5.0, 2.0, 1.0)


def check(pretrained: Pretrained) -> None:
  """Refuses a checkpoint that cannot teach: it predicts no masked tokens, or has one layer."""
  checkpoint.check(pretrained)
  if not checkpoint.predicts(pretrained):
    lack = 'has no head for masked tokens (cls.predictions)'
    if pretrained.format in ('tf1', 'tf2'):
      lack = 'is a TensorFlow checkpoint, whose head for masked tokens is not read'
    raise InputError(
      f'--distil_from: {pretrained.path} {lack}; a pretraining that goes on from it makes one: '
      f'--pretrained={pretrained.path}'
    )
  if pretrained.config.num_layers < 2:
    raise InputError(
      f'--distil_from: {pretrained.path} has one layer; every other needs two or more'
    )


def student_config(teacher: EncoderConfig) -> EncoderConfig:
  """The teacher's shape with half its layers, rounded up."""
  return dataclasses.replace(teacher, num_layers=(teacher.num_layers + 1) // 2)


class Distillation:
  """Teacher of a student.

  Args:
    student: Model of `student_config`; gets the teacher's layers 0, 2, 4, …, embeddings and head.
    pretrained: The teacher.
  """

  def __init__(self, student: LanguageModel, pretrained: Pretrained):
    self.student = student
    self.teacher = LanguageModel(pretrained.config, student.encoder.pad_id, next_sentence=False)
    checkpoint.restore(self.teacher, pretrained)
    weights = bert_weights.of_encoder(self.teacher.encoder.network)
    every_other = range(0, pretrained.config.num_layers, 2)
    bert_weights.assign(student.encoder.network, bert_weights.of_layers(weights, every_other))
    student.masked_lm.set_weights(self.teacher.masked_lm.get_weights())

  def losses(self, batch: Batch) -> tf.Tensor:
    """L of each sequence: [B]."""
    (a, b, c), inputs = WEIGHTS, (batch.ids, batch.segments, batch.positions)
    found, taught = self.student(*inputs, training=True), self.teacher(*inputs, training=False)
    losses = b * language_model.losses(found, batch)
    losses += a * mean(_divergence(taught.words, found.words), batch.weights)
    turned = 1 - _cosine(taught.tokens, found.tokens)
    return losses + c * mean(turned, tf.cast(found.mask, tf.float32))


def _divergence(teacher: tf.Tensor, student: tf.Tensor) -> tf.Tensor:
  """T^2 KL of logits [B, P, V]: [B, P]."""
  log_p, log_q = (tf.nn.log_softmax(logits / TEMPERATURE) for logits in (teacher, student))
  return TEMPERATURE**2 * tf.reduce_sum(tf.exp(log_p) * (log_p - log_q), -1)


def _cosine(one: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
  """Cosines of tokens [B, L, H]: [B, L]."""
  one, other = (tf.math.l2_normalize(tf.cast(x, tf.float32), -1) for x in (one, other))
  return tf.reduce_sum(one * other, -1)
