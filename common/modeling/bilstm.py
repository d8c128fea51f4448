"""A bidirectional LSTM over word pieces as an `Encoder` (Tang et al., 2019, §3.1).

x = E[ids];   token t = [forward LSTM of x_1 … x_t, backward LSTM of x_n … x_t]

The LSTM starts from random weights, the embeddings E from a checkpoint's, where there is one. They
take the place of the paper's word2vec.
"""

import dataclasses
import math
from typing import ClassVar

import tensorflow as tf
import tf_keras

from common.errors import InputError
from common.modeling import bert_weights, checkpoints
from common.modeling.checkpoints import Pretrained
from common.modeling.encoder import Encoded, Encoder


@dataclasses.dataclass(frozen=True)
class BiLSTMConfig:
  """Shape of a bidirectional LSTM.

  Args:
    vocab_size: Words in the vocabulary.
    embedding_width: Width of the embeddings.
    hidden_size: Width of a token, half of it of each direction.
    num_layers: Layers, of which there is one.
    dropout: Rate in [0, 1) of dropout on the embeddings.
  """

  vocab_size: int
  embedding_width: int
  hidden_size: int
  num_layers: int = 1
  dropout: float = 0.1
  max_positions: ClassVar[float] = math.inf

  def __post_init__(self):
    if self.hidden_size % 2:
      raise InputError(f'hidden_size={self.hidden_size}: two directions need an even number')


class BiLSTM(Encoder):
  """The encoder; padding, which stands at the end, changes no token.

  Args:
    config: Shape of the network.
    pad_id: Word id of padding.
    rows: As for `Encoder`; all are given.
  """

  config_class = BiLSTMConfig

  def __init__(self, config: BiLSTMConfig, pad_id: int, rows: int | None = None):
    super().__init__(config, pad_id, rows, name='bilstm')
    self.embeddings = tf_keras.layers.Embedding(config.vocab_size, config.embedding_width)
    self.dropout = tf_keras.layers.Dropout(config.dropout)
    self.lstm = tf_keras.layers.Bidirectional(
      tf_keras.layers.LSTM(config.hidden_size // 2, return_sequences=True)
    )
    self(tf.zeros([1, 1], tf.int32))

  def call(
    self, ids: tf.Tensor, segment_ids: tf.Tensor | None = None, training: bool | None = None
  ) -> Encoded:
    """Encodes texts, see `Encoder.call`; segments are not told apart."""
    del segment_ids
    mask = self.mask(ids)
    embedded = self.dropout(self.embeddings(ids), training=training)
    return Encoded((self.lstm(embedded, mask=mask > 0, training=training),), mask)

  @classmethod
  def read(cls, path: str) -> Pretrained:
    """A BERT's checkpoint, as `checkpoints.read` takes it: its vocabulary and embeddings are taken.

    Tokens are as wide as the BERT's layers.
    """
    bert = checkpoints.read(path)
    width = bert.config.embedding_width or bert.config.hidden_size
    config = BiLSTMConfig(bert.config.vocab_size, width, bert.config.hidden_size)
    return dataclasses.replace(bert, config=config)

  def restore(self, pretrained: Pretrained) -> None:
    """Loads the word embeddings, with mean 0 and deviation 1: a BERT's are made for a LayerNorm."""
    size = pretrained.config.vocab_size
    words = checkpoints.embeddings(pretrained, bert_weights.WORDS, size)
    if words is not None:
      self.embeddings.set_weights([(words - words.mean(0)) / words.std()])
