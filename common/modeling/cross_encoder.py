"""The cross-attention BERT that teaches: a tuple packed into one sequence, scored whole."""

import tensorflow as tf
import tf_keras

from common.modeling.bert import Bert
from common.modeling.bert_network import EncoderConfig


class CrossEncoder(tf_keras.layers.Layer):
  """BERT over `[CLS] a [SEP] b [SEP]`, and a dense layer on the pooled first token.

  Only the first row of the last layer is computed: nothing else of it is used.

  Args:
    config: Architecture of the encoder.
    outputs: Logits a tuple.
    pad_id: Word id of padding.
  """

  def __init__(self, config: EncoderConfig, outputs: int, pad_id: int = 0):
    super().__init__(name='cross_encoder')
    self.encoder = Bert(config, pad_id, rows=1)
    self.dropout = tf_keras.layers.Dropout(config.dropout)
    self.classifier = tf_keras.layers.Dense(
      outputs,
      kernel_initializer=tf_keras.initializers.TruncatedNormal(stddev=0.02),
      dtype=tf.float32,  # logits keep their digits in bfloat16's training
      name='classifier',
    )
    self.classifier.build([None, config.hidden_size])

  def call(self, ids: tf.Tensor, segment_ids: tf.Tensor, training: bool | None = None) -> tf.Tensor:
    """Logits of packed tuples.

    Args:
      ids: [batch, tokens] int32.
      segment_ids: [batch, tokens] int32.
      training: Whether dropout is on.

    Returns:
      [batch, outputs] float32.
    """
    pooled = self.encoder(ids, segment_ids, training=training).pooled  # [batch, hidden]
    return self.classifier(self.dropout(pooled, training=training))
