"""The cross-attention BERT that teaches: a tuple packed into one sequence, scored whole."""

import tensorflow as tf
import tf_keras

from common.modeling import encoders
from common.modeling.encoders import EncoderConfig


class CrossEncoder(tf_keras.layers.Layer):
  """BERT over `[CLS] a [SEP] b [SEP]`, and a dense layer on the pooled first token.

  Only the first row of the last layer is computed: nothing else of it is used.

  Args:
    config: Of the encoder.
    outputs: Logits a tuple.
    pad_id: Word id of padding.
  """

  def __init__(self, config: EncoderConfig, outputs: int, pad_id: int = 0):
    super().__init__(name='cross_encoder')
    self.encoder = encoders.build(config, output_range=1)
    self.dropout = tf_keras.layers.Dropout(config.dropout)
    self.classifier = tf_keras.layers.Dense(
      outputs,
      kernel_initializer=tf_keras.initializers.TruncatedNormal(stddev=0.02),
      name='classifier',
    )
    self.classifier.build([None, config.hidden_size])
    self.pad_id = pad_id

  def call(self, ids: tf.Tensor, segment_ids: tf.Tensor, training: bool | None = None) -> tf.Tensor:
    """Logits of packed tuples.

    Args:
      ids: [batch, tokens] int32.
      segment_ids: [batch, tokens] int32.
      training: Whether dropout is on.

    Returns:
      [batch, outputs] float32.
    """
    inputs = {
      'input_word_ids': ids,
      'input_mask': tf.cast(ids != self.pad_id, tf.int32),
      'input_type_ids': segment_ids,
    }
    pooled = self.encoder(inputs, training=training)['pooled_output']  # [batch, hidden]
    logits = self.classifier(self.dropout(pooled, training=training))
    return tf.cast(logits, tf.float32)
