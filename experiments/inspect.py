"""Inspection of a run's output tokens: `python -m experiments.inspect --run_dir=runs/p2t`."""

import dataclasses
import os

import numpy as np

from common import flags
from common.data.records import RecordSet
from common.distillation import results
from common.distillation.inference import TupleScorer
from common.errors import InputError
from common.files import read_json, write_json
from common.training import strategies
from dipair.student import DiPair
from experiments.finished_run import FinishedRun
from experiments.inspection import measures, page


@dataclasses.dataclass(frozen=True)
class InspectConfig:
  """The run to inspect, and the page's file."""

  run_dir: str = flags.option('', 'a finished run of dipair.run; nothing in it is changed')
  output: str = flags.option('inspect.html', 'the page; its numbers go beside it, as .json')
  texts: int = flags.option(
    4000, 'tuples of the test set looked at; all, if it has fewer', bounds=(1, 10**9)
  )

  def __post_init__(self):
    if not self.output.endswith('.html'):
      raise InputError(f'--output={self.output}: a name that ends in .html')


def main(config: InspectConfig) -> None:
  """Inspects the run's student, writes the page and the numbers."""
  run = FinishedRun(config.run_dir)
  numbers = os.path.splitext(config.output)[0] + '.json'
  if os.path.exists(numbers) and 'similarity' not in read_json(numbers, 'name another --output'):
    raise InputError(
      f'--output={config.output}: its numbers would replace {numbers}, which is no inspection; '
      'name another file'
    )
  try:
    os.makedirs(os.path.dirname(config.output) or '.', exist_ok=True)
  except OSError as error:
    raise InputError(f'--output={config.output}: {error.strerror}') from error
  strategy = strategies.create(strategies.DeviceConfig())
  scorer = TupleScorer(*DiPair.load(run.path('student')), strategy)
  records = RecordSet(run.path('data/test'))
  if any(records.widths):
    raise InputError(f'--run_dir={config.run_dir}: holds vectors in place of texts, and no tokens')
  rng = np.random.default_rng(run.flags['seed'])  # in random order, as the first ones are shown
  chosen = rng.choice(len(records), min(config.texts, len(records)), replace=False)
  found = {
    'title': run.results['title'],
    'command': flags.command_line('experiments.inspect', flags.changed(config)),
    'commit': results.commit(),
    **measures.inspect(scorer, records, chosen, run.results['task'], run.table.text_columns),
  }
  found = results.finite(found)
  write_json(numbers, found)
  if (score := found['metric'])['all'] is None:
    raise InputError(
      f'{config.run_dir}: its student has one score for all, so there is no {score["name"]} and no '
      f'page; the numbers are in {numbers}'
    )
  page.write(found, config.output)
  print(f'{config.output}: {len(chosen)} tuples of {config.run_dir}')


if __name__ == '__main__':
  flags.command(main, InspectConfig)
