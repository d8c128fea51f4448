"""Throughput of models on this machine: pairs a second, and ratios to a BERT-base cross-encoder."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from common.modeling.cross_encoder import CrossEncoder
from common.modeling.encoders import EncoderConfig

BERT_BASE = EncoderConfig(
  vocab_size=30_522, hidden_size=768, num_layers=12, num_heads=12, inner_dim=3072
)
BASELINE_TOKENS = 128  # the paper's teacher takes inputs of this length (Tables 2 and 3)


def pairs_per_second(
  function: Callable[[], Any], pairs: int, *, repeats: int = 5, seconds: float = 1.0
) -> float:
  """Median throughput of a call that scores `pairs` pairs.

  Args:
    function: Called once to warm up, then for `seconds` at least in each repeat.
    pairs: Scored by a call.
    repeats: Of which the median is returned.
    seconds: Least time of a repeat.

  Returns:
    Pairs a second.
  """
  function()
  rates = []
  for _ in range(repeats):
    started, calls = time.perf_counter(), 0
    while calls == 0 or time.perf_counter() - started < seconds:
      function()
      calls += 1
    rates.append(calls * pairs / (time.perf_counter() - started))
  return statistics.median(rates)


def cross_encoder_rate(
  config: EncoderConfig = BERT_BASE, tokens: int = BASELINE_TOKENS, batch_size: int = 16
) -> float:
  """Pairs a second of a cross-encoder with random weights, as a TensorFlow graph."""
  model = CrossEncoder(config, outputs=1)
  ids = tf.random.uniform([batch_size, tokens], 1, config.vocab_size, tf.int32, seed=0)
  segment_ids = tf.zeros_like(ids)
  score = tf.function(lambda: model(ids, segment_ids, training=False))
  return pairs_per_second(lambda: score().numpy(), batch_size, repeats=3)
