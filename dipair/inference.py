"""Scoring tuples with a live model: each distinct text is encoded once, the head runs per tuple."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from common.data import batching
from common.data.examples import Example
from common.data.tokenization import Tokenizer
from common.training import strategies
from dipair.model import DiPair


class TupleScorer:
  """A live student for evaluation: examples in, logits out.

  Args:
    model: Read at each call, so its weights may change between calls.
    tokenizer: Of the model's vocabulary.
    strategy: Its replicas share the work.
  """

  def __init__(self, model: DiPair, tokenizer: Tokenizer, strategy: tf.distribute.Strategy):
    self.model, self.tokenizer, self.strategy = model, tokenizer, strategy
    texts = range(model.texts)
    text, ids = tf.TensorSpec([None], tf.string), tf.TensorSpec([None, None], tf.int32)
    self._tokenize = [
      tf.function(lambda t, n=n: tokenizer.encode(t, n), input_signature=[text])
      for n in model.config.max_lengths
    ]
    self._encoders = [
      tf.function(lambda ids, i=i: model.kept_tokens(ids, i), input_signature=[ids]) for i in texts
    ]
    tokens = [tf.TensorSpec(self.shape(None, i), tf.float32) for i in texts]
    self._head = tf.function(lambda *tokens: model(tokens, training=False), input_signature=tokens)

  def kept_tokens(
    self,
    texts: Sequence[str],
    slot: int,
    *,
    out: np.ndarray | None = None,
    batch_size: int = 128,
    progress: str = '',
  ) -> np.ndarray:
    """Unprojected output tokens of texts of one slot: [len(texts), k, H] float32, into `out`."""
    lengths = batching.bucket_lengths(self.model.config.max_lengths[slot])
    if out is None:
      out = np.zeros(self.shape(len(texts), slot), np.float32)

    def batches():
      for rows, (column,) in batching.length_sorted([np.array(texts, object)], batch_size):
        ids = self._tokenize[slot](tf.constant(column))
        yield rows, (batching.pad_to_bucket(ids, lengths, self.tokenizer.pad_id),)

    with tqdm(total=len(texts), desc=progress, disable=not progress, unit=' texts') as bar:
      for rows, tokens in strategies.map_batches(self.strategy, self._encoders[slot], batches()):
        out[rows] = tokens
        bar.update(len(rows))
    return out

  def shape(self, texts: int | None, slot: int) -> tuple:
    """Shape of the kept tokens of so many texts."""
    return texts, self.model.config.output_tokens[slot], self.model.encoder_config.hidden_size

  def head_logits(
    self, tokens: Sequence[np.ndarray], index: np.ndarray, batch_size: int = 1024
  ) -> np.ndarray:
    """Logits of tuples given as row numbers into their slots' tokens: [tuples, n] to [tuples, O]."""
    rows = range(0, len(index), batch_size)
    batches = (
      (
        start,
        tuple(tf.constant(t[index[start : start + batch_size, i]]) for i, t in enumerate(tokens)),
      )
      for start in rows
    )
    return np.concatenate(
      [logits for _, logits in strategies.map_batches(self.strategy, self._head, batches)]
    )

  def logits(self, examples: Sequence[Example]) -> np.ndarray:
    """Logits of examples: [len(examples), O]."""
    texts, index = distinct_texts(examples)
    return self.head_logits([self.kept_tokens(t, i) for i, t in enumerate(texts)], index)


def distinct_texts(examples: Sequence[Example]) -> tuple[list[list[str]], np.ndarray]:
  """Each slot's distinct texts, and [examples, n] row numbers into them."""
  slots: list[dict[str, int]] = [{} for _ in examples[0].texts]
  index = np.array(
    [
      [slot.setdefault(text, len(slot)) for slot, text in zip(slots, e.texts, strict=True)]
      for e in examples
    ],
    np.int32,
  )
  return [list(slot) for slot in slots], index
