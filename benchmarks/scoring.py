"""Pairs a second of cross-encoders, heads and other late interactions, side by side in one run.

  python -m benchmarks.scoring --output=benchmarks/results/scoring.json

Weights are random: they do not change the time. Heads score vectors that are in memory. Their
baselines are cross-encoders on 128 tokens. Operations count the products of matrices alone.
"""

import dataclasses
import functools
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks import committed, random_exports, tables
from common import flags
from common.evaluation import benchmark
from common.evaluation.benchmark import Contender
from common.modeling.bert_network import EncoderConfig
from common.scoring import runtimes
from dipair.heads.transformer import TransformerConfig, TransformerHead
from dipair.scorer import Scorer
from dse.embedder import Embedder

_BATCH = 1024
_CROSS_ENCODERS = {
  'BERT-base': benchmark.BERT_BASE,
  'BERT-large': benchmark.BERT_LARGE,
  'BERT-Tiny': EncoderConfig(30_522, 128, 2, 2, 512),
  'MiniLM-L6': EncoderConfig(30_522, 384, 6, 12, 1536),
}


@dataclasses.dataclass(frozen=True)
class ScoringConfig:
  """Length of the measurement."""

  rounds: int = flags.option(5, 'rounds, of which the median is taken', bounds=(1, 1000))
  seconds: float = flags.option(1.0, 'least time of a contender in a round', bounds=(0, 3600))
  output: str = flags.option('', 'JSON file of the figures')


@dataclasses.dataclass(frozen=True)
class Row:
  """A contender with its cost a pair."""

  contender: Contender
  mflop: float
  kilobytes: float  # of vectors read


def main(config: ScoringConfig) -> None:
  """Measures, prints the table, writes the file."""
  with tempfile.TemporaryDirectory() as folder:
    rows = _rows(folder)
    ranks = _rank_contenders(folder)
  gemm = _gemm()
  contenders = [gemm, *(row.contender for row in rows)]
  measured = benchmark.rates(contenders, rounds=config.rounds, seconds=config.seconds)
  peak = measured[0]['pairs_per_second']  # MFLOP/s
  found = []
  base = measured[1]['pairs_per_second']
  for row, rate in zip(rows, measured[1:], strict=True):
    share = rate['pairs_per_second'] * row.mflop / peak
    cost = {'mflop': round(row.mflop, 3), 'kilobytes': round(row.kilobytes, 2), 'gemm_share': share}
    found.append({**rate, 'ratio': rate['pairs_per_second'] / base, **cost})
  made = {'rows': found, 'gemm_mflops': peak, 'rank': [_latency(*rank) for rank in ranks]}
  print(tables.scoring(made))
  print(tables.rank(made))
  if config.output:
    committed.write(config.output, 'benchmarks.scoring', config, **made)


def _gemm() -> Contender:
  """Products of large matrices; 'pairs' are MFLOP."""
  a, b = (tf.random.uniform([1536, 1536]) for _ in range(2))
  product = tf.function(lambda: a @ b)
  return Contender('GEMM', lambda: product().numpy(), round(2 * 1536**3 / 1e6))


def _rows(folder: str) -> list[Row]:
  rows = []
  for name, config in _CROSS_ENCODERS.items():
    contender = benchmark.cross_encoder(name, config)
    rows.append(Row(contender, _encoder_mflop(config, benchmark.BASELINE_TOKENS), 0))
  rng = np.random.default_rng(0)
  tokens = [rng.normal(size=(_BATCH, k, 256)).astype(np.float32) for k in (4, 8)]
  naive = TransformerHead(TransformerConfig(), (4, 8), 256, outputs=1, dropout=0.1)
  constants = [tf.constant(t) for t in tokens]
  call = tf.function(lambda: naive(constants, training=False))
  inputs = sum(t[0].nbytes for t in tokens) / 1e3
  first_row = 23.5  # of the second layer keys and values of all 12 rows, the rest of one
  rows.append(
    Row(Contender('DiPair, Keras layers', lambda: call().numpy(), _BATCH), first_row, inputs)
  )
  path = random_exports.dipair(f'{folder}/dipair')
  for name in runtimes.RUNTIMES:
    scorer = Scorer.load(path, name)
    rows.append(_pairs(f'DiPair, {name}', scorer, tokens, 12 * _TOKEN + 3.15 + _LAST))
    rows.append(_of_parts(f'DiPair, parts, {name}', scorer, tokens, 12 * _TOKEN + _LAST))
  ffnn = random_exports.dipair(f'{folder}/ffnn', head='ffnn')
  for name in ('tensorflow', 'litert', 'litert-int8'):
    scorer = Scorer.load(ffnn, name)
    mflop = 2 * (12 * 256 * 128 + 128 * 128 + 128) / 1e6
    rows.append(_pairs(f'DiPair FFNN, {name}', scorer, tokens, mflop))
    rows.append(_of_parts(f'DiPair FFNN, parts, {name}', scorer, tokens, 2 * 128 * 129 / 1e6))
  for title, (head, kept, products) in _HEADS.items():
    path = random_exports.dipair(f'{folder}/{title}', head=head, output_tokens=kept)
    own = [t[:, :k] for t, k in zip(tokens, kept, strict=True)]
    for name in ('litert', 'litert-int8'):
      scorer = Scorer.load(path, name)
      rows.append(_of_parts(f'{title}, parts, {name}', scorer, own, 2 * products / 1e6))
  rows += _dse_rows(random_exports.dse(f'{folder}/dse'), rng)
  return [*rows, _cosine(rng), _max_sim(rng)]


_TOKEN = 2 * 2 * 256 * 1024 / 1e6 + 4 * 12 * 256 / 1e6  # first layer: feed-forward, attention
_LAST = (2 * 2 * 256 * 256 + 2 * 2 * 256 * 1024 + 4 * 12 * 256) / 1e6  # the first row of the last
_HEADS = {  # title: head, tokens kept, multiplications a pair from parts
  'DiPair DE-Cos': ('cosine', (1, 1), 256),
  'DiPair DE-FFNN': ('ffnn', (1, 1), 128 * 129),
  'DiPair MaxSim': ('max_sim', (4, 8), 4 * 8 * 256),
  'DiPair LITE': ('lite', (4, 8), 4 * 8 * 256 + 2 * 4 * 8 * 96 + 2 * 8 * 4 * 48 + 4 * 8),
  'DiPair Poly-encoder, 8 codes': ('poly_encoder', (4, 1), 8 * 256),
}


def _pairs(name: str, scorer: Any, vectors: list[np.ndarray], mflop: float) -> Row:
  contender = Contender(name, lambda: scorer.score(*vectors), len(vectors[0]))
  return Row(contender, mflop, sum(v[0].nbytes for v in vectors) / 1e3)


def _of_parts(name: str, scorer: Any, vectors: list[np.ndarray], mflop: float) -> Row:
  of_slots = zip(scorer.slots, vectors, strict=True)
  parts = {f'{slot}_part': scorer.parts(of_slot, slot) for slot, of_slot in of_slots}
  contender = Contender(name, lambda: scorer._head.run('of_parts', parts), len(vectors[0]))
  return Row(contender, mflop, sum(part[0].nbytes for part in parts.values()) / 1e3)


def _dse_rows(path: str, rng: np.random.Generator) -> list[Row]:
  u, v = (rng.normal(size=(_BATCH, 4096)).astype(np.float32) for _ in range(2))
  kernel = tf.random.normal([4 * 4096, 512])
  w = tf.random.normal([512, 1])
  a, b = tf.constant(u), tf.constant(v)

  @tf.function
  def naive() -> tf.Tensor:
    return tf.nn.relu(tf.concat([a, b, a * b, tf.abs(a - b)], 1) @ kernel) @ w

  both = 2 * u[0].nbytes / 1e3
  mflop = 2 * 4096 * 512 / 1e6  # a quarter of W
  rows = [Row(Contender('DSE, plain', lambda: naive().numpy(), _BATCH), 4 * mflop, both)]
  for name in runtimes.RUNTIMES:
    embedder = Embedder.load(path, name)
    parts = embedder.parts(v, 'right')
    one = embedder.parts(u[:1], 'left')
    call = functools.partial(embedder.one_to_many, u[:1], one, v, parts)

    kilobytes = (v[0].nbytes + parts[0].nbytes) / 1e3
    rows.append(Row(Contender(f'DSE, split, {name}', call, _BATCH), 2 * mflop, kilobytes))
  return rows


def _cosine(rng: np.random.Generator, count: int = 100_000) -> Row:
  """DE-Cos: one vector against many, 256 wide."""
  vectors = rng.normal(size=(count, 256)).astype(np.float32)
  contender = Contender('DE-Cos, 256 wide', lambda: vectors @ vectors[0], count)
  return Row(contender, 2 * 256 / 1e6, vectors[0].nbytes / 1e3)


def _max_sim(rng: np.random.Generator) -> Row:
  """ColBERT's late interaction: of each query token its best document token."""
  query = tf.constant(rng.normal(size=(128, 32)).astype(np.float32))
  texts = tf.constant(rng.normal(size=(_BATCH, 128, 128)).astype(np.float32))

  @tf.function
  def score() -> tf.Tensor:
    similarity = tf.reshape(tf.reshape(texts, [-1, 128]) @ query, [_BATCH, 128, 32])
    return tf.reduce_sum(tf.reduce_max(similarity, 1), 1)

  contender = Contender('MaxSim, 32 x 128 tokens of 128', lambda: score().numpy(), _BATCH)
  return Row(contender, 2 * 32 * 128 * 128 / 1e6, 128 * 128 * 4 / 1e3)


def _rank_contenders(folder: str) -> list[tuple[str, Callable[[], Any]]]:
  """Ranking a thousand stored candidates for one query."""
  found: list[tuple[str, Callable[[], Any]]] = []
  products = np.random.default_rng(1).normal(size=(1000, 8, 256)).astype(np.float32)
  query = np.random.default_rng(2).normal(size=(4, 256)).astype(np.float32)
  path = f'{folder}/dipair'
  for name in runtimes.RUNTIMES:
    scorer = Scorer.load(path, name)
    parts = scorer.parts(products, 'right')
    for kind, given in (('', None), (', parts', parts)):
      call = functools.partial(scorer.rank, query, products, 10, parts=given)
      found.append((f'DiPair{kind}, {name}', call))
  return found


def _latency(name: str, call: Callable[[], Any], calls: int = 50) -> dict[str, Any]:
  call()
  seconds = []
  for _ in range(calls):
    started = time.perf_counter()
    call()
    seconds.append(time.perf_counter() - started)
  p50, p99 = np.percentile(np.array(seconds) * 1e3, [50, 99])
  return {'name': name, 'p50': p50, 'p99': p99, 'rate': 1e6 / p50}


def _encoder_mflop(config: EncoderConfig, tokens: int) -> float:
  d, inner = config.hidden_size, config.inner_dim
  layer = 2 * 4 * d * d + 2 * 2 * d * inner + 4 * tokens * d
  return config.num_layers * tokens * layer / 1e6


if __name__ == '__main__':
  flags.command(main, ScoringConfig)
