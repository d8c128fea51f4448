"""DSE's Tables 3 and 4 on this machine, in BERT-Large's shapes (d = 4,096, r = 512).

  python -m benchmarks.dse_speed --output=benchmarks/results/dse_speed.json

Offline: all pairs of n sentences. Online: one query against N candidates whose vectors are there.
The teacher and the encoder are measured on a sample, in turn, and extrapolated; the similarity is
run whole, on the exported head. Weights are random: they do not change the time.
"""

import dataclasses
import sys
import tempfile
import time
from typing import Any

import numpy as np
import tensorflow as tf
from absl import flags as absl_flags

from benchmarks import random_exports
from common import flags
from common.distillation import results
from common.distillation.run_folder import write_json
from common.evaluation import benchmark, report
from common.evaluation.metrics import spearman
from common.evaluation.tables import Table, times
from dse.embedder import Embedder
from dse.encoder import SentenceEncoder

_SAMPLE = 16  # sequences of a measured batch


@dataclasses.dataclass(frozen=True)
class SpeedConfig:
  """Sizes."""

  sentences: int = flags.option(1000, 'n of Table 3: all n x n pairs')
  candidates: int = flags.option(100_000, 'N of Table 4, against one query')
  output: str = flags.option('', 'JSON file of the figures')


def main(config: SpeedConfig) -> None:
  """Measures, prints both tables, writes the file."""
  teacher = benchmark.cross_encoder('BERT-Large', benchmark.BERT_LARGE, batch_size=_SAMPLE)
  encoder = _encoder(teacher.name)
  per_pair, per_text, per_query = (
    1 / row['pairs_per_second'] for row in benchmark.rates([teacher, encoder, _encoder('', 1)])
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
      rows += [
        same | _row('Table 3', f'{pairs:,} pairs', per_pair * pairs, per_text * len(some), offline),
        same | _row('Table 4', size, per_pair * len(vectors), per_query, online),
      ]
  cells = [
    [r['table'], r['what'], r['runtime']]
    + [f'{r[k]:,.2f}' for k in ('teacher', 'psi', 'f')]
    + [times(r['speedup'])]
    for r in rows
  ]
  cells += [
    ['Table 3, the paper', '1,000,000 pairs', '', '34,776.00', '34.73', '2.48', '934×'],
    ['Table 4, the paper', '100,000 candidates', '', '3,480.00', '0.05', '0.20', '13,594×'],
  ]
  note = f'Seconds. Teacher and psi: {benchmark.BASELINE_TOKENS} tokens, sampled and extrapolated. '
  note += f'Spearman of int8 scores with the exact ones: {rows[-1]["spearman"]:.5f}.'
  headers = ['', 'Scored', 'f by', 'Teacher', 'DSE: psi', 'DSE: f', 'Speedup']
  print(report.grid(Table(note, headers, cells)))
  if config.output:
    command = ' '.join(['python -m benchmarks.dse_speed', *flags.changed(config)])
    made = {'command': command, 'commit': results.commit(), 'note': note}
    write_json(config.output, {**made, 'environment': results.environment(), 'rows': rows})


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


def _encoder(name: str, texts: int = _SAMPLE) -> benchmark.Contender:
  """BERT-Large as psi, on single sentences of the same length."""
  encoder = SentenceEncoder(benchmark.BERT_LARGE, 4, 'mean', False, 0)
  ids = tf.random.uniform([texts, benchmark.BASELINE_TOKENS], 1, 1000, tf.int32, seed=0)
  encode = tf.function(lambda: encoder(ids, training=False))
  return benchmark.Contender(f'psi {name}', lambda: encode().numpy(), texts)


def _seconds(call) -> float:
  started = time.perf_counter()
  call()
  return time.perf_counter() - started


if __name__ == '__main__':
  flags.define(SpeedConfig)
  absl_flags.adopt_module_key_flags(sys.modules['common.flags'])
  flags.run(main, SpeedConfig)
