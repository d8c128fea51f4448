"""Sentence vectors of a pretrained encoder, as it comes: the mean of its tokens, of length one."""

import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from common.data.tokenization import Tokenizer
from common.modeling import encoders
from common.modeling.checkpoints import Pretrained
from common.scoring import litert_encoder, litert_files
from common.scoring.runtime import ANY_SLOT, EncoderFunction
from common.training import strategies

_PRECISION = 'int8'
_MAX_LENGTH = 128  # tokens of a text


class MeanPooledEncoder:
  """Embeds texts by the mean of a pretrained encoder's last layer, in int8: to say what is near.

  Args:
    pretrained: Weights and vocabulary.

  Attributes:
    dim: Width of a vector.
  """

  @strategies.precision()
  def __init__(self, pretrained: Pretrained):
    tokenizer = Tokenizer(pretrained.vocabulary, pretrained.lower_case)
    encoder = encoders.build(pretrained.config, tokenizer.pad_id)
    encoder.restore(pretrained)

    def pooled(ids: tf.Tensor) -> tf.Tensor:
      encoded = encoder(ids, training=False)
      total = tf.einsum('bth,bt->bh', encoded.tokens, tf.cast(encoded.mask, tf.float32))
      return tf.math.l2_normalize(total, axis=-1)  # [batch, hidden]

    longest = min(_MAX_LENGTH, pretrained.config.max_positions)
    functions = {ANY_SLOT: EncoderFunction(pooled, longest)}
    with tempfile.TemporaryDirectory() as folder:
      precisions, one_size = (_PRECISION,), (litert_files.BATCHES[-1],)
      litert_encoder.write(
        folder, functions, encoder.variables, tokenizer, precisions=precisions, batches=one_size
      )
      self._encoder = litert_encoder.LiteRTEncoder(folder, _PRECISION)
    self.dim = pretrained.config.hidden_size

  def encode(
    self, texts: Sequence[str], advance: Callable[[int], Any] = lambda _: None
  ) -> np.ndarray:
    """Returns unit vectors [len(texts), dim], float32; `advance` hears how many are done."""
    vectors = np.zeros([len(texts), self.dim], np.float32)
    self._encoder.encode(texts, ANY_SLOT, vectors, 0, advance)
    return vectors
