"""A job on Apache Beam: units in, shards out, a model once a process.

Beam spreads the units over its workers and repeats those that fail; a unit is read, computed and
written where it lands, in memory bounded by a chunk of its rows. Nothing is shuffled, but for a job
with a source that joins (`join.py`).
"""

import contextlib
import dataclasses
import io
import logging
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import apache_beam as beam
import numpy as np
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics import Metrics
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.utils import shared
from tqdm import tqdm

from common import flags
from common.errors import InputError
from common.pipelines import files, shards, units
from common.pipelines.shards import Mark, Shard
from common.pipelines.units import Unit
from common.vectors.ids import hashes, repeated

_REFUSED = re.compile(rf'\b{InputError.__name__}: (.*?)(?: \[while running|\n|$)')
Source = Callable[[beam.Pipeline, Sequence[Unit]], beam.PCollection]


class Job(Protocol):
  """Work on a unit of input. Workers get it pickled."""

  def load(self) -> Any:
    """The model: called once a process."""

  def run(self, unit: Any, model: Any, shard: Shard) -> int:
    """Reads a unit (or what `run`'s source makes), writes its shard; returns the rows written."""


@dataclasses.dataclass(frozen=True)
class OutputConfig:
  """Folder of a job's output, and the bad rows that the job tolerates."""

  output: str = flags.option('', 'folder of the output; the same command goes on with it')
  max_bad_rows: int = flags.option(
    0, 'bad rows that are put aside, with the reason, before it fails', bounds=(0, 10**12)
  )


@dataclasses.dataclass(frozen=True)
class FilesConfig:
  """The input files."""

  input: tuple[str, ...] = flags.option(
    (),
    'files (patterns too): .tsv, .csv, .jsonl (.gz too), .parquet, .tfrecord; local, gs://, s3://',
  )
  unit_bytes: int = flags.option(
    64 << 20, 'bytes of a TSV or JSONL file that become one shard', bounds=(1, 10**12)
  )

  def units(self) -> list[Unit]:
    """The pieces of the files."""
    if not self.input:
      raise InputError('--input: the files to be read are needed')
    found = units.of_files(self.input, self.unit_bytes)
    if not found:
      raise InputError(f'--input={",".join(self.input)}: empty')
    return found


def spread(pipeline: beam.Pipeline, left: Sequence[Unit]) -> beam.PCollection:
  """The units, each to whatever worker is free."""
  return pipeline | beam.Create(list(left)) | beam.Reshuffle()


def run(
  job: Job,
  todo: Sequence[Unit],
  config: OutputConfig,
  plan: dict[str, Any],
  options: Sequence[str],
  source: Source = spread,
) -> list[Mark]:
  """Runs a job over the units whose shards are missing, in an output that the caller holds.

  Args:
    job: Work on each.
    todo: All units of the input.
    config: Folder of the output, and bad rows allowed.
    plan: Flags that the output depends on, besides the units.
    options: Beam's.
    source: Makes what the job is given of the units left: each, or a value that has it as `unit`.

  Returns:
    The marks of all shards, in order.

  Raises:
    InputError: If the folder holds an output of other flags or units, or too many rows were bad.
  """
  shards.keep_plan(config.output, plan)
  done = shards.marks(config.output)
  shards.check_units(config.output, done, todo)
  left = [unit for unit in todo if unit.number not in done]
  if left:
    _run(job, left, config, options, len(todo), source)
    done = shards.marks(config.output)
  found = [done[unit.number] for unit in todo]
  bad, rows = sum(mark.bad_rows for mark in found), sum(mark.rows for mark in found)
  seconds = sum(mark.seconds for mark in found)
  rate = f'{rows / seconds:,.0f} rows/s a worker' if seconds else ''
  print(f'{rows:,} rows in {len(found):,} shards, {bad:,} bad rows; {rate}')
  if bad > config.max_bad_rows:
    where = FileSystems.join(config.output, files.BAD)
    raise InputError(
      f'{bad:,} bad rows, more than --max_bad_rows={config.max_bad_rows}: see {where}'
    )
  return found


def check_ids(
  output: str, paths: Sequence[str], read: Callable[[str], Iterator[Sequence[str]]]
) -> None:
  """Refuses an id that occurs twice in an output's files; holds 10 bytes an id.

  Args:
    output: The output's folder, for the message.
    paths: The files.
    read: Streams the ids of one, some at a time.
  """
  twice = repeated(hashes(ids) for path in paths for ids in read(path))
  if not len(twice):
    return
  first: dict[str, str] = {}
  for path in paths:
    for ids in read(path):
      for place in np.flatnonzero(np.isin(hashes(ids), twice)):
        key = ids[int(place)]
        if key in first:
          raise InputError(
            f'{output}: id {key!r} came twice (in {first[key]} and {path}); each may once: '
            'mend the input, and give it another --output'
          )
        first[key] = path


def command(main: Callable[[Any, Sequence[str]], None], cls: type) -> None:
  """Runs `main(config, Beam's options)`; a flag that neither knows is refused."""
  options: list[str] = []

  def take(arguments: list[str]) -> list[str]:
    unknown = _unknown(arguments)
    options.extend(argument for argument in arguments if argument not in unknown)
    return unknown

  flags.command(lambda config: main(config, options), cls, take)


def _unknown(arguments: Sequence[str]) -> list[str]:
  """Arguments that are no option of Beam's, as `--name=value` or `--name`.

  Raises:
    InputError: If an option has a wrong value.
  """
  given = [argument for argument in arguments if argument.startswith('--')]
  said = io.StringIO()
  logging.disable(logging.WARNING)  # Beam warns of what is refused here
  try:
    with contextlib.redirect_stderr(said):
      options = PipelineOptions(given)
      known = options.get_all_options().keys()
      others = options.get_all_options(retain_unknown_options=True).keys() - known
  except SystemExit as error:
    raise InputError(said.getvalue().strip().rpartition('error: ')[2]) from error
  finally:
    logging.disable(logging.NOTSET)
  names = [argument[2:].partition('=')[0].replace('-', '_') for argument in given]
  known_ones = {of for of, name in zip(given, names, strict=True) if name not in others}
  return [argument for argument in arguments if argument not in known_ones]


class _Do(beam.DoFn):
  """Does a unit."""

  def __init__(self, job: Job, config: OutputConfig):
    self.job, self.config, self.shared = job, config, shared.Shared()

  def setup(self) -> None:
    self.model = self.shared.acquire(lambda: _Holder(self.job.load())).model

  def process(self, work: Any):
    started = time.monotonic()
    shard = Shard(self.config.output, getattr(work, 'unit', work))
    rows = self.job.run(work, self.model, shard)
    mark = shard.finish(rows, time.monotonic() - started)
    Metrics.counter('pipelines', 'rows').inc(mark.rows)
    Metrics.counter('pipelines', 'bad_rows').inc(mark.bad_rows)


class _Holder:
  """A shared model, weakly referable, as Beam needs it."""

  def __init__(self, model: Any):
    self.model = model


def _run(
  job: Job,
  left: Sequence[Unit],
  config: OutputConfig,
  options: Sequence[str],
  total: int,
  source: Source,
) -> None:
  stop = threading.Event()

  def watch() -> None:
    with tqdm(total=total, initial=total - len(left), unit=' shards') as bar:
      while not stop.wait(1):
        bar.update(shards.count_marks(config.output) - bar.n)
      bar.update(shards.count_marks(config.output) - bar.n)

  watcher = threading.Thread(target=watch, daemon=True)
  watcher.start()
  try:
    with beam.Pipeline(options=PipelineOptions(list(options))) as pipeline:
      source(pipeline, left) | 'do' >> beam.ParDo(_Do(job, config))
  except Exception as error:  # Beam hands a worker's on as it likes, most often in a text
    if refused := _REFUSED.search(str(error)):
      raise InputError(refused[1]) from error
    raise
  finally:
    stop.set()
    watcher.join()
