"""DSE's Tables 3 and 4 on this machine, in BERT-Large's shapes (d = 4,096, r = 512).

  python -m benchmarks.dse_speed --output=benchmarks/results/dse_speed.json

Offline: all pairs of n sentences. Online: one query against N candidates whose vectors are there.
The teacher and the encoder are measured on a sample, in turn, and extrapolated; the similarity is
run whole, on the exported head. Weights are random: they do not change the time. The teacher's
pairs have 128 tokens; sentences have as many, which is how the paper measures, or half, which is
what two sentences of such a pair have.
"""

import dataclasses
import tempfile
import time
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks import committed, random_exports, speed_tables
from common import flags
from common.evaluation import benchmark, report
from common.evaluation.metrics import spearman
from dse.embedder import Embedder
from dse.encoder import SentenceEncoder

_SAMPLE = 16  # sequences of a measured batch
_LENGTHS = (benchmark.BASELINE_TOKENS, benchmark.BASELINE_TOKENS // 2)  # of sentences


@dataclasses.dataclass(frozen=True)
class SpeedConfig:
  """Sizes."""

  sentences: int = flags.option(1000, 'n of Table 3: all n x n pairs')
  candidates: int = flags.option(100_000, 'N of Table 4, against one query')
  output: str = flags.option('', 'JSON file of the figures')


def main(config: SpeedConfig) -> None:
  """Measures, prints both tables, writes the file."""
  teacher = benchmark.cross_encoder('BERT-Large', benchmark.BERT_LARGE, batch_size=_SAMPLE)
  encoders = [_encoder(texts, tokens) for tokens in _LENGTHS for texts in (_SAMPLE, 1)]
  per_pair, *per_text = (
    1 / row['pairs_per_second'] for row in benchmark.rates([teacher, *encoders])
  )
  vectors = np.random.default_rng(0).normal(size=[config.candidates, 4096]).astype(np.float32)
  some, pairs, rows = vectors[: config.sentences], config.sentences**2, []
  with tempfile.TemporaryDirectory() as folder:
    path = random_exports.dse(folder)
    exact = None
    for runtime in ('tensorflow', 'litert-int8'):
      offline, online, scores = _similarity(path, runtime, vectors, some)
      exact = scores if exact is None else exact
      same = {'runtime': runtime, 'spearman': spearman(exact, scores)}
      size = f'{len(vectors):,} candidates'
      for i, tokens in enumerate(_LENGTHS):
        of_batch, of_one = per_text[2 * i : 2 * i + 2]
        texts = same | {'tokens': tokens}
        rows += [
          texts
          | _row('Table 3', f'{pairs:,} pairs', per_pair * pairs, of_batch * len(some), offline),
          texts | _row('Table 4', size, per_pair * len(vectors), of_one, online),
        ]
  note = f'Seconds. Teacher: {benchmark.BASELINE_TOKENS} tokens; it and psi sampled, extrapolated. '
  note += f'Spearman of int8 scores with the exact ones: {rows[-1]["spearman"]:.5f}.'
  made = {'note': note, 'rows': rows}
  print(report.grid(speed_tables.dse(made)))
  if config.output:
    committed.write(config.output, 'dse_speed', config, **made)


def _similarity(
  path: str, runtime: str, vectors: np.ndarray, some: np.ndarray
) -> tuple[float, float, np.ndarray]:
  """Seconds of all pairs of some, of ranking all for one; the scores of all with one."""
  embedder = Embedder.load(path, runtime)
  embedder.score_all_pairs(some[:8], some)  # warm
  offline = _seconds(lambda: embedder.score_all_pairs(some, progress=True))
  parts = embedder.parts(vectors, 'right')
  online = min(_seconds(lambda: embedder.rank(vectors[0], vectors, parts=parts)) for _ in range(3))
  scores = embedder.score_all_pairs(vectors[:1], vectors)
  return offline, online, np.asarray(scores)[0]


def _row(table: str, what: str, teacher: float, psi: float, f: float) -> dict[str, Any]:
  row = {'table': table, 'what': what, 'teacher': teacher, 'psi': psi, 'f': f}
  return {**row, 'speedup': teacher / (psi + f)}


def _encoder(texts: int, tokens: int) -> benchmark.Contender:
  """BERT-Large as psi, on a batch of single sentences."""
  encoder = SentenceEncoder(benchmark.BERT_LARGE, 4, 'mean', False, 0)
  ids = tf.random.uniform([texts, tokens], 1, 1000, tf.int32, seed=0)
  encode = tf.function(lambda: encoder(ids, training=False))
  return benchmark.Contender(f'psi, {tokens} tokens', lambda: encode().numpy(), texts)


def _seconds(call) -> float:
  started = time.perf_counter()
  call()
  return time.perf_counter() - started


if __name__ == '__main__':
  flags.command(main, SpeedConfig)
