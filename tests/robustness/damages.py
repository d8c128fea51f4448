"""Every file of every artefact, damaged: its reader gives the same as ever, or names the file.

  python -m tests.robustness.damages --output=benchmarks/results/damages.json

The artefacts are of a toy run: the run's folder, an export, a teacher, a phase of training, a
vector store, outputs of Beam jobs.
"""

import dataclasses
import itertools
import os
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks import committed, random_exports
from common import flags
from common.errors import InputError
from dipair.config import StudentConfig
from dipair.student import DiPair
from tests.robustness import artefacts
from tests.robustness.artefacts import Artefacts

DAMAGES = ('cut', 'emptied', 'removed', 'flipped')
OUTCOMES = ('named', 'the same')  # any other one is a fault
_TINY = {
  'encoder_layers': 1,
  'max_lengths': (16, 16),
  'output_tokens': (3, 4),
  'projection_dim': 8,
  'head_inner_dim': 16,
}


@dataclasses.dataclass(frozen=True)
class DamagesConfig:
  """How often files are damaged."""

  flips: int = flags.option(3, 'bits flipped in each file, one at a time', bounds=(1, 10**6))
  output: str = flags.option('', 'JSON file of the figures')


def main(config: DamagesConfig) -> None:
  """Damages each file in each way, prints, writes."""
  with tempfile.TemporaryDirectory() as folder:
    student = flags.build(StudentConfig, {'pretrained': 'random-tiny', **_TINY})
    export = random_exports.dipair(os.path.join(folder, 'export'), **_TINY)
    made = Artefacts(os.path.join(folder, 'all'), *DiPair.from_pretrained(student, 1), export)
    ways = [*DAMAGES, *(f'flipped {number}' for number in range(2, config.flips + 1))]
    rows, faults = {}, []
    for artefact in artefacts.NAMES:
      found = [case for damage in ways for case in damages(made, artefact, [damage])]
      rows[artefact] = Counter(said for _, said in found if said in OUTCOMES)
      faults += [f'{name}: {said}' for name, said in found if said not in OUTCOMES]
      print(f'{artefact}: {dict(rows[artefact])}', flush=True)
  totals = sum(rows.values(), Counter())
  print(f'{totals.total() + len(faults):,} cases: {dict(totals)}, {len(faults)} faults', *faults)
  if config.output:
    found = {**totals, 'faults': faults, 'artefacts': rows}
    committed.write(config.output, 'tests.robustness.damages', config, **found)


def damages(made: Artefacts, artefact: str, ways: Sequence[str]) -> Iterator[tuple[str, str]]:
  """Damages each file of an artefact, alone: (name, one of OUTCOMES or the fault).

  Files take turns among the ways.
  """
  names = [name for name in made.files(artefact) if os.path.getsize(made.path(name))]
  for name, damage in zip(names, itertools.cycle(ways), strict=False):
    path = made.path(name)
    shutil.copy2(path, f'{made.folder}/whole')
    with open(path, 'rb') as file:
      content = file.read()
    os.remove(path)
    if damage != 'removed':
      with open(path, 'wb') as file:
        file.write(_damaged(content, damage, name))
    yield f'{name}, {damage}', _outcome(made, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    shutil.copy2(f'{made.folder}/whole', path)


def _damaged(content: bytes, damage: str, name: str) -> bytes:
  """The bytes of a file, damaged; its name and the damage's say which bit is flipped."""
  if damage.startswith('flipped'):
    place = random.Random(name + damage.removeprefix('flipped')).randrange(8 * len(content))
    flipped = bytearray(content)
    flipped[place // 8] ^= 1 << place % 8
    return bytes(flipped)
  return content[: len(content) // 2] if damage == 'cut' else b''


def _outcome(made: Artefacts, name: str) -> str:
  try:
    found = made.read(name)
  except InputError as error:
    stem = os.path.basename(name).split('.')[0]
    return 'named' if stem in str(error) and '\n' not in str(error) else f'not named: {error}'
  except Exception as error:
    return f'{type(error).__name__}: {error}'
  try:
    _compare(found, made.whole(name))
  except AssertionError as error:
    return f'another result in silence: {error}'
  return 'the same'


def _compare(one: list, other: list) -> None:
  for a, b in zip(one, other, strict=True):
    if isinstance(a, np.ndarray) and a.dtype.kind == 'f':
      np.testing.assert_allclose(a, b, atol=1e-6)
    else:
      np.testing.assert_array_equal(a, b)


if __name__ == '__main__':
  flags.command(main, DamagesConfig)
