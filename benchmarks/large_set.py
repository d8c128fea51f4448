"""Memory and time of training on a set that is large: generated, a tenth of 300M tuples of 10M texts.

  python -m benchmarks.large_set --output=benchmarks/results/large_set.json

The distillation set is written group by group, its texts are tokenized, and a `random-tiny` DiPair
takes a few steps of stage 2 on it, in this process. What counts against a machine's memory is what
is the process's own; pages of memory-mapped files are given back when others need them.
"""

import dataclasses
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import psutil
from tqdm import tqdm

from benchmarks import committed
from common import flags
from common.data import record_writer
from common.data.items import ItemWriter
from common.data.records import RecordSet
from common.data.task import Task
from common.data.tuples import Tuples
from common.distillation.trainer import Trainer, Training
from common.modeling.losses import CrossEntropy
from common.training import strategies
from common.training.optimization import PhaseConfig
from dipair.config import StudentConfig
from dipair.student import DiPair

GROUP, TEXTS = 512, 64  # tuples of a group, and its texts a slot
_VALID = 512


@dataclasses.dataclass(frozen=True)
class LargeSetConfig:
  """Size of the set, and its folder."""

  tuples: int = flags.option(30_000_000, 'tuples of the distillation set', bounds=(1, 10**9))
  texts: int = flags.option(500_000, 'distinct texts of each of the two slots', bounds=(1, 10**9))
  steps: int = flags.option(50, 'steps of stage 2, of 512 tuples', bounds=(1, 10**9))
  folder: str = flags.option('', 'folder of the set; empty: a temporary one')
  output: str = flags.option('', 'JSON file of the figures')


def main(config: LargeSetConfig) -> None:
  """Writes the set, trains on it, prints and writes the figures."""
  with tempfile.TemporaryDirectory(dir=config.folder or None) as folder:
    rows = [measured('write the set', lambda: _write(config, folder))]
    distill = os.path.join(folder, 'distill')
    rows.append(measured('open it, tokenize its texts, train', lambda: _train(config, distill)))
    size = sum(os.path.getsize(os.path.join(at, n)) for at, _, ns in os.walk(distill) for n in ns)
  for row in rows:
    print(
      f'{row["name"]}: {row["seconds"]:,.0f} s, most memory of its own '
      f'{row["own_gb"]:.2f} GB, with mapped files {row["resident_gb"]:.2f} GB'
    )
  print(f'{size / config.tuples:.1f} bytes a tuple on disk, texts included')
  if config.output:
    made = {'tuples': config.tuples, 'texts': 2 * config.texts, 'bytes': size}
    committed.write(config.output, 'large_set', config, **made, rows=rows)


def _write(config: LargeSetConfig, folder: str) -> None:
  rng = np.random.default_rng(0)

  def groups(writers: Sequence[ItemWriter]) -> Iterator[Tuples]:
    for slot, writer in enumerate(writers):
      words = rng.integers(0, 5000, [config.texts, 4 + 8 * slot])
      for row, number in enumerate(tqdm(words, desc=f'texts {slot}')):
        writer.number(f'{row} ' + ' '.join(map(str, number)))
    for _ in tqdm(range(config.tuples // GROUP), desc='groups'):
      own = rng.integers(0, config.texts, [TEXTS, 2])
      rows = rng.integers(0, TEXTS, [GROUP, 2])
      items = np.stack([own[rows[:, slot], slot] for slot in range(2)], 1).astype(np.int32)
      soft = rng.uniform(size=[GROUP, 1]).astype(np.float32)
      yield Tuples(items, label=soft, teacher_logits=soft, soft_labels=soft)

  record_writer.write_sets(folder, {'distill': groups}, 2)
  distill, valid = (os.path.join(folder, name) for name in ('distill', 'valid'))
  whole = RecordSet(distill)
  tables = record_writer.tables_from(whole, valid)
  record_writer.write(valid, [whole.head(_VALID)], tables)


def _train(config: LargeSetConfig, distill: str) -> None:
  devices = strategies.DeviceConfig()
  strategy = strategies.create(devices)
  student = StudentConfig(pretrained='random-tiny', encoder_layers=2, max_lengths=(16, 64))
  valid = os.path.join(os.path.dirname(distill), 'valid')
  training = Training(distill, valid, Task(), devices, strategy, seed=1)
  trainer = Trainer(*DiPair.from_pretrained(student, 1), training, CrossEntropy())
  phase = PhaseConfig(batch_size=512, steps=config.steps, eval_every=config.steps, warmup_steps=0)
  with tempfile.TemporaryDirectory(dir=os.path.dirname(distill)) as folder:
    trainer.fit('stage 2', phase, folder, frozen=False)


def measured(name: str, work: Callable[[], None]) -> dict[str, Any]:
  """Time and most memory of some work.

  'resident_gb' is all, 'own_gb' what no other process has too, 'anonymous_gb' what is no page of a file.
  """
  most, done = {'uss': 0, 'rss': 0, 'anonymous': 0}, threading.Event()

  def watch() -> None:
    ended = False
    while not ended:
      ended = done.wait(0.5)  # once more at the end, for work that is short
      memory = psutil.Process().memory_full_info()
      now = {**memory._asdict(), 'anonymous': memory.rss - memory.shared}
      most.update({key: max(value, now[key]) for key, value in most.items()})

  watcher = threading.Thread(target=watch)
  watcher.start()
  started = time.monotonic()
  try:
    work()
  finally:
    seconds = time.monotonic() - started
    done.set()
    watcher.join()
  own, resident, anonymous = (most[key] / 1e9 for key in ('uss', 'rss', 'anonymous'))
  sizes = {'own_gb': own, 'resident_gb': resident, 'anonymous_gb': anonymous}
  return {'name': name, 'seconds': seconds, **sizes}


if __name__ == '__main__':
  flags.command(main, LargeSetConfig)
