"""GLUE's tasks one after another, and the DSE paper's Table 1 from their results.

  python -m experiments.suite --flagfile=configs/glue.flags --suite_data_dir=glue_data

Each flagfile of --suite is a run of dse.run below --run_dir, with this command's other flags. The
same command goes on where it was stopped.
"""

import dataclasses
import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import tf_keras

from common import flags
from common.data import glue
from common.distillation import provenance
from common.errors import InputError
from common.evaluation import metrics
from common.evaluation.cells import percent
from common.evaluation.tables import Table
from common.files import read_json, write_json
from dse import run
from dse.run import RunConfig

TITLES = {'mnli': 'MNLI', 'qqp': 'QQP', 'qnli': 'QNLI', 'mrpc': 'MRPC', 'stsb': 'STS-B'}
TITLES |= {'rte': 'RTE', 'snli': 'SNLI', 'allnli': 'AllNLI'}  # not in the paper's table
_SCORES = {  # (set, metric) of a task's scores, where they are more than accuracy on test
  'mnli': [('test', 'accuracy'), ('test_mismatched', 'accuracy')],
  'qqp': [('test', 'f1'), ('test', 'accuracy')],
  'mrpc': [('test', 'f1'), ('test', 'accuracy')],
  'stsb': [('test', 'pearson'), ('test', 'spearman')],
}
_PAPER = {  # Table 1's rows of the teacher and its students
  'BERT-Large': 'mnli 86.7/85.9 qqp 72.1/89.3 qnli 92.7 mrpc 89.3/85.4 stsb 87.6/86.5',
  'DSE (alpha = 1)': 'mnli 80.3/79.4 qqp 68.4/86.8 qnli 86.1 mrpc 86.8/80.8 stsb 86.8/86.1',
  'DSE (alpha = 0.5)': 'mnli 80.9/80.4 qqp 68.5/86.9 qnli 86.0 mrpc 86.7/80.7 stsb 86.4/85.8',
  'DSE (alpha = 0)': 'mnli 79.7/79.0 qqp 67.0/86.8 qnli 84.8 mrpc 86.5/79.9 stsb 87.0/86.5',
  'DSE (frozen, alpha = 1)': 'mnli 69.3/69.9 qqp 62.5/81.4 qnli 76.9 mrpc 86.5/79.9 stsb 73.3/73.0',
}
_HALF = 'DSE (alpha = 0.5)'
Rows = dict[str, dict[str, list[float]]]  # model: {task: scores in percent}


@dataclasses.dataclass(frozen=True)
class SuiteConfig:
  """GLUE's tasks, and the flags of their runs."""

  suite: tuple[str, ...] = flags.option(
    (), 'flagfiles of GLUE tasks, each named after its task: a run each, then Table 1'
  )
  suite_data_dir: str = flags.option('', "folder of GLUE's folders; the runs' --data_dir")
  run: RunConfig = flags.group(RunConfig)


def main(config: SuiteConfig) -> None:
  """Runs each task whose data are there; writes `table1.json`, prints the table.

  Raises:
    InputError: No task has data, or a flagfile is not named after a task.
  """
  run_dir, data_dir = config.run.experiment.run_dir, config.suite_data_dir
  if not config.suite or not run_dir or not data_dir:
    raise InputError("--suite, its flagfiles, --run_dir and --suite_data_dir, GLUE's, are needed")
  asked = flags.changed(config, flags.present())
  given = dict(flag.removeprefix('--').split('=', 1) for flag in asked)
  for own in ('suite', 'suite_data_dir', 'title'):
    given.pop(own, None)
  runs: dict[str, RunConfig] = {}
  for path in map(flags.flagfile, config.suite):
    task = os.path.basename(path).removesuffix('.flags')
    if task not in glue.NAMES or not os.path.exists(path):
      raise InputError(f'--suite: {path}: a flagfile named after one of {", ".join(glue.NAMES)}')
    try:
      glue.sets(task, data_dir)
    except InputError as error:
      print(f'{task}: passed over: {error}')
      continue
    of_task = {'flagfile': path, 'data_dir': data_dir, 'run_dir': os.path.join(run_dir, task)}
    runs[task] = flags.parse(RunConfig, {**given, **of_task})
  if not runs:
    raise InputError(f'--suite_data_dir={data_dir}: no task of --suite has its data there')
  done = {}
  for task, of_run in runs.items():
    print(f'== {task}', flush=True)
    tf_keras.backend.clear_session()  # graphs of the tasks before
    run.main(of_run)
    done[task] = read_json(os.path.join(run_dir, task, 'results.json'))
  table = table1(done)
  kept = [flag for flag in asked if not flag.startswith('--redo=')]  # of one start
  command = flags.command_line('experiments.suite', kept)
  about = {'command': command, 'commit': provenance.commit(), 'table': table._asdict()}
  write_json(os.path.join(run_dir, 'table1.json'), {**about, 'results': done})
  print(table)


def table1(done: dict[str, dict[str, Any]]) -> Table:
  """Table 1 of finished runs, the paper's rows below.

  Args:
    done: The runs' results by task.

  Returns:
    Scores in percent; AVG is the mean over tasks of the mean of a task's one or two scores, as in
    the paper, for models of all tasks. Degradation is AVG's relative change from the first row,
    improvement that of alpha = 0.5 from the row's. The paper's AVG are over the table's tasks.
  """
  tasks = [task for task in TITLES if task in done]
  ours: Rows = {}
  for task in tasks:
    for model in done[task]['models']:
      wanted = _SCORES.get(task, [('test', 'accuracy')])
      found = [model[set_name][metric] for set_name, metric in wanted if set_name in model]
      scores = [math.nan if score is None else 100 * score for score in found]
      ours.setdefault(model_name(model['name'], done[task]['flags']), {})[task] = scores
  paper: Rows = {}
  for name, text in _PAPER.items():
    cells = text.split()
    scores_of = dict(zip(cells[::2], cells[1::2], strict=True))
    known = {task: scores_of[task].split('/') for task in tasks if task in scores_of}
    if known:
      paper[f'{name}, the paper'] = {t: [float(s) for s in cell] for t, cell in known.items()}
  headers = ['Model', *(TITLES[task] for task in tasks), 'AVG', 'Degradation', 'Improvement']
  note = (
    'MNLI: matched/mismatched; QQP, MRPC: F1/accuracy; STS-B: Pearson/Spearman; else accuracy. '
    "The paper's AVG are of those of its five tasks that stand here; of all five its alpha = 0.5 "
    'is at -4.6%.'
  )
  both = {task for row in paper.values() for task in row}
  if dev := [TITLES[task] for task in tasks if task in both and not glue.TASKS[task].test]:
    note += (
      f" {', '.join(dev)}: ours are of the dev set, which has labels, the paper's of GLUE's test "
      "set: levels do not compare, changes may. So are MRPC's where its folder has no labelled "
      'test set.'
    )
  return Table(note, headers, [*_rows(ours, tasks), *_rows(paper, tasks)])


def model_name(model: str, run: dict[str, Any]) -> str:
  """A model's name in the paper's tables.

  Args:
    model: Its name in a run's results; 'student' is the run's first variant.
    run: The run's flags.
  """
  if model.startswith('teacher'):
    return model.capitalize()
  variant = model.removeprefix('student').removeprefix(', ') or run['variants'][0]
  alpha = {'distilled': run['alpha'], 'labels': 0}.get(variant, 1)
  return f'DSE ({"frozen, " if variant == "frozen" else ""}alpha = {alpha:g})'


def _rows(models: Rows, tasks: Sequence[str]) -> list[list[str]]:
  """Cells of models; a model of all the first's tasks is compared with it and alpha = 0.5."""
  whole = next(iter(models.values()), {}).keys()
  averages = {
    name: float(np.mean([np.mean(s) for s in scores.values()]))
    for name, scores in models.items()
    if scores.keys() == whole
  }
  first = next(iter(averages.values()), 0.0)
  half = next((average for name, average in averages.items() if _HALF in name), None)
  rows = []
  for name, scores in models.items():
    cells = ['/'.join(f'{s:.1f}' for s in scores.get(task, [])) for task in tasks]
    compared = ['', '', '']
    if (average := averages.get(name)) is not None:
      gained = '' if half is None or average == half else percent(metrics.delta(half, average))
      compared = [f'{average:.2f}', percent(metrics.delta(average, first)), gained]
    rows.append([name, *cells, *compared])
  return rows


if __name__ == '__main__':
  flags.command(main, SuiteConfig)
