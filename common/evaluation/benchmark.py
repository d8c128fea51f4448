"""Throughput of models on this machine: pairs a second, and ratios to a BERT-base cross-encoder."""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from tqdm import tqdm

from common.modeling.bert_network import EncoderConfig
from common.modeling.cross_encoder import CrossEncoder

BERT_BASE = EncoderConfig(
  vocab_size=30_522, hidden_size=768, num_layers=12, num_heads=12, inner_dim=3072
)
BERT_LARGE = EncoderConfig(
  vocab_size=30_522, hidden_size=1024, num_layers=24, num_heads=16, inner_dim=4096
)
BASELINE_TOKENS = 128  # the paper's teacher takes inputs of this length (Tables 2 and 3)
_PAIRS = 16  # of a call of a baseline


class Contender(NamedTuple):
  """A model under measurement: its name, a call, and the pairs that a call scores."""

  name: str
  call: Callable[[], Any]
  pairs: int


def rates(
  contenders: Sequence[Contender], *, rounds: int = 5, seconds: float = 1.0
) -> list[dict[str, Any]]:
  """Throughput of models side by side: in turn, so that a machine's drift meets all alike.

  Args:
    contenders: Each is called once to warm up.
    rounds: Number of rounds; their median is reported.
    seconds: Least time of each contender in a round.

  Returns:
    [{'name', 'pairs_per_second', 'least', 'most'}], in the order given.
  """
  found: list[list[float]] = [[] for _ in contenders]
  for contender in contenders:
    contender.call()
  for _ in tqdm(range(rounds), desc='benchmark'):
    for contender, own in zip(contenders, found, strict=True):
      started, calls = time.perf_counter(), 0
      while calls == 0 or time.perf_counter() - started < seconds:
        contender.call()
        calls += 1
      own.append(calls * contender.pairs / (time.perf_counter() - started))
  return [
    {
      'name': contender.name,
      'pairs_per_second': statistics.median(own),
      'least': min(own),
      'most': max(own),
    }
    for contender, own in zip(contenders, found, strict=True)
  ]


def cross_encoder(name: str, config: EncoderConfig) -> Contender:
  """A cross-encoder with random weights, as a TensorFlow graph, on `BASELINE_TOKENS` a pair."""
  model = CrossEncoder(config, outputs=1)
  ids = tf.random.uniform([_PAIRS, BASELINE_TOKENS], 1, config.vocab_size, tf.int32, seed=0)
  segment_ids = tf.zeros_like(ids)
  score = tf.function(lambda: model(ids, segment_ids, training=False), autograph=False)
  name = f'{name} cross-encoder, {BASELINE_TOKENS} tokens'
  return Contender(name, lambda: score().numpy(), _PAIRS)
