"""DiPair (Figure 2): encoders, truncation, projections and a head, and their folder.

Dimensions: U distinct texts, L tokens, k_i kept tokens of text i, H encoder width, D projected
width, B pairs, O outputs, n texts a pair.
"""

import dataclasses
from collections.abc import Sequence

import tensorflow as tf
import tf_keras

from common.data.tokenization import Tokenizer
from common.modeling import encoders, students
from common.modeling.checkpoints import Pretrained
from common.modeling.encoders import EncoderConfig
from common.serving.student_export import ExportedHead
from dipair import restructured
from dipair.config import StudentConfig
from dipair.encoder import Projection, TokenEncoder
from dipair.heads import HEADS


class DiPair(tf_keras.layers.Layer):
  """The student.

  Args:
    config: Architecture.
    encoder: The encoders' own architecture but for their depths, which `config` has.
    outputs: O.
    pad_id: Word id of padding.
  """

  def __init__(self, config: StudentConfig, encoder: EncoderConfig, outputs: int, pad_id: int):
    super().__init__(name='dipair')
    self.config, self.encoder_config, self.outputs = config, encoder, outputs
    self.texts, self.max_lengths = len(config.output_tokens), config.max_lengths
    self.dim = config.projection_dim or encoder.hidden_size
    self.encoders = [
      TokenEncoder(
        dataclasses.replace(encoder, num_layers=layers),
        max(config.output_tokens),
        config.token_selection,
        pad_id,
      )
      for layers in (config.depths[:1] if config.one_encoder else config.depths)
    ]
    self.projections = [
      Projection(encoder.hidden_size, config.projection_dim, f'projection_{i}')
      for i in range(self.texts)
    ]
    self.head = HEADS[config.head](config, self.dim, outputs)
    self.head([tf.zeros([1, k, self.dim]) for k in config.output_tokens])

  def feature_shape(self, text: int) -> tuple[int, ...]:
    """Kept tokens of text number `text`, and their width: k, H."""
    return self.config.output_tokens[text], self.encoder_config.hidden_size

  def features(self, ids: tf.Tensor, text: int, training: bool | None = None) -> tf.Tensor:
    """Output tokens of the encoder of text number `text`: [U, L] to [U, k, H]."""
    return self._encoder(text)(ids, self.config.output_tokens[text], training=training)

  def encode(self, ids: tf.Tensor, text: int, training: bool | None = None) -> tf.Tensor:
    """What is cached of a text: [U, L] word ids to [U, k, D]."""
    return self.projections[text](self.features(ids, text, training))

  def call(self, tokens: Sequence[tf.Tensor], training: bool | None = None) -> tf.Tensor:
    """Logits from kept tokens, [B, k_i, H] a text: projections and head, [B, O]."""
    projected = [project(x) for project, x in zip(self.projections, tokens, strict=True)]
    return self.head(projected, training=training)

  def vector_shape(self, text: int) -> tuple[int, ...]:
    """What is cached of text number `text`: k, D."""
    return self.config.output_tokens[text], self.dim

  def vectors(self, ids: tf.Tensor, text: int) -> tf.Tensor:
    """What is cached of texts: [U, L] word ids to [U, k, D]."""
    return self.encode(ids, text, training=False)

  def kept_ids(self, ids: tf.Tensor, text: int) -> tf.Tensor:
    """The word ids that the kept tokens stand on: [U, L] to [U, k]."""
    encoder, tokens = self._encoder(text), self.config.output_tokens[text]
    inputs = encoder.bert_inputs(ids, tokens)
    positions = encoder.kept_positions(inputs['input_mask'], tokens)
    return tf.gather(inputs['input_word_ids'], positions, batch_dims=1)

  def score_vectors(self, vectors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Logits [B, O] of what is cached."""
    return self.head(vectors, training=False)

  def exported_head(self) -> ExportedHead:
    """The head as it is exported."""
    return restructured.of(self.head, self.config.output_tokens)

  def encoder_layers(self, text: int) -> list[tf.Module]:
    """What `vectors` of text number `text` computes with."""
    return [self._encoder(text), self.projections[text]]

  @property
  def new_variables(self) -> list[tf.Variable]:
    """What stage 1 trains: all that is not pretrained."""
    projections = [v for projection in self.projections for v in projection.trainable_variables]
    return projections + self.head.trainable_variables

  @property
  def used_variables(self) -> list[tf.Variable]:
    """What stage 2 trains: all that the logits depend on (BERT's pooler is not)."""
    return encoders.without_pooler(self.trainable_variables)

  def _encoder(self, text: int) -> TokenEncoder:
    return self.encoders[0 if self.config.one_encoder else text]


def read_pretrained(config: StudentConfig) -> Pretrained:
  """The checkpoint that the encoders start from; one that does not fit is refused."""
  sides = {
    'left_encoder_layers': config.left_encoder_layers,
    'right_encoder_layers': config.right_encoder_layers,
  }
  if not all(sides.values()):
    sides['encoder_layers'] = config.encoder_layers
  return students.read_pretrained(config, **sides)


def from_pretrained(config: StudentConfig, outputs: int) -> tuple[DiPair, Tokenizer]:
  """A new student: the checkpoint's first K layers, a random head."""
  return students.from_pretrained(DiPair, config, outputs, read_pretrained(config))


def load(folder: str) -> tuple[DiPair, Tokenizer]:
  """Reads a folder that `students.save` wrote."""
  return students.load(folder, 'dipair', DiPair, StudentConfig)
