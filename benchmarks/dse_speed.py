"""DSE's Tables 3 and 4 on this machine, in BERT-Large's shapes (d = 4,096, r = 512).

  python -m benchmarks.dse_speed --output=benchmarks/results/dse_speed.json

Offline: all pairs of n sentences. Online: one query against N candidates whose vectors are there.
The teacher and the encoder are measured on a sample and extrapolated, the similarity is run whole, on
the exported head; all in turn. Weights are random: they do not change the time. The teacher's
pairs have 128 tokens; sentences have as many, which is how the paper measures, or half, which is
what two sentences of such a pair have.
"""

import dataclasses
import functools
import tempfile
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks import committed, random_exports, speed_tables
from common import flags
from common.evaluation import benchmark, report
from common.evaluation.metrics import spearman
from dse.embedder import Embedder
from dse.encoder import SentenceEncoder

_RUNTIMES = ('tensorflow', 'litert-int8')
_SAMPLE = 16  # sequences of a measured batch
_LENGTHS = (benchmark.BASELINE_TOKENS, benchmark.BASELINE_TOKENS // 2)  # of sentences


@dataclasses.dataclass(frozen=True)
class SpeedConfig:
  """Sizes."""

  sentences: int = flags.option(1000, 'n of Table 3: all n x n pairs', bounds=(1, 10**6))
  candidates: int = flags.option(100_000, 'N of Table 4, against one query', bounds=(1, 10**9))
  rounds: int = flags.option(3, 'rounds, of which the median is taken', bounds=(1, 1000))
  output: str = flags.option('', 'JSON file of the figures')


def main(config: SpeedConfig) -> None:
  """Measures, prints both tables, writes the file."""
  teacher = benchmark.cross_encoder('BERT-Large', benchmark.BERT_LARGE, batch_size=_SAMPLE)
  encoders = [_encoder(texts, tokens) for tokens in _LENGTHS for texts in (_SAMPLE, 1)]
  vectors = np.random.default_rng(0).normal(size=[config.candidates, 4096]).astype(np.float32)
  pairs, rows = config.sentences**2, []
  with tempfile.TemporaryDirectory() as folder:
    path = random_exports.dse(folder)
    embedders = [Embedder.load(path, runtime) for runtime in _RUNTIMES]
    similarities = [f for e in embedders for f in _similarities(e, vectors, config.sentences)]
    found = benchmark.rates([teacher, *encoders, *similarities], rounds=config.rounds)
    exact, *other = (e.score_all_pairs(vectors[:1], vectors)[0] for e in embedders)
  per_pair, *per = (1 / row['pairs_per_second'] for row in found)
  per_text, per_score = per[: len(encoders)], per[len(encoders) :]
  near = [1.0, *(spearman(exact, scores) for scores in other)]
  for number, runtime in enumerate(_RUNTIMES):
    offline, online = per_score[2 * number : 2 * number + 2]
    for i, tokens in enumerate(_LENGTHS):
      of_batch, of_one = per_text[2 * i : 2 * i + 2]
      texts = {'runtime': runtime, 'spearman': near[number], 'tokens': tokens}
      size, psi = f'{pairs:,} pairs', of_batch * config.sentences
      rows.append(texts | _row('Table 3', size, per_pair * pairs, psi, offline * pairs))
      size, all_scores = f'{config.candidates:,} candidates', online * config.candidates
      rows.append(texts | _row('Table 4', size, per_pair * config.candidates, of_one, all_scores))
  note = (
    f'Seconds. Teacher: {benchmark.BASELINE_TOKENS} tokens; it and psi sampled, extrapolated; f '
  )
  note += f'whole. Medians of {config.rounds} rounds, all in turn. '
  note += f'Spearman of int8 scores with the exact ones: {near[-1]:.5f}.'
  made = {'note': note, 'rows': rows}
  print(report.grid(speed_tables.dse(made)))
  if config.output:
    committed.write(config.output, 'dse_speed', config, **made)


def _similarities(
  embedder: Embedder, vectors: np.ndarray, sentences: int
) -> list[benchmark.Contender]:
  """All pairs of so many vectors, and the ranking of all for one query."""
  some, parts = vectors[:sentences], embedder.parts(vectors, 'right')
  rank = functools.partial(embedder.rank, vectors[0], vectors, parts=parts)
  return [
    benchmark.Contender('f, offline', lambda: embedder.score_all_pairs(some), sentences**2),
    benchmark.Contender('f, online', rank, len(vectors)),
  ]


def _row(table: str, what: str, teacher: float, psi: float, f: float) -> dict[str, Any]:
  row = {'table': table, 'what': what, 'teacher': teacher, 'psi': psi, 'f': f}
  return {**row, 'speedup': teacher / (psi + f)}


def _encoder(texts: int, tokens: int) -> benchmark.Contender:
  """BERT-Large as psi, on a batch of single sentences."""
  encoder = SentenceEncoder(benchmark.BERT_LARGE, 4, 'mean', False, 0)
  ids = tf.random.uniform([texts, tokens], 1, 1000, tf.int32, seed=0)
  encode = tf.function(lambda: encoder(ids, training=False))
  return benchmark.Contender(f'psi, {tokens} tokens', lambda: encode().numpy(), texts)


if __name__ == '__main__':
  flags.command(main, SpeedConfig)
