"""BERT as an `Encoder`: the one place that knows how tf-models wants its inputs."""

from __future__ import annotations

import tensorflow as tf

from common.modeling import bert_network, checkpoints
from common.modeling.bert_network import EncoderConfig
from common.modeling.checkpoints import Pretrained
from common.modeling.encoder import Encoded, Encoder


class Bert(Encoder):
  """BERT; its last layer computes only the first `rows`, exactly as in the full output.

  Args:
    config: Shape of the network.
    pad_id: Word id of padding.
    rows: As for `Encoder`.
    attention: Whether attention scores are given.
  """

  config_class = EncoderConfig

  def __init__(
    self, config: EncoderConfig, pad_id: int, rows: int | None = None, *, attention: bool = False
  ):
    super().__init__(config, pad_id, rows, name='bert')
    self.network = bert_network.build(config, output_range=rows, attention_scores=attention)

  def call(
    self, ids: tf.Tensor, segment_ids: tf.Tensor | None = None, training: bool | None = None
  ) -> Encoded:
    """Encodes texts, see `Encoder.call`; `pooled` is the pooler's output of the first token.

    A BERT of fewer segments than are given has its last one in place of those beyond.
    """
    mask = self.mask(ids)
    if segment_ids is None:
      segment_ids = tf.zeros_like(ids)
    else:  # one beyond the last has no embedding
      segment_ids = tf.minimum(segment_ids, self.config.type_vocab_size - 1)
    inputs = {'input_word_ids': ids, 'input_mask': mask, 'input_type_ids': segment_ids}
    outputs = self.network(inputs, training=training)
    return Encoded(
      tuple(outputs['encoder_outputs']),
      mask,
      outputs['pooled_output'],
      tuple(outputs.get('attention_scores', ())),
    )

  @classmethod
  def read(cls, path: str) -> Pretrained:
    """A folder, `gs://`, hub id or built-in checkpoint."""
    return checkpoints.read(path)

  def restore(self, pretrained: Pretrained) -> None:
    """Loads the embeddings, the checkpoint's first layers and the pooler, strictly."""
    checkpoints.restore(self.network, pretrained)

  @property
  def unused_variables(self) -> list[tf.Variable]:
    """The pooler's."""
    return self.network.pooler_layer.trainable_variables

  def attending(self) -> Bert:
    """A copy that gives attention scores too; later changes of this one are not seen."""
    copy = Bert(self.config, self.pad_id, self.rows, attention=True)
    copy.set_weights(self.get_weights())
    return copy
