"""A query against an int8 store by MaxSim and LITE: pairs a second, and how exact the scores are.

  python -m benchmarks.late_interaction --output=benchmarks/results/late_interaction.json

Weights and vectors are random: 4 tokens a query, 8 a candidate, 256 wide. `rank` reads the store.
Beside it the same export without inner products scores each pair by itself, as other heads do.
"""

import dataclasses
import functools
import tempfile
from typing import Any

import numpy as np

from benchmarks import committed, random_exports, tables
from common import flags
from common.evaluation import benchmark
from common.evaluation.benchmark import Contender
from common.scoring.exported import OF_PRODUCTS
from common.vectors.store import VectorStore
from common.vectors.values import Stored
from common.vectors.writer import VectorWriter
from dipair.scorer import Scorer

_HEADS = {'MaxSim': 'max_sim', 'LITE': 'lite'}
_COMPARED = 4096  # candidates whose scores are compared


@dataclasses.dataclass(frozen=True)
class LateInteractionConfig:
  """Size of the store, and length of the measurement."""

  candidates: int = flags.option(65_536, 'candidates in the store', bounds=(_COMPARED, 10**7))
  rounds: int = flags.option(15, 'rounds, of which the median is taken', bounds=(1, 1000))
  seconds: float = flags.option(0.3, 'least time of a contender in a round', bounds=(0, 3600))
  output: str = flags.option('', 'JSON file of the figures')


def main(config: LateInteractionConfig) -> None:
  """Measures, prints the table, writes the file."""
  rng = np.random.default_rng(0)
  vectors = rng.normal(size=(_COMPARED, 8, 256)).astype(np.float32)
  query = rng.normal(size=(4, 256)).astype(np.float32)
  contenders, errors = [], []
  with tempfile.TemporaryDirectory() as folder:
    for title, head in _HEADS.items():
      path = random_exports.dipair(f'{folder}/{head}', head=head, output_tokens=(4, 8))
      fast, slow = (Scorer.load(path, 'litert') for _ in range(2))
      runtime: Any = slow._head
      del runtime._interpreters.inputs[OF_PRODUCTS]
      store = _store(f'{folder}/{head}_store', fast, vectors, config.candidates)
      for name, scorer in ((title, fast), (f'{title}, pair by pair', slow)):
        call = functools.partial(scorer.rank, query, store)
        contenders.append(Contender(name, call, len(store)))
      exact = Scorer.load(path)
      of_float32, of_store = (
        _logits(exact, query, right) for right in (vectors, store.stored(slice(_COMPARED)))
      )
      spread = float(of_float32.std())
      for scorer in (fast, slow):
        found = _logits(scorer, query, store.stored(slice(_COMPARED)))
        arithmetic, stored = (
          float(np.abs(found - of).max()) / spread for of in (of_store, of_float32)
        )
        errors.append({'arithmetic': arithmetic, 'stored': stored})
    size = store.stored(slice(1))
    rows = benchmark.rates(contenders, rounds=config.rounds, seconds=config.seconds)
  assert size.scale is not None
  made = {
    'rows': [{**row, **error} for row, error in zip(rows, errors, strict=True)],
    'candidates': config.candidates,
    'bytes': size.values.nbytes + size.scale.nbytes,
  }
  print(tables.late_interaction(made))
  if config.output:
    committed.write(config.output, 'benchmarks.late_interaction', config, **made)


def _store(folder: str, scorer: Scorer, vectors: np.ndarray, count: int) -> VectorStore:
  """An int8 store of so many candidates, whose vectors are those given, again and again."""
  shape, fingerprint = vectors.shape[1:], scorer.fingerprints['right']
  return VectorWriter(folder, shape, 'int8', fingerprint, 'right').fill(
    ((str(number), str(number)) for number in range(count)),
    lambda texts: vectors[[int(text) % len(vectors) for text in texts]],
    total=count,
    progress='store',
  )


def _logits(scorer: Scorer, query: np.ndarray, right: np.ndarray | Stored) -> Any:
  part = scorer.parts(query[None], 'left')
  return scorer.one_to_many(query[None], part, right, None)[0]


if __name__ == '__main__':
  flags.command(main, LateInteractionConfig)
