"""Embedders, which say how near two texts are: from an export, SavedModel, hub or checkpoint."""

import os
import tempfile
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from common import files
from common.data import batching
from common.data.tokenization import Tokenizer
from common.errors import InputError
from common.export import saved_models
from common.modeling import checkpoints, encoders
from common.modeling.encoder import Encoded
from common.scoring import exported, litert_encoder, litert_files
from common.scoring.runtime import ANY_SLOT, EncoderFunction
from common.scoring.scorer import PairScorer
from common.training import strategies
from common.vectors import neighbors

_BATCH = 128
_QUESTION, _RESPONSE = 'question_encoder', 'response_encoder'
_PRECISION = 'int8'  # of a checkpoint: enough to say what is near
_MAX_LENGTH = 128  # tokens of a text that a checkpoint reads


class Embedder(Protocol):
  """Texts in, vectors of length one out; the inner product of two says how near they are.

  Attributes:
    fingerprint: Another for another model.
  """

  fingerprint: str

  def encode(self, texts: Sequence[str], side: str) -> np.ndarray:
    """[len(texts), d] float32 for texts of a side, 'left' (queries) or 'right' (passages)."""


def load(handle: str) -> Embedder:
  """Loads an embedder.

  Args:
    handle: A run's `export` folder, its archive, or `hf://org/name` of one (a text's first
      vector); a SavedModel's folder or hub URL that takes texts, such as
      universal-sentence-encoder-qa (`question_encoder` for queries, `response_encoder` for
      passages); or a checkpoint, which averages the tokens of its last layer.

  Raises:
    InputError: If it is none of them.
  """
  handle = exported.local(handle)
  if handle.startswith(('http://', 'https://')):
    return _SavedModel(handle)
  if files.exists(os.path.join(handle, exported.DESCRIPTION)):
    return _Export(handle)
  if tf.saved_model.contains_saved_model(handle):
    return _SavedModel(handle)
  return MeanPooledEncoder(handle)


def longest(encoder: Any) -> int:
  """Most tokens of a text that a mean-pooled encoder of this config reads."""
  return min(_MAX_LENGTH, encoder.max_positions)


def summed(encoded: Encoded) -> tf.Tensor:
  """The sum of a text's tokens, [b, H] float32; its direction is the mean's."""
  tokens, mask = (tf.cast(x, tf.float32) for x in (encoded.tokens, encoded.mask))
  return tf.einsum('bth,bt->bh', tokens, mask)


class MeanPooledEncoder:
  """A pretrained encoder as it comes, the same for both sides: the mean of its tokens, in int8.

  Args:
    path: The checkpoint.

  Attributes:
    dim: Width of a vector.
  """

  @strategies.precision()
  def __init__(self, path: str):
    pretrained = checkpoints.read(path)
    self.fingerprint = f'{path} {saved_models.fingerprint(pretrained.path)}'
    self.dim = pretrained.config.hidden_size
    tokenizer = Tokenizer(pretrained.vocabulary, pretrained.lower_case)
    encoder = encoders.build(pretrained.config, tokenizer.pad_id)
    encoder.restore(pretrained)

    def pooled(ids: tf.Tensor) -> tf.Tensor:
      return tf.math.l2_normalize(summed(encoder(ids, training=False)), axis=-1)  # [batch, hidden]

    functions = {ANY_SLOT: EncoderFunction(pooled, longest(pretrained.config))}
    with tempfile.TemporaryDirectory() as folder:
      precisions, one_size = (_PRECISION,), (litert_files.BATCHES[-1],)
      litert_encoder.write(
        folder, functions, encoder.variables, tokenizer, precisions=precisions, batches=one_size
      )
      self._encoder = litert_encoder.LiteRTEncoder(folder, _PRECISION)

  def encode(
    self, texts: Sequence[str], side: str = '', advance: Callable[[int], Any] = lambda _: None
  ) -> np.ndarray:
    """Unit vectors [len(texts), dim] float32; `advance` hears how many more are done."""
    del side
    vectors = np.zeros([len(texts), self.dim], np.float32)
    self._encoder.encode(texts, ANY_SLOT, vectors, 0, advance)
    return vectors


class _Export:
  """An exported encoder of each side."""

  def __init__(self, folder: str):
    self._scorer = PairScorer.load(folder, encoder_runtime='litert-int8')
    self.fingerprint = self._scorer.fingerprint

  def encode(self, texts: Sequence[str], side: str) -> np.ndarray:
    return neighbors.text_vectors(self._scorer.encode(texts, side))


class _SavedModel:
  """A SavedModel that takes texts: signatures for questions and responses, or one for all."""

  def __init__(self, handle: str):
    import tensorflow_hub
    import tensorflow_text  # noqa: F401  (registers the tokenizers' ops)

    self.handle = handle
    try:
      self._model = tensorflow_hub.load(handle)
    except Exception as error:  # of a damaged one, TensorFlow raises nearly anything
      raise InputError(f'{handle}: cannot be loaded: {error}') from error
    local = tf.saved_model.contains_saved_model(handle)
    self.fingerprint = saved_models.fingerprint(handle) if local else handle
    signatures = self._model.signatures
    if _QUESTION in signatures:
      names = {'left': _QUESTION, 'right': _RESPONSE}
    elif 'serving_default' in signatures:
      names = dict.fromkeys(('left', 'right'), 'serving_default')
    else:
      known = ', '.join(signatures)
      raise InputError(f'{handle}: signatures {known}; {_QUESTION} or serving_default is needed')
    self._encode = {side: self._function(signatures[name]) for side, name in names.items()}

  def encode(self, texts: Sequence[str], side: str) -> np.ndarray:
    rows, vectors = [], []
    for batch, column in batching.length_sorted(texts, _BATCH):
      rows.append(batch)
      vectors.append(self._encode[side](tf.constant(column)).numpy())
    return neighbors.text_vectors(np.concatenate(vectors)[np.argsort(np.concatenate(rows))])

  def _function(self, signature: Any) -> Callable[[tf.Tensor], tf.Tensor]:
    inputs = signature.structured_input_signature[1]
    if any(spec.dtype != tf.string for spec in inputs.values()):
      raise InputError(f'{self.handle}: takes {", ".join(map(str, inputs.values()))}, not texts')

    def encode(texts: tf.Tensor) -> tf.Tensor:
      outputs = signature(**dict.fromkeys(inputs, texts))  # a response is its own context
      return outputs['outputs'] if 'outputs' in outputs else next(iter(outputs.values()))

    return encode
