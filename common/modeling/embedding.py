"""Sentence vectors of a pretrained encoder, as it comes: the mean of its tokens, of length one."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from common.data import batching
from common.data.tokenization import Tokenizer
from common.modeling import encoders
from common.modeling.checkpoints import Pretrained


class MeanPooledEncoder:
  """Embeds texts by the mean of a pretrained encoder's last layer.

  Args:
    pretrained: Weights and vocabulary.
    max_length: Most tokens of a text.
  """

  def __init__(self, pretrained: Pretrained, max_length: int = 128):
    self.tokenizer = Tokenizer(pretrained.vocabulary, pretrained.lower_case)
    self.encoder = encoders.build(pretrained.config, self.tokenizer.pad_id)
    self.encoder.restore(pretrained)
    self.max_length = min(max_length, pretrained.config.max_positions)
    self.dim = pretrained.config.hidden_size

  def encode(self, texts: Sequence[str], batch_size: int = 128, progress: str = '') -> np.ndarray:
    """Returns [len(texts), hidden] float32 vectors of length one."""
    vectors = np.zeros([len(texts), self.dim], np.float32)
    with tqdm(total=len(texts), desc=progress, disable=not progress, unit=' texts') as bar:
      for rows, (column,) in batching.length_sorted([np.array(texts, object)], batch_size):
        vectors[rows] = self._pooled(tf.constant(column)).numpy()
        bar.update(len(rows))
    return vectors

  @tf.function(autograph=False, input_signature=[tf.TensorSpec([None], tf.string)])
  def _pooled(self, texts: tf.Tensor) -> tf.Tensor:
    ids = self.tokenizer.encode(texts, self.max_length).to_tensor(self.tokenizer.pad_id)
    encoded = self.encoder(ids, training=False)
    tokens, mask = tf.cast(encoded.tokens, tf.float32), tf.cast(encoded.mask, tf.float32)
    total = tf.einsum('bth,bt->bh', tokens, mask)  # [batch, hidden]
    return tf.math.l2_normalize(total, axis=-1)
