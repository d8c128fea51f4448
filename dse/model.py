"""DSE (Figure 1): encoders of single sentences and the similarity of their vectors; their folder.

Dimensions: U distinct texts, L tokens, d width of a vector, r rows of W, B pairs, C outputs.
"""

from collections.abc import Sequence

import tensorflow as tf
import tf_keras

from common.data.tokenization import Tokenizer
from common.modeling import encoders, students
from common.modeling.checkpoints import Pretrained
from common.modeling.encoders import EncoderConfig
from dse.config import StudentConfig
from dse.encoder import SentenceEncoder
from dse.similarity import Similarity


class DSE(tf_keras.layers.Layer):
  """The student.

  Args:
    config: Architecture.
    encoder: The encoder's own architecture.
    outputs: C.
    pad_id: Word id of padding.
  """

  def __init__(self, config: StudentConfig, encoder: EncoderConfig, outputs: int, pad_id: int):
    super().__init__(name='dse')
    self.config, self.encoder_config, self.outputs = config, encoder, outputs
    self.texts, self.max_lengths = 2, config.max_lengths
    self.dim = config.pooled_layers * encoder.hidden_size
    self.encoders = [
      SentenceEncoder(encoder, config.pooled_layers, config.pooling, config.pool_cls, pad_id)
      for _ in range(1 if config.shared_encoder else 2)
    ]
    for sentence_encoder in self.encoders:
      sentence_encoder(tf.fill([1, 2], pad_id + 1))  # makes its variables
    self.similarity = Similarity(self.dim, config.similarity_dim, outputs)

  def feature_shape(self, text: int) -> tuple[int, ...]:
    """d, whichever the text."""
    del text
    return (self.dim,)

  def features(self, ids: tf.Tensor, text: int, training: bool | None = None) -> tf.Tensor:
    """The vector of a text, what is cached of it: [U, L] word ids to [U, d]."""
    return self._encoder(text)(ids, training=training)

  def encode(self, ids: tf.Tensor, text: int, training: bool | None = None) -> tf.Tensor:
    """The vector and its part of W h, once per text: [U, L] to [U, d + r]."""
    vectors = self.features(ids, text, training)
    return tf.concat([vectors, self.similarity.part(vectors, text)], 1)

  def head(self, encoded: Sequence[tf.Tensor], training: bool | None = None) -> tf.Tensor:
    """Logits of what `encode` gave: [B, C]."""
    del training
    sizes = [self.dim, self.config.similarity_dim]
    vectors, parts = zip(*(tf.split(x, sizes, 1) for x in encoded), strict=True)
    return self.similarity.of_parts(parts, vectors)

  def call(self, vectors: Sequence[tf.Tensor], training: bool | None = None) -> tf.Tensor:
    """Logits of vectors, [B, d] a text: [B, C]."""
    del training
    return self.similarity(tuple(vectors))

  def vector_shape(self, text: int) -> tuple[int, ...]:
    """What is cached of a text: d, whichever it is."""
    return self.feature_shape(text)

  def vectors(self, ids: tf.Tensor, text: int) -> tf.Tensor:
    """What is cached of texts: [U, L] word ids to [U, d]."""
    return self.features(ids, text, training=False)

  def score_vectors(self, vectors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Logits [B, C] of what is cached."""
    return self.similarity(tuple(vectors))

  def exported_head(self) -> Similarity:
    """The similarity, which is split already."""
    return self.similarity

  def encoder_layers(self, text: int) -> list[tf.Module]:
    """What `vectors` of text number `text` computes with."""
    return [self._encoder(text)]

  @property
  def new_variables(self) -> list[tf.Variable]:
    """The similarity function's: what a frozen encoder leaves to train."""
    return self.similarity.trainable_variables

  @property
  def used_variables(self) -> list[tf.Variable]:
    """All that the logits depend on (BERT's pooler is not)."""
    return encoders.without_pooler(self.trainable_variables)

  def _encoder(self, text: int) -> SentenceEncoder:
    return self.encoders[0 if self.config.shared_encoder else text]


def read_pretrained(config: StudentConfig) -> Pretrained:
  """The checkpoint that the encoder starts from; one that does not fit is refused."""
  return students.read_pretrained(
    config, encoder_layers=config.encoder_layers, pooled_layers=config.pooled_layers
  )


def from_pretrained(config: StudentConfig, outputs: int) -> tuple[DSE, Tokenizer]:
  """A new student: the checkpoint's encoder, a random similarity function."""
  return students.from_pretrained(DSE, config, outputs, read_pretrained(config))


def load(folder: str) -> tuple[DSE, Tokenizer]:
  """Reads a folder that `students.save` wrote."""
  return students.load(folder, 'dse', DSE, StudentConfig)
