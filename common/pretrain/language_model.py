"""BERT with the heads of its pretraining: masked tokens and, if asked for, next sentences.

The heads are tf-models' layers.

Dimensions: B sequences, L tokens, H width, P predictions, V word pieces.
"""

from typing import Any, NamedTuple

import tensorflow as tf
import tf_keras
from official.nlp.modeling import layers

from common.modeling import bert_network
from common.modeling.bert import Bert
from common.modeling.bert_network import EncoderConfig
from common.modeling.encoder import without
from common.pretrain.batches import Batch

LOSS = 'mlm_loss'  # the metric that decides


class Predicted(NamedTuple):
  """Output of a language model for a batch.

  Attributes:
    words: Logits of the tokens at the asked positions, [B, P, V] float32.
    next_sentence: Logits [B, 2] float32; None where the model has none.
    tokens: The encoder's output, [B, L, H].
    mask: [B, L] int32, 1 where a token is.
  """

  words: tf.Tensor
  next_sentence: tf.Tensor | None
  tokens: tf.Tensor
  mask: tf.Tensor


class LanguageModel(tf_keras.layers.Layer):
  """Model that predicts masked tokens by their embeddings (Devlin et al., 2019, Sec. 3.1).

  Args:
    config: Architecture of the encoder.
    pad_id: Word id of padding.
    next_sentence: Whether the pooled first token says if the second segment follows the first.
  """

  def __init__(self, config: EncoderConfig, pad_id: int, next_sentence: bool):
    super().__init__(name='language_model')
    self.encoder = Bert(config, pad_id)
    normal = tf_keras.initializers.TruncatedNormal(stddev=0.02)
    self.masked_lm = layers.MaskedLM(
      self.encoder.network.get_embedding_table(),
      activation=bert_network.activation(config),
      initializer=normal,
      name='cls/predictions',
    )
    self.next_sentence = None
    if next_sentence:
      self.next_sentence = layers.ClassificationHead(
        inner_dim=0, num_classes=2, initializer=normal, name='cls/seq_relationship'
      )
    token = tf.zeros([1, 1], tf.int32)
    self(token, token, token)

  def call(
    self,
    ids: tf.Tensor,
    segments: tf.Tensor,
    positions: tf.Tensor,
    training: bool | None = None,
  ) -> Predicted:
    """Predicts the tokens at `positions`, and the next sentence.

    Args:
      ids: [B, L] int32.
      segments: [B, L] int32.
      positions: [B, P] int32.
      training: Whether dropout is on.
    """
    encoded = self.encoder(ids, segments, training=training)
    words = tf.cast(self.masked_lm(encoded.tokens, positions), tf.float32)
    following = None
    if self.next_sentence is not None:
      following = tf.cast(self.next_sentence(encoded.pooled), tf.float32)
    return Predicted(words, following, encoded.tokens, encoded.mask)

  @property
  def used_variables(self) -> list[tf.Variable]:
    """Variables that the loss depends on: without next sentences not the pooler's."""
    unused = [self.encoder.unused_variables] if self.next_sentence is None else []
    return without(self.trainable_variables, unused)

  def losses(self, batch: Batch) -> tf.Tensor:
    """`losses` of a batch, with dropout: [B]."""
    return losses(self(batch.ids, batch.segments, batch.positions, training=True), batch)

  def sums(self, *tensors: tf.Tensor) -> tf.Tensor:
    """Sums over a `Batch`, for `metrics`: [2, 3], of words and of next sentences.

    A row is the cross-entropies, the number of right ones, and the number of all. A model without
    next sentences has the first row alone.
    """
    batch = Batch(*tensors)
    found = self(batch.ids, batch.segments, batch.positions, training=False)
    rows = [_sums(batch.labels, found.words, batch.weights)]
    if found.next_sentence is not None:
      ones = tf.ones_like(batch.next_sentence, tf.float32)
      rows.append(_sums(batch.next_sentence, found.next_sentence, ones))
    return tf.stack(rows)


def losses(found: Predicted, batch: Batch) -> tf.Tensor:
  """Each sequence's mean cross-entropy of its predictions, plus its next sentence's: [B]."""
  of_words = mean(_cross_entropy(batch.labels, found.words), batch.weights)
  if found.next_sentence is None:
    return of_words
  return of_words + _cross_entropy(batch.next_sentence, found.next_sentence)


def mean(values: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
  """Weighed means of rows: [B, n] each to [B]; 0 where all weights are."""
  return tf.math.divide_no_nan(tf.reduce_sum(values * weights, 1), tf.reduce_sum(weights, 1))


def metrics(sums: Any) -> dict[str, float]:
  """Mean cross-entropy (in nats) and accuracy of `sums`, added up."""
  found = {}
  for name, (loss, right, count) in zip(('mlm', 'nsp'), sums.tolist(), strict=False):
    count = max(count, 1)
    found |= {f'{name}_loss': loss / count, f'{name}_accuracy': right / count}
  return found


def _sums(labels: tf.Tensor, logits: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
  right = tf.cast(tf.argmax(logits, -1, tf.int32) == labels, tf.float32)
  of = [_cross_entropy(labels, logits) * weights, right * weights, weights]
  return tf.stack([tf.reduce_sum(values) for values in of])


def _cross_entropy(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
  return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
