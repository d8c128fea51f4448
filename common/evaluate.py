"""Judges a finished export on a labelled table.

  python -m common.evaluate --export=runs/mine/export --test_file=new.tsv --output=judged

An export in its run's folder is read as the run read its tables: the same columns, labels and
metric. The metrics have 95% intervals by bootstrap, as in a run's report; --teacher adds the chance
of each difference from the teacher. Texts that the run learnt from are told from those that it did
not. --output gets report.html and results.json, scores.npz and, of queries with several candidates,
TREC's files. Without TensorFlow, --runtime=litert-int8 --encoder_runtime=litert-int8 scores.
"""

import dataclasses
import importlib.util
import os
import re
import tempfile
from collections.abc import Callable, Collection, Mapping
from typing import Any

from common import digests, extras, files
from common.errors import InputError, check_parent, local_path

with extras.needed('train', 'an evaluation: '):
  from common import flags
  from common.data import examples, memory_tables
  from common.data.examples import TableConfig
  from common.data.task import Task
  from common.data.tuple_set import MemorySet
  from common.distillation import provenance
  from common.distillation.finished_run import FinishedRun
  from common.evaluation import evaluation, exports, judged_set, report, tables, unseen
  from common.evaluation.evaluation import SetScorer
  from common.evaluation.results import Results
  from common.scoring import exported, runtimes
  from common.scoring.exported import Export
  from common.scoring.scorer import PairScorer

_KEPT = ('text_columns', 'vector_columns', 'label_column', 'label_range')  # as the run has them
_SET = 'test'


@dataclasses.dataclass(frozen=True)
class EvaluateConfig:
  """An export, a table, and what it is compared with."""

  export_dir: str = flags.option('', "a run's export, an archive, or hf://org/name", alias='export')
  test_file: str = flags.option(
    '', 'labelled tuples (.tsv, .csv or .jsonl, also with .gz; .parquet)'
  )
  output: str = flags.option('', 'new folder for the report, results and scores')
  run_dir: str = flags.option(
    '', "folder of the export's run; empty: the folder that holds the export, where it is a run's"
  )
  teachers: tuple[str, ...] = flags.option(
    (),
    'folders of teachers, from runs or of Hugging Face sequence classifiers, to compare with; of '
    'several their mean',
    alias='teacher',
  )
  teacher_max_length: int = flags.option(
    128, 'most tokens of a packed tuple, for a Hugging Face classifier', bounds=(4, 8192)
  )
  runtime: str = flags.option(
    '', "runtime of the head; empty: tensorflow, or an archive's own", ('', *runtimes.RUNTIMES)
  )
  encoder_runtime: str = flags.option(
    '',
    "runtime of the encoders; empty: tensorflow, or an archive's own",
    ('', *runtimes.RUNTIMES),
  )
  primary_metric: str = flags.option(
    '', "metric that leads the report; empty: the run's, or the task's own"
  )
  table: TableConfig = flags.group(TableConfig, heading='columns')


def evaluate(
  export: Any,
  test: Any,
  *,
  teacher: Any = None,
  output: Any = '',
  **given: Any,
) -> dict[str, Any]:
  """Judges a finished export on a labelled table: `python -m common.evaluate` from Python.

  >>> found = dipair.evaluate('runs/mine/export', 'new.tsv', teacher='runs/mine/teacher')
  >>> found['models'][-1]['metrics']['test']['auc_roc']['interval']

  Args:
    export: The export, as `Scorer.load` takes it.
    test: A path, or a table in memory, as for `distill`; all of its rows have a label.
    teacher: A folder, as `--teacher` takes it, or several; or a function of a list of tuples of
      texts, as for `distill`; None: there is nothing to compare with.
    output: New folder for the report, results and scores; empty: none are kept.
    **given: The command's other flags; where they name no columns, the export's run does.

  Returns:
    All of `results.json`, whose set is 'test'.

  Raises:
    InputError: As the command refuses flags, tables and folders, in one line.
  """
  own: dict[str, Any] = {'export_dir': local_path(export, 'export')}
  held = None if isinstance(test, (str, os.PathLike)) else test
  if held is None:
    own['test_file'] = local_path(test, 'test')
  if output:
    own['output'] = local_path(output, 'output')
  function = getattr(teacher, 'predict', teacher)
  function = function if callable(function) else None
  if teacher is not None and not function:
    folders = teacher if isinstance(teacher, (list, tuple)) else [teacher]
    own['teachers'] = [local_path(path, 'teacher') for path in folders]
  if twice := own.keys() & given.keys():
    raise InputError(f'{", ".join(sorted(twice))}: given as a flag and by an argument of its own')
  named = flags.named_by(EvaluateConfig, {**own, **given})
  return _evaluated(flags.build(EvaluateConfig, named), named, held, function).as_json()


def _evaluated(
  config: EvaluateConfig,
  named: Collection[str],
  held: Any = None,
  function: Callable[..., Any] | None = None,
) -> Results:
  """Reads and checks all, then judges.

  Args:
    config: The flags.
    named: Names of those that were given; others of the table's are as the run has them.
    held: The table, where it is in memory.
    function: The teacher, where it is a Python function.
  """
  if not config.export_dir or (not config.test_file and held is None):
    raise InputError('--export and --test_file: a finished export, and a labelled table')
  if config.output:
    check_parent(os.path.normpath(config.output), '--output')
    if os.path.exists(config.output):
      raise InputError(f'--output={config.output}: there already; name another')
  export = Export(config.export_dir)
  run = _run_of(config, export)
  table = _table(config, named, export, run)
  metric = config.primary_metric or (run.flags.get('primary_metric', '') if run else '')
  task = table.task_of(metric)
  judged_set.primary(task)  # refuses an unknown one
  _check(export, table, task)
  teachers = _teachers(config, table, task, function)
  scorer = PairScorer.load(export, config.runtime, encoder_runtime=config.encoder_runtime)
  records = _read(config.test_file, table, held)
  judged_set.check(records, task, records.folder)
  scorers = {**teachers, 'student': exports.scorer_of(scorer)}
  learnt = _learnt(run)
  counts = _counts(records, learnt)
  resolved = dataclasses.replace(
    config, table=table, primary_metric=metric, run_dir=run.folder if run else ''
  )

  def judge(folder: str) -> Results:
    os.makedirs(folder, exist_ok=True)
    alone = [name for name in teachers if name != 'teacher']
    sets: Mapping[str, Any] = {_SET: records}
    found = evaluation.evaluate(sets, scorers, task, folder, scorer.temperature, alone, learnt)
    results = Results(
      title=f'{config.export_dir} on {os.path.basename(records.folder)}',
      student=export.description['kind'],
      task=task.kind,
      primary_metric=judged_set.primary(task),
      commit=provenance.commit(),
      command=flags.command_line('common.evaluate', flags.changed(resolved)),
      flags=flags.kept(resolved),
      data=counts,
      **vars(found),
    )
    scores = digests.read_arrays(os.path.join(folder, 'scores.npz'), 'evaluate again')
    report.write_report(results, scores, os.path.join(folder, 'report.html'))
    files.write_json(os.path.join(folder, 'results.json'), results.as_json(), sealed=True)
    return results

  if config.output:
    with files.whole_folder(config.output) as part:
      return judge(part)
  with tempfile.TemporaryDirectory() as folder:
    return judge(folder)


def _run_of(config: EvaluateConfig, export: Export) -> FinishedRun | None:
  """The run that made the export; None where it is not known."""
  folder = config.run_dir
  if not folder:
    folder = os.path.dirname(os.path.abspath(export.folder))
    if not all(os.path.isfile(os.path.join(folder, n)) for n in ('flags.txt', 'results.json')):
      return None
  run = FinishedRun(folder, export.description['kind'])
  own, fingerprint = run.path('export'), export.description['fingerprint']
  if os.path.exists(own) and exported.describe(own)['fingerprint'] != fingerprint:
    raise InputError(f'--run_dir={folder}: its export has other encoders than {export.folder}')
  return run


def _table(
  config: EvaluateConfig, named: Collection[str], export: Export, run: FinishedRun | None
) -> TableConfig:
  """The table's columns and labels: as named, else as the run had them, else as the export says."""
  known: dict[str, Any] = {'task': export.description['task']}
  if run:
    own = run.config(TableConfig)
    known |= {name: getattr(own, name) for name in _KEPT} | {'classes': own.class_names}
  elif len(slots := export.description['slots']) != 2:
    known['text_columns'] = tuple(slots)
  given = flags.flat(config.table)
  return flags.build(
    TableConfig,
    {name: given[name] if name in named else known.get(name, given[name]) for name in given},
  )


def _check(export: Export, table: TableConfig, task: Task) -> None:
  """Refuses columns and labels that do not fit the export."""
  slots, widths = export.description['slots'], export.description['widths']
  columns = ','.join(table.text_columns)
  if len(table.text_columns) != len(slots):
    raise InputError(f'--text_columns={columns}: the export takes {len(slots)}: {", ".join(slots)}')
  if (outputs := export.description['outputs']) != task.outputs:
    raise InputError(
      f'--task={table.task}: {task.outputs} outputs; the export has {outputs}: a class each in '
      '--classes, or one score'
    )
  vectors = examples.vector_columns(table)
  for slot, column in zip(slots, table.text_columns, strict=True):
    if (slot in widths) != (column in vectors):
      kind = f'vectors of {widths[slot]} numbers' if slot in widths else 'texts'
      raise InputError(f'--vector_columns: the export takes {kind} as {slot}, column {column!r}')


def _read(path: str, table: TableConfig, held: Any) -> MemorySet:
  """The table's tuples, all with labels, and with the teacher's scores where a column has them."""
  if held is None:
    return MemorySet(path, examples.read(path, table, labels='all', scored=True))
  others = filter(None, (table.id_column, table.teacher_logits_column))
  needed = [*table.text_columns, table.label_column, *others]
  with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, 'test.jsonl')
    memory_tables.write(held, 'test', path, needed, [])
    try:
      return MemorySet('test', examples.read(path, table, labels='all', scored=True))
    except InputError as error:  # a line of the file is a row of the table
      said = re.sub(rf'{re.escape(path)}:(\d+)', r'test, row \1', str(error))
      raise InputError(said.replace(path, 'test')) from error


def _teachers(
  config: EvaluateConfig,
  table: TableConfig,
  task: Task,
  function: Callable[..., Any] | None,
) -> dict[str, SetScorer]:
  """The teachers by name; none where none is named."""
  if not (config.teachers or function):
    return {}
  if table.teacher_logits_column:
    raise InputError('--teacher, or scores that the table brings in --teacher_logits_column')
  with extras.needed('train', 'a teacher is a model of TensorFlow: '):
    import tensorflow as tf

    from common.distillation import teachers
  if function:
    return teachers.function_scorers(function, table)
  if table.vector_columns:
    raise InputError('--teacher reads texts alone, and the export takes vectors')
  teachers.check(config.teachers, config.teacher_max_length, task)
  loaded = teachers.load(config.teachers, config.teacher_max_length, task)
  return teachers.scorers(loaded, tf.distribute.get_strategy())


def _learnt(run: FinishedRun | None) -> dict[str, Any]:
  """The record sets that the run learnt from, by name."""
  if not run:
    return {}
  if importlib.util.find_spec('tensorflow') is None:
    print('seen and unseen texts: left out, as TensorFlow, which reads the run, is not installed')
    return {}
  from common.distillation import held_out

  return held_out.learnt_sets(run.path('data'), run.path('distill'))


def _counts(records: MemorySet, learnt: Mapping[str, Any]) -> dict[str, int]:
  """Tuples of the table, and those that were learnt from, which are said."""
  counts = {_SET: len(records.tuples())}
  for name, of in learnt.items():
    if count := int(unseen.standing(records, of).sum()):
      counts[f'{_SET}, in {name}'] = count
      print(f'{records.folder}: {count:,} of {counts[_SET]:,} tuples were learnt from ({name})')
  return counts


def main(config: EvaluateConfig) -> None:
  """Judges, and shows all metrics."""
  results = _evaluated(config, flags.present())
  print(report.summary_table(results))
  print(f'\n{tables.tables(results)["All metrics"]}')
  if config.output:
    print(f'report: {os.path.join(config.output, "report.html")}')


if __name__ == '__main__':
  flags.command(main, EvaluateConfig)
