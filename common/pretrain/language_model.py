"""BERT with the heads that it is pretrained with: masked tokens and, if asked for, next sentences.

The heads are tf-models' layers. Dimensions: B sequences, L tokens, P predictions, V word pieces.
"""

from typing import Any

import tensorflow as tf
import tf_keras
from official.nlp.modeling import layers

from common.modeling import bert_network
from common.modeling.bert import Bert
from common.modeling.bert_network import EncoderConfig
from common.pretrain.batches import Batch

LOSS = 'mlm_loss'  # the metric that decides


class LanguageModel(tf_keras.layers.Layer):
  """Predicts masked tokens by their embeddings (Devlin et al., 2019, Sec. 3.1).

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
  ) -> tuple[tf.Tensor, tf.Tensor | None]:
    """Logits of the tokens at `positions` [B, P, V], and of the next sentence [B, 2]; float32.

    Args:
      ids: [B, L] int32.
      segments: [B, L] int32.
      positions: [B, P] int32.
      training: Whether dropout is on.
    """
    encoded = self.encoder(ids, segments, training=training)
    words = tf.cast(self.masked_lm(encoded.tokens, positions), tf.float32)
    if self.next_sentence is None:
      return words, None
    return words, tf.cast(self.next_sentence(encoded.pooled), tf.float32)

  @property
  def used_variables(self) -> list[tf.Variable]:
    """Variables that the loss depends on: without next sentences not the pooler's."""
    if self.next_sentence is not None:
      return self.trainable_variables
    unused = {id(variable) for variable in self.encoder.unused_variables}
    return [variable for variable in self.trainable_variables if id(variable) not in unused]

  def losses(self, batch: Batch) -> tf.Tensor:
    """Each sequence's mean cross-entropy of its predictions, plus its next sentence's: [B]."""
    words, following = self(batch['ids'], batch['segments'], batch['positions'], training=True)
    entropy = _cross_entropy(batch['labels'], words) * batch['weights']  # [B, P]
    losses = tf.math.divide_no_nan(tf.reduce_sum(entropy, 1), tf.reduce_sum(batch['weights'], 1))
    if following is not None:
      losses += _cross_entropy(batch['next_sentence'], following)
    return losses

  def sums(
    self,
    ids: tf.Tensor,
    segments: tf.Tensor,
    positions: tf.Tensor,
    labels: tf.Tensor,
    weights: tf.Tensor,
    next_sentence: tf.Tensor,
  ) -> tf.Tensor:
    """Sums over a batch, for `metrics`: [2, 3], of words and of next sentences.

    A row is the cross-entropies, the number of right ones, and the number of all.
    """
    words, following = self(ids, segments, positions, training=False)
    rows = [_sums(labels, words, weights)]
    if following is not None:
      rows.append(_sums(next_sentence, following, tf.ones_like(next_sentence, tf.float32)))
    return tf.stack(rows)


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
