"""Peak memory of each step on data of one size and of ten times that, with toy models.

  python -m benchmarks.memory --output=benchmarks/results/memory.json

Each step runs in a process of its own, on texts that are generated; mining on a tenth of them. A
process's own memory counts against a machine's; pages of memory-mapped files are given back when
others need them.
"""

import dataclasses
import multiprocessing
import os
import tempfile
import threading
from collections.abc import Callable
from typing import Any

import psutil
from tqdm import tqdm

from benchmarks import committed, random_exports, tables
from common import flags
from common.data import examples
from common.data.examples import TableConfig
from common.data.tokenization import Tokenizer
from common.distillation import mining
from common.distillation.mining import MiningConfig
from common.distillation.teacher import Teacher
from common.modeling import checkpoints
from common.pipelines import annotate, score
from common.pipelines.annotate import AnnotateConfig
from common.pipelines.jobs import FilesConfig, OutputConfig
from common.pipelines.score import ScoreConfig
from common.scoring.scorer import PairScorer

_TIMES = 10


@dataclasses.dataclass(frozen=True)
class MemoryConfig:
  """Size of the data, and its folder."""

  rows: int = flags.option(40_000, 'pairs of the smaller data', bounds=(100, 10**8))
  folder: str = flags.option('', 'folder for the data; empty: a temporary one')
  output: str = flags.option('', 'JSON file of the figures')


def main(config: MemoryConfig) -> None:
  """Measures each step on both sizes, prints, writes."""
  with tempfile.TemporaryDirectory(dir=config.folder or None) as folder:
    _alone(_models, folder)
    sizes = (config.rows, _TIMES * config.rows)
    for rows in (config.rows // _TIMES, *sizes):
      _table(folder, rows)
    made = {'rows': config.rows, 'steps': [_step(name, folder, sizes) for name in STEPS]}
  print(tables.memory(made))
  if config.output:
    committed.write(config.output, 'benchmarks.memory', config, **made)


def _step(name: str, folder: str, sizes: tuple[int, int]) -> dict[str, Any]:
  """A step's peaks on both sizes of data, in a process each."""
  peaks = [_alone(_measure, name, folder, rows) for rows in sizes]
  own, resident = zip(*peaks, strict=True)
  return {'name': name, 'own_gb': own, 'resident_gb': resident, 'ratio': own[1] / own[0]}


def _alone(work: Callable[..., Any], *arguments: Any) -> Any:
  """Result of a function in a process of its own."""
  with multiprocessing.get_context('spawn').Pool(1) as pool:
    return pool.apply(work, arguments)


def _measure(name: str, folder: str, rows: int) -> tuple[float, float]:
  """Peaks of this process in a step, in gigabytes: without pages of files, and with them."""
  own, resident, done = [0], [0], threading.Event()

  def watch() -> None:
    ended = False
    while not ended:
      ended = done.wait(0.5)  # once more at the end, for work that is short
      memory = psutil.Process().memory_info()
      own.append(memory.rss - memory.shared)
      resident.append(memory.rss)

  watcher = threading.Thread(target=watch)
  watcher.start()
  try:
    STEPS[name](folder, rows)
  finally:
    done.set()
    watcher.join()
  return max(own) / 1e9, max(resident) / 1e9


def _models(folder: str) -> None:
  """A random export, and a random teacher."""
  random_exports.dipair(os.path.join(folder, 'export'))
  toy = checkpoints.read(checkpoints.RANDOM_TINY)
  tokenizer = Tokenizer(toy.vocabulary, toy.lower_case)
  Teacher(toy.config, tokenizer, 32, 1).save(os.path.join(folder, 'teacher'))


def _table(folder: str, rows: int) -> None:
  """Pairs of distinct texts, each with ids and a label."""
  with open(_path(folder, rows), 'w', encoding='utf-8') as file:
    file.write('id\tleft\tright\tlabel\n')
    for row in tqdm(range(rows), desc=f'{rows:,} pairs'):
      file.write(
        f'{row}\tshoes {row % 997} red {row}\tblack nike shoes {row} for boys\t{row % 2}\n'
      )


def _path(folder: str, rows: int) -> str:
  return os.path.join(folder, f'pairs-{rows}.tsv')


def _job(folder: str, rows: int, name: str) -> tuple[FilesConfig, OutputConfig]:
  files = FilesConfig((_path(folder, rows),))
  return files, OutputConfig(os.path.join(folder, f'{name}-{rows}'))


def _store(folder: str, rows: int, side: str) -> str:
  return os.path.join(folder, f'{side}-{rows}')


def _read(folder: str, rows: int) -> None:
  for _ in examples.read(_path(folder, rows), TableConfig(id_column='id'), labels='all'):
    pass


def _annotate(folder: str, rows: int) -> None:
  files, out = _job(folder, rows, 'annotated')
  teacher = os.path.join(folder, 'teacher')
  annotate.main(AnnotateConfig((teacher,), files, id_column='id', out=out), [])


def _mine(folder: str, rows: int) -> None:
  path, out = _path(folder, rows // _TIMES), os.path.join(folder, f'mined-{rows}')
  mining.mine(MiningConfig(path, 'left', 'right', 'random-tiny', negative_threshold=2), out, 1)


def _encode(folder: str, rows: int) -> None:
  scorer = PairScorer.load(os.path.join(folder, 'export'), encoder_runtime='litert-int8')
  for column, side in enumerate(scorer.slots):
    read = examples.read(_path(folder, rows), TableConfig(id_column='id'), labels='all')
    texts = ((example.id, example.texts[column]) for example in read)
    scorer.encode_to(_store(folder, rows, side), texts, side, dtype='int8', total=rows)


def _score(folder: str, rows: int) -> None:
  files, out = _job(folder, rows, 'scored')
  stores = tuple(_store(folder, rows, side) for side in ('left', 'right'))
  config = ScoreConfig(
    os.path.join(folder, 'export'),
    files=files,
    stores=stores,
    columns=('id', 'id'),
    out=out,
  )
  score.main(config, [])


STEPS: dict[str, Callable[[str, int], None]] = {
  'read a table': _read,
  'annotate (Beam)': _annotate,
  'mine': _mine,
  'encode to stores': _encode,
  'score over stores (Beam)': _score,
}

if __name__ == '__main__':
  flags.command(main, MemoryConfig)
