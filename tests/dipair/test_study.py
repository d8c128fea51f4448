"""The study of the paper: its cost, its cross-attention students, and two tables by the command."""

import dataclasses
import json
import os
import shutil
import types

import numpy as np
import optuna
import pytest
import tf_keras

from common import digests, flags
from common.data import record_writer
from common.data.examples import Example
from common.data.records import RecordSet
from common.data.tokens import TokenizedTuples
from common.distillation import teacher
from common.distillation.teacher import Teacher
from common.distillation.trainer import Training
from common.errors import InputError
from common.evaluation.tables import Table
from common.files import read_json, write_json
from common.modeling import checkpoints
from common.modeling.losses import CrossEntropy
from common.training import strategies
from common.training.optimization import PhaseConfig
from dipair.config import StudentConfig
from dipair.finished_run import FinishedRun
from dipair.run import RunConfig
from dipair.study import comparisons, figures, results, rows, sweep, tables
from dipair.study.config import StudyConfig
from dipair.study.cross_students import CrossConfig, CrossStudent
from dipair.study.kept import SETS, Kept, folder_name
from dipair.study.plan import Plan, cost
from dipair.study.rows import Base
from dipair.study.students import Student


def test_cost_by_hand():
  students = [
    (True, {'stage 1': 1000, 'stage 2': 500}),  # costs nothing again
    (False, {'stage 1': 7200, 'stage 2': 3600}),  # 7200 / 4 + 3600 / 2 seconds: 1 hour
    (False, {'stage 2': 3600}),  # half an hour
    (False, {'cross-attention': 10}),
  ]
  found = cost(students, {'stage 1': 4.0, 'stage 2': 2.0})
  assert str(found) == (
    '4 students: 3 to train, 1 trained already or along; 14,410 tuples, about 1.5 hours, '
    'without 1 whose rate this run does not know'
  )


@pytest.mark.parametrize(
  ('flags', 'error'),
  [
    (
      {'tables': ('2', '8')},
      '--tables=8: one or more of 2, 3, 4, 5, 6, 7, losses, temperature, encoders, query_depth',
    ),
    ({'figures': ('3',)}, '--figures=3: one or more of 1, 3a, 3b, 4'),
    ({'seeds': (1, 1)}, '--seeds=1,1: each once'),
    (
      {'rounds': 0, 'figures': ('1',)},
      '--rounds=0 measures no speeds, and --figures=1 is of them',
    ),
    (
      {'stage2': False, 'figures': ('3a',)},
      '--nostage2 trains in stage 1 alone, and --figures=3a is of both',
    ),
  ],
)
def test_flags_are_refused_when_read(flags, error):
  with pytest.raises(InputError) as refused:
    StudyConfig(**flags)
  assert str(refused.value) == error


def test_rows_fit_the_run_and_name_each_student_once():
  base = Base((4, 12), (16, 48), 4, 6, 3)
  for comparison in (*rows.TABLES.values(), *rows.FIGURES.values()):
    found = comparison.rows(base)
    assert len({row.name for row in found}) == len(found) == len({str(r.flags) for r in found})
  assert rows.FIGURES['4'].rows(base)[0].flags == {
    'max_lengths': (4, 12),
    'output_tokens': (4, 12),
  }
  short = rows.TABLES['6'].rows(Base((2, 4), (8, 16), 6, 6, 6))
  assert [row.name for row in short][-1] == 'N=1, M=11, L=2'  # 11 of 8 tokens are not kept
  assert [row.flags['encoder_layers'] for row in rows.FIGURES['3b'].rows(base)] == [*range(1, 7)]
  crossed = [row.flags['cross_attention'] for row in rows.TABLES['2'].rows(base) if row.is_cross]
  assert crossed == ['bert-tiny', '1', '2']  # all three layers are the teacher itself
  for key in '2', '4', '7':  # whatever the run's own head is
    heads = [row.flags['head'] for row in rows.TABLES[key].rows(base) if not row.is_cross]
    assert 'transformer' in heads
  depths = [
    (row.flags['left_encoder_layers'], row.flags['shared_encoder'])
    for row in rows.TABLES['query_depth'].rows(base)
  ]
  assert depths == [
    (1, False),
    (2, False),
    (3, False),
    (0, False),
    (5, False),
    (6, False),
    (0, True),
  ]


@pytest.mark.parametrize(('steps', 'crossed'), [(6000, 4), (0, 0)])
def test_cross_attention_students_without_steps_are_left_out(monkeypatch, steps, crossed):
  monkeypatch.setattr('dipair.study.plan.base_of', lambda *_: Base((4, 12), (16, 48), 4, 6, 6))
  monkeypatch.setattr(Plan, '_students', lambda self, row: [])
  table = types.SimpleNamespace(text_columns=('query', 'title'), vector_columns=())
  run = types.SimpleNamespace(table=table, flags={'precision': 'float32'}, path=lambda name: name)
  phase = dataclasses.replace(CrossConfig().phase, steps=steps)
  made = Plan(StudyConfig(cross=CrossConfig(phase=phase)), run, [rows.TABLES['2']])
  (found,) = made.rows.values()
  assert sum(row.is_cross for row, _ in found) == crossed
  assert sum(not row.is_cross for row, _ in found) == 7


def test_students_are_given_by_the_flags_that_a_file_names(tmp_path):
  (tmp_path / 'three_layers.flags').write_text('# three\n--encoder_layers=3\n--noshared_encoder\n')
  (tmp_path / 'many.flags').write_text('--output_tokens=40,48\n')  # more than by default there are
  found = comparisons.given(
    [str(tmp_path / 'three_layers.flags'), str(tmp_path / 'many.flags')]
  ).rows(None)
  assert found == [
    ("as the run's", {}),
    ('three layers', {'encoder_layers': 3, 'shared_encoder': False}),
    ('many', {'output_tokens': (40, 48)}),
  ]
  file = tmp_path / 'bad.flags'
  for text, error in (
    ('--seed=8', "Unknown command line flag 'seed'"),
    ('--encoder_layers=257', '--encoder_layers=257: a number from 0 to 256 is needed'),
    (
      'encoder_layers=3',
      "'encoder_layers=3' is not a flag; flags look like --name=value (see --help)",
    ),
    ('# none', 'names no flag of a student, such as --encoder_layers=3'),
  ):
    file.write_text(text)
    with pytest.raises(InputError) as refused:
      StudyConfig(students=(str(file),))
    assert str(refused.value) == f'--students={file}: {error}'
  file.write_text('--encoder_layers=3')
  with pytest.raises(InputError, match='a row is named after its file: each of its name'):
    comparisons.given([str(file), str(file)])


@pytest.fixture(name='run')
def _run(distill, tmp_path):
  """A function of flags, in which it differs, to a run of random-tiny, by its files that a plan reads."""

  def make(**changes):
    student = StudentConfig(
      pretrained='random-tiny',
      encoder_layers=2,
      max_lengths=(16, 32),
      output_tokens=(3, 4),
      projection_dim=16,
    )
    train = {'stage1_batch_size': 20, 'stage2_batch_size': 20}
    of_teacher = {'teacher_pretrained': 'random-tiny', 'precision': 'float32'}
    made = {**flags.flat(RunConfig(student=student)), **train, **of_teacher, **changes}
    write_json(f'{tmp_path}/results.json', {'student': 'dipair', 'flags': made})
    write_json(f'{distill}/stage.json', {'fingerprint': '1', 'after': {}})
    return FinishedRun(str(tmp_path))

  return make


@pytest.mark.parametrize(
  ('given', 'error'),
  [
    ('--encoder_layers=9', '--encoder_layers=9: random-tiny has 2'),
    ('--max_lengths=4000,4000', '--max_lengths=4000: random-tiny has 128 positions'),
    ('--pretrained=/nowhere', '/nowhere: no such folder'),
    (
      '--output_tokens=2,4,4\n--max_lengths=16,32,32',
      '--text_columns names 2 texts, --output_tokens and --max_lengths 3',
    ),
    ('--max_lengths=1,32\n--output_tokens=1,4', '--max_lengths=1,32: a text takes 2 or more'),
    ('--head_attention_heads=32', '--head_attention_heads=32: the kept tokens are 16 wide'),
    ('--projection_dim=1', '--projection_dim=1: layer normalization leaves nothing of one number'),
    ('--stage2_batch_size=21', '--stage2_batch_size=21: the distillation set has 20 tuples'),
    (
      '--loss=triplet',
      'the distillation set: each left text stands in one tuple alone, and the loss',
    ),
    (
      '--alpha=0',
      r'.*distill: holds tuples without a label, and --alpha=0 \(DSE: --variants=labels\) takes',
    ),
    ('--loss_temperature=4', '--loss_temperature=4 is of --loss=kd or listwise_kl; --loss=cross_'),
  ],
)
def test_a_student_that_could_not_be_trained_is_refused_before_any_is(run, distill, given, error):
  examples = [
    Example(str(n), (f'red {n}', 'blue'), None if n else 0.5, (0.0,), (0.5,)) for n in range(20)
  ]
  record_writer.write_sets(distill, {'': record_writer.of_examples(examples, 20)}, 2)
  whole = run()
  file = f'{distill}/odd_one.flags'
  with open(file, 'w', encoding='utf-8') as opened:
    opened.write(f'{given}\n')
  config = StudyConfig(students=(file,))
  with pytest.raises(InputError, match=f'^Students of other flags: odd one: {error}'):
    Plan(config, whole, comparisons.asked((), (), config.students))


def test_a_student_of_one_stage_is_trained_where_all_are(run, tmp_path):
  (file := tmp_path / 'one.flags').write_text('--stage2_steps=0\n--head=ffnn\n')
  config = StudyConfig(students=(str(file),), stage2=False)
  plan = Plan(config, run(), comparisons.asked((), (), config.students))
  assert [student.name for student in plan.new] == ['stage2_steps=0', 'head=ffnn-stage2_steps=0']


@pytest.mark.parametrize('all_layers', [False, True])
def test_of_another_checkpoint_all_layers_are_taken_where_the_run_takes_all(
  run, tmp_path, all_layers
):
  whole, file = run(encoder_layers=1), tmp_path / 'other.flags'
  whole.all_layers = all_layers
  for given, layers in ('', 0 if all_layers else 1), ('--encoder_layers=2', 2):
    file.write_text(f'--pretrained=random-tiny\n{given}\n')
    config = StudyConfig(students=(str(file),))
    ((_, (_, (student,))),) = Plan(
      config, whole, comparisons.asked((), (), config.students)
    ).rows.values()
    assert student.config.encoder_layers == layers


@pytest.mark.parametrize(
  ('of_run', 'asked', 'flag'),
  [
    ({'stage1_steps': 0}, {}, 'stage1_steps'),
    ({'stage2_steps': 0}, {}, 'stage2_steps'),
    ({'stage2_steps': 0}, {'stage1_steps': 5}, 'stage2_steps'),
  ],
)
def test_two_stages_are_not_compared_on_a_run_of_one(run, of_run, asked, flag):
  config = StudyConfig(figures=('3a',), **asked)
  with pytest.raises(InputError, match=f'^--figures=3a: the run has one stage; --{flag}=N$'):
    Plan(config, run(**of_run), comparisons.asked((), config.figures, ()))
  both = dataclasses.replace(config, **{flag: 5})
  Plan(both, run(**of_run), comparisons.asked((), config.figures, ()))


def test_rows_are_what_they_are_named_whatever_the_run_is(run):
  odd = run(left_encoder_layers=1, token_selection='mean', head='cosine')
  phase = dataclasses.replace(CrossConfig().phase, steps=0)
  config = StudyConfig(tables=('2', '7', 'encoders'), cross=CrossConfig(phase=phase))
  (main, poly, encoders) = Plan(config, odd, comparisons.asked(config.tables, (), ())).rows.values()
  assert [(row.name, of.config.one_encoder) for row, (of,) in encoders] == [
    ('shared', True),
    ('one a text', False),
  ]
  of_cls = [
    (row.name, of.config.token_selection)
    for row, (of,) in [*main, *poly]
    if row.name.startswith(('DE-', 'Poly-'))
  ]
  assert {name for name, _ in of_cls} > {'DE-Cos', 'DE-FFNN', 'Poly-encoder'} and len(of_cls) == 8
  assert all(selection == 'first' for _, selection in of_cls)  # [CLS]


def test_the_teachers_checkpoint_is_read_where_cross_attention_students_start_from_it(run):
  phase = CrossConfig().phase
  for tables_, steps in (('2',), 0), (('5',), 10):
    config = StudyConfig(
      tables=tables_, cross=CrossConfig(phase=dataclasses.replace(phase, steps=steps))
    )
    whole = run(teacher_pretrained='/nowhere')
    whole.results['training'] = [{'name': 'teacher', 'pairs_per_second': 2.0}]
    Plan(config, whole, comparisons.asked(tables_, (), ())).cost()
  (main,) = Plan(StudyConfig(), run(), comparisons.asked(('2',), (), ())).rows.values()
  crossed = [row.name for row, _ in main if row.is_cross]
  assert crossed[1:] == ['cross-attention, first layer of random-tiny']  # not the teacher's own


@pytest.mark.parametrize('of_run', [{}, {'task': 'multiclass', 'classes': ('a', 'b', 'c')}])
def test_losses_that_do_not_fit_are_left_out(run, distill, capsys, of_run):
  examples = [Example(str(n), (f'red {n}', 'blue'), None, (0.0,), (0.5,)) for n in range(20)]
  record_writer.write_sets(distill, {'': record_writer.of_examples(examples, 20)}, 2)
  (found,) = Plan(StudyConfig(), run(**of_run), [rows.TABLES['losses']]).rows.values()
  assert [row.name for row, _ in found] == ["Eq. 1 on the run's soft labels", 'squared error']
  said = capsys.readouterr().out
  for name in 'margin-MSE', 'listwise KL':
    assert f'Losses of distillation: {name} is left out: ' in said


def test_features_of_random_encoders_are_not_shared_by_other_depths(run):
  made = run(shared_encoder=False)
  one, two = (Student(made, '', {'left_encoder_layers': layers}) for layers in (1, 2))
  assert one.shared[1] != two.shared[1]  # the left one is drawn first


def test_a_cross_attention_student_depends_on_what_its_checkpoint_holds(run, tiny, tmp_path):
  model, tokenizer = tiny()
  checkpoint, root = tmp_path / 'checkpoint', str(tmp_path / 'study')
  teacher.Teacher(model.encoder_config, tokenizer, 16, 1).save(str(checkpoint))
  config = CrossConfig(tiny_pretrained=str(checkpoint))
  made = run()

  def student():
    return CrossStudent(made, root, {rows.CROSS: rows.TINY}, config, strategies.DeviceConfig())

  before = student()
  os.makedirs(before.folder)
  flags_of = before.made_of
  write_json(f'{before.folder}/flags.json', flags_of)
  open(f'{before.folder}/done', 'w', encoding='utf-8').close()
  assert student().trained
  (checkpoint / 'digests.json').write_text('{"files": {}}')
  with pytest.raises(InputError, match=f'made with other contents of {checkpoint}; remove'):
    assert student().trained
  write_json(
    f'{before.folder}/flags.json',
    {k: v for k, v in flags_of.items() if not k.startswith('contents')},
  )
  assert student().trained  # of an earlier version
  of_run = run(teacher_pretrained=str(checkpoint))
  random = CrossStudent(
    of_run, root, {rows.CROSS: rows.TINY}, CrossConfig(), strategies.DeviceConfig()
  )
  assert f'contents of {checkpoint}' in random.made_of  # its vocabulary is the checkpoint's


def test_a_student_is_of_the_metric_that_picked_its_weights(run, tmp_path):
  def students(**changes):
    made, devices, root = run(**changes), strategies.DeviceConfig(), str(tmp_path / 'study')
    cross = CrossStudent(made, root, {rows.CROSS: rows.TINY}, CrossConfig(), devices)
    return Student(made, root, {'projection_dim': 8}), cross

  for before, named, other in zip(
    students(), students(primary_metric='pearson'), students(primary_metric='ndcg@10'), strict=True
  ):
    os.makedirs(before.folder)
    kept = json.loads(json.dumps(before.made_of))
    write_json(f'{before.folder}/flags.json', kept)
    assert not named.trained  # the task's own, as before
    with pytest.raises(InputError, match='made with other primary_metric; remove the folder'):
      assert other.trained
    del kept['primary_metric']
    write_json(f'{before.folder}/flags.json', kept)
    assert not other.trained  # of an earlier version


def test_a_folder_is_named_as_the_frontiers_are():
  own = {'output_tokens': (4, 12), 'projection_dim': 64, 'head_activation': 'gelu'}
  assert folder_name(own) == 'output_tokens=(4,12)-projection_dim=64-head_activation=gelu'
  long, other = ({**own, **{f'flag_{n:02}': n for n in range(30)}, 'z': z} for z in (1, 2))
  assert len(folder_name(long)) == 200 and folder_name(long) != folder_name(other)


def test_what_another_is_between_its_stages_is_trained_where_that_one_is_not():
  def student(name, longer=None):
    one = Student.__new__(Student)
    one.name, one.longer, one.own, one._folder = name, longer, {'a': 1}, '/nowhere'
    one.config = types.SimpleNamespace(output_tokens=(1, 1))
    return one

  both = student('both')
  between = student('between', both)
  plan = types.SimpleNamespace
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(Student, 'trained', False)
    assert Plan.new.fget(plan(students=[both, between])) == [both]
    assert Plan.new.fget(plan(students=[between])) == [between]


def test_students_of_before_a_flag_came_are_kept(tmp_path):
  class Toy(Kept):
    made_of = {'freeze_right': '', 'projection_dim': 8}
    design = tuples = fit = scorer = None

  toy = Toy(None, str(tmp_path), {'projection_dim': 8}, None, 1)
  folder = tmp_path / 'projection_dim=8'
  folder.mkdir()
  (folder / 'done').touch()
  (folder / 'flags.json').write_text('{"projection_dim": 8}')
  assert toy.trained
  (folder / 'flags.json').write_text('{"projection_dim": 4}')
  with pytest.raises(InputError, match='made with other projection_dim; remove the folder'):
    assert toy.trained


def test_a_cross_attention_student_learns_soft_labels_by_its_first_layer(distill, tmp_path):
  devices = strategies.DeviceConfig()
  training = Training(distill, distill, 'regression', 1, devices, strategies.create(devices), 1)
  whole = checkpoints.read(checkpoints.RANDOM_TINY)
  shape = dataclasses.replace(whole.config, num_layers=1, dropout=0.0)
  pretrained = dataclasses.replace(whole, config=shape)

  def fit(folder, rate, steps):
    tf_keras.utils.set_random_seed(1)
    phase = PhaseConfig(rate, 20, steps, warmup_steps=0, eval_every=1, patience=0)
    path = str(tmp_path / folder)
    soft = {'criterion': CrossEntropy(), 'name': 'student'}
    history = teacher.fine_tune(pretrained, 8, phase, training, path, **soft)
    return [entry['loss'] for entry in history['history'][1:]], Teacher.load(path)

  (loss,), untrained = fit('untrained', 1e-30, 1)
  records = RecordSet(distill)
  tuples = TokenizedTuples.of_set(records, untrained.tokenizer)
  z = untrained.logits(tuples, strategy=training.strategy)[:, 0]
  y = records.tuples().targets('soft_labels', slice(None), 1)[:, 0]
  p = 1 / (1 + np.exp(-z))
  assert loss == pytest.approx(-np.mean(y * np.log(p) + (1 - y) * np.log(1 - p)), abs=1e-5)
  losses, trained = fit('trained', 3e-3, 40)
  assert trained.encoder_config.num_layers == 1
  assert losses[0] == pytest.approx(loss, abs=1e-5) and losses[-1] < losses[0] - 0.01


def study(**changes):
  """Two students and a teacher, as `study.json` holds them."""
  of = lambda value: {'pearson': value, 'spearman': value / 2}  # noqa: E731
  one = {'valid': of(0.5), 'test': of(0.45), 'head_parameters': 1200, 'bytes': [16, 32]}
  cross = {'valid': of(0.4), 'test': of(0.36)}
  compared = {'delta': {'valid': -0.1, 'test': -0.1}, 'interval': {'test': [-0.2, 0.0]}}
  rate = lambda value, ratio: {'pairs_per_second': value, 'ratio': ratio}  # noqa: E731
  return {
    'metrics': ['pearson', 'spearman'],
    'teacher': {'valid': of(0.55), 'test': of(0.5)},
    'students': {'a': one, 'b': {**one, 'test': of(0.47)}, 'c': cross},
    'comparisons': {
      'figure1': {
        'title': 'Speed and quality',
        'axis': '',
        'timed': True,
        'rows': [
          {'name': 'head', 'cross': False, 'students': ['a', 'b'], **compared}
          | {'p_value': {'test': 0.0}, 'closest': 'tiny', 'p_closest': 0.04},
          {'name': 'tiny', 'cross': True, 'students': ['c'], **compared}
          | {'p_value': {'test': 0.5}},
        ],
      }
    },
    'speed': {
      'base': {'pairs_per_second': 10.0},
      'teacher': {'pairs_per_second': 100.0},
      'students': {
        'a': {
          'tensorflow': rate(1000.0, 100.0),
          'litert': rate(2000.0, 200.0),
          'litert-int8': {**rate(5000.0, 500.0), 'test': 0.44},
        },
        'c': {'128 tokens': rate(80.0, 8.0), 'real lengths': rate(300.0, 30.0)},
      },
    },
    **changes,
  }


def test_a_table_by_hand():
  found = tables.table(study(), 'figure1')
  assert isinstance(found, Table)
  columns = dict(zip(found.headers, zip(*found.rows, strict=True), strict=True))
  assert columns['Student'] == ('teacher', 'head', 'tiny')
  assert columns['Pearson (test)'] == ('0.500', '0.460 ± 0.014', '0.360')
  assert columns['Spearman (test)'] == ('0.250', '0.230 ± 0.007', '0.180')
  assert columns['Delta (test)'][1] == '-10.0% [-20.0, 0.0]'
  assert columns['p'] == ('', '<0.001', '0.5')
  assert columns['p (closest)'] == ('', '0.04', '')
  assert columns['Bytes a text'] == ('', '16 + 32', '')
  assert columns['Pairs/s'] == ('100', '2,000', '80')
  assert columns['× BERT-base at 128'] == ('10×', '200×', '8×')
  assert columns['× its teacher'] == ('1×', '20×', '3×')  # each on real lengths, but for heads
  assert columns['× in int8'] == ('', '500×', '')
  assert columns['Test in int8'] == ('', '0.450, 0.440', '')  # of the first seed, exact before it
  encoding = study(encoding={'a': {'tensorflow': 1234.5, 'litert-int8': 5678.0}})
  assert 'Texts/s' not in tables.table(encoding, 'figure1').headers
  encoding['comparisons']['figure1']['encoders'] = True
  of_encoders = tables.table(encoding, 'figure1')
  columns = dict(zip(of_encoders.headers, zip(*of_encoders.rows, strict=True), strict=True))
  assert columns['Texts/s'] == ('', '1,230', '')
  assert columns['Texts/s in int8'] == ('', '5,680', '')
  ranked = json.loads(json.dumps(study()).replace('pearson', 'ndcg@10'))  # it decides
  assert tables.table(ranked, 'figure1').headers.count('NDCG@10 (test)') == 1
  plain = study(speed={}, teacher=None)
  plain['comparisons']['figure1']['timed'] = False
  untimed = tables.table(plain, 'figure1')
  assert 'Pairs/s' not in untimed.headers and untimed.rows[0][0] == 'head'


def test_the_tradeoff_stands_where_it_was_measured():
  drawn = figures.draw(study(), 'figure1')
  (axes,) = drawn.axes
  points = {tuple(xy.round(6)) for line in axes.lines for xy in np.transpose(line.get_data())}
  # Int8 costs 0.01 of the first seed's 0.45, so of the seeds' mean too; one is at the bottom.
  assert {(200.0, 0.46), (500.0, 0.45), (8.0, 0.4)} <= points
  assert drawn.legends[0].get_texts()[1].get_text() == '2  tiny (0.360)'
  assert figures.draw(study(), 'table2') is None
  undefined = study()
  undefined['speed']['students']['a']['litert-int8']['test'] = None
  assert figures.draw(undefined, 'figure1')
  assert tables.table(undefined, 'figure1').rows[1][-1] == '0.450, n/a'
  lost = json.loads(json.dumps(study()).replace('pearson', 'log_loss'))  # less is better
  lost['students']['c']['test']['log_loss'] = 0.7
  (axes,) = figures.draw(lost, 'figure1').axes
  points = {tuple(xy.round(6)) for line in axes.lines for xy in np.transpose(line.get_data())}
  assert {(200.0, 0.46), (8.0, 0.6)} <= points
  assert {'teacher', '+3%', '2↑'} <= {text.get_text() for text in axes.texts}


def test_a_kept_student_is_judged_by_a_metric_that_the_run_has_since(tmp_path):
  of = types.SimpleNamespace(evaluate=lambda logits: {'mrr@10': float(logits.sum())})
  run = types.SimpleNamespace(results={'primary_metric': 'mrr@10'}, judged=lambda name: of)
  kept = types.SimpleNamespace(run=run, folder=str(tmp_path))
  for name in SETS:
    np.save(tmp_path / f'{name}.npy', np.ones([3, 1]))
  digests.write(tmp_path, [f'{name}.npy' for name in SETS])
  kept.logits = lambda name: digests.read_arrays(f'{tmp_path}/{name}.npy', '')
  old = {'seed': 7, 'valid': {'auc_roc': 0.9}, 'test': {'auc_roc': 0.9}}
  write_json(f'{tmp_path}/result.json', old, sealed=True)
  found = {'seed': 7, 'valid': {'mrr@10': 3.0}, 'test': {'mrr@10': 3.0}}
  assert Kept.result(kept) == found == read_json(f'{tmp_path}/result.json')


def test_what_was_of_the_runs_own_student_and_teacher_goes_with_them(tmp_path):
  for name in ('distill', 'student'):
    (tmp_path / name).mkdir()
    (tmp_path / name / 'stage.json').write_text('{"fingerprint": "1"}')
  root = tmp_path / 'study'
  stage = lambda name: read_json(f'{tmp_path}/{name}/stage.json')  # noqa: E731
  run = types.SimpleNamespace(stage=stage)
  plan = types.SimpleNamespace(root=str(root), run=run)
  kept = [root / 'own' / 'result.json', root / 'teacher-test.npy', root / 'head=ffnn' / 'done']
  for path in kept:
    path.parent.mkdir(parents=True, exist_ok=True)
  Plan.renew(plan)
  for path in kept:
    path.parent.mkdir(exist_ok=True)
    path.touch()
  Plan.renew(plan)
  assert all(path.exists() for path in kept)
  (tmp_path / 'student' / 'stage.json').write_text('{"fingerprint": "2"}')  # `--redo`
  Plan.renew(plan)
  assert [path.exists() for path in kept] == [False, False, True]


def test_the_runs_own_stage_1_is_scored_anew_where_the_run_was_made_anew(tmp_path, monkeypatch):
  best = tmp_path / 'student' / 'stage1' / 'best'
  best.mkdir(parents=True)
  (tmp_path / 'distill').mkdir()

  def made(number):  # the run, or `--redo`
    for name in ('distill', 'student'):
      (tmp_path / name / 'stage.json').write_text(json.dumps({'fingerprint': str(number)}))
    (best / 'weights').write_text(str(number))

  judged = types.SimpleNamespace(evaluate=lambda logits: {'pearson': float(logits.sum())})
  run = types.SimpleNamespace(
    path=lambda name: str(tmp_path / name),
    stage=lambda name: read_json(f'{tmp_path}/{name}/stage.json'),
    judged=lambda name: judged,
    results={'primary_metric': 'pearson'},
  )
  plan = types.SimpleNamespace(root=str(tmp_path / 'study'), run=run)
  own, stage1 = Student.__new__(Student), Student.__new__(Student)
  for student, own_flags, longer in ((own, {}, None), (stage1, {'stage2_steps': 0}, own)):
    student.run, student.own, student.longer, student.seed = run, own_flags, longer, 7
    student.weights = str(tmp_path / 'student')
    student._folder = str(tmp_path / 'study' / ('alone' if own_flags else 'own'))
  monkeypatch.setattr('dipair.study.kept.RecordSet', lambda folder: None)

  def of_best(student):
    return lambda records: np.full([1, 1], float((best / 'weights').read_text())), {}

  monkeypatch.setattr(Student, 'scorer', of_best)
  left = tmp_path / 'study' / 'alone'  # as of an earlier version
  left.mkdir(parents=True)
  write_json(str(left / 'result.json'), {'test': {'pearson': -1.0}})
  for number in (1, 1, 2):
    made(number)
    Plan.renew(plan)
    assert stage1.trained and stage1.result()['test'] == {'pearson': number}
    assert stage1.logits('test') == number


def test_a_calibrated_run_has_its_own_head_as_trained(tmp_path):
  student = Student.__new__(Student)
  student.own, student.longer, student._folder = {}, None, str(tmp_path / 'own')
  (tmp_path / 'own' / 'head').mkdir(parents=True)
  student.run = types.SimpleNamespace(path=lambda name: f'{tmp_path}/{name}', flags={})
  for of_run, folder in (({}, 'export'), ({'calibration': 'temperature'}, 'own/head')):
    student.run.flags = of_run
    assert student.head() == f'{tmp_path}/{folder}'


def test_rows_by_a_metric_of_which_less_is_better_and_one_that_is_undefined():
  values = {'a': 0.3, 'b': 0.5, 'c': 0.4, 'd': None}
  students = {n: {s: {'log_loss': v} for s in ('valid', 'test')} for n, v in values.items()}
  columns = {n: np.full(3, np.nan if v is None else v) for n, v in values.items()}
  teacher = {s: {'log_loss': 0.25} for s in ('valid', 'test')}
  columns['teacher'] = np.full(3, 0.25)
  named = [(rows.Row(n, {}), [types.SimpleNamespace(name=n)]) for n in values]
  found = results._rows(named, students, teacher, columns, 'log_loss')
  assert [row.get('closest') for row in found] == ['c', None, 'b', None]
  assert found[0]['delta']['test'] == pytest.approx(0.2)
  assert np.isnan(found[3]['delta']['test'])


@pytest.fixture(name='sweeping')
def _sweeping(tmp_path, monkeypatch):
  """A function of a metric and its value for each set of flags, asked in turn, to a plan to sweep."""

  def make(metric, value):
    def student(run, root, own, devices):
      result = lambda: {'valid': {metric: value(own)}}  # noqa: E731
      return types.SimpleNamespace(name='', train=lambda: None, result=result)

    monkeypatch.setattr(sweep, 'Student', student)
    monkeypatch.setattr(sweep, 'differing', lambda run, own: own)
    monkeypatch.setattr(sweep, 'RecordSet', lambda folder: range(200))
    run = types.SimpleNamespace(
      config=lambda cls: cls(),
      flags={'seed': 1},
      results={'primary_metric': metric},
      path=lambda name: f'{tmp_path}/{name}',
      stage=lambda name: {'fingerprint': 'of the set'},
    )
    devices = types.SimpleNamespace(precision='float32')
    config = types.SimpleNamespace(steps={})
    return types.SimpleNamespace(root=str(tmp_path), run=run, config=config, devices=devices)

  return make


@pytest.mark.parametrize(('metric', 'best'), [('log_loss', min), ('auc_roc', max)])
def test_a_sweep_looks_for_the_best_and_for_another_one_of_other_steps(
  tmp_path, sweeping, metric, best
):
  values = [0.7, 0.2, 0.5]
  made = iter([*values, 0.4])
  plan = sweeping(metric, lambda own: next(made))
  (tmp_path / 'features').mkdir()
  lines = sweep.sweep(plan, 3)
  assert not (tmp_path / 'features').exists()
  assert '--stage1_batch_size=128' in lines and '--stage2_batch_size=128' in lines  # of 200 tuples
  storage = f'sqlite:///{tmp_path}/sweep.db'
  found = optuna.load_study(study_name=None, storage=storage)
  assert found.best_value == best(values)
  assert f'--stage1_batch_size={found.best_params["stage1_batch_size"]}' in lines
  assert sweep.sweep(plan, 3) == lines
  plan.config.steps = {'stage2_steps': 0}  # were these trials the others', one would be missed here
  assert '--stage2_steps=0' in sweep.sweep(plan, 1)
  assert len(optuna.get_all_study_names(storage)) == 2


@pytest.mark.parametrize('error', [KeyboardInterrupt, OSError])
def test_a_sweep_goes_on_with_the_trial_that_was_stopped(sweeping, error):
  asked, left = [], [error]

  def value(own):
    asked.append(own)
    if len(asked) > 1 and left:
      raise left.pop()
    return 0.5

  plan = sweeping('auc_roc', value)
  with pytest.raises(error):
    sweep.sweep(plan, 3)
  sweep.sweep(plan, 3)
  assert len(asked) == 4 and asked[2] == asked[1] and asked[3] not in asked[:3]


def test_a_sweep_gives_up_on_a_trial_that_fails_each_time(sweeping):
  asked = []

  def value(own):
    asked.append(own)
    raise MemoryError

  plan = sweeping('auc_roc', value)
  for _ in range(5):
    with pytest.raises(MemoryError):
      sweep.sweep(plan, 2)
  assert asked[1:4] == 3 * asked[:1] and asked[4] != asked[0]


def test_a_trial_without_a_metric_is_never_the_best(sweeping):
  made = iter([None, None, 0.3])
  plan = sweeping('auc_roc', lambda own: next(made))
  with pytest.raises(InputError, match='--sweep=2: auc_roc of valid is undefined for every trial'):
    sweep.sweep(plan, 2)
  assert sweep.sweep(plan, 3)


def test_the_command_trains_each_student_once_and_nothing_again(tmp_path, python, smoke_run):
  run = tmp_path / 'run'
  shutil.copytree(smoke_run / 'copy', run)
  asked = ('-m', 'dipair.study', '--flagfile=configs/study.flags', f'--run_dir={run}')
  own = tmp_path / 'one_stage.flags'
  own.write_text('--stage1_steps=0\n')
  asked += ('--tables=encoders', '--figures=3a')
  first = python(*asked, f'--students={own}', '--rounds=1')
  assert first.returncode == 0, first.stderr[-3000:]
  # Three heads in one stage and two in both, and encoders apart; the own one, and three after stage 1.
  assert '10 students: 6 to train, 4 trained already or along' in first.stdout
  assert '6 of 6: ' in first.stdout
  folder = run / 'study'
  study = json.loads((folder / 'study.json').read_text(), parse_constant=pytest.fail)
  assert [*study['comparisons']] == ['encoders', 'figure3a', 'students']
  given = study['comparisons']['students']['rows']
  assert [row['students'] for row in given] == [['own'], ['stage1_steps=0']]
  assert study['encoding'].keys() == study['speed']['students'].keys() == {'own', 'stage1_steps=0'}
  assert study['comparisons']['encoders']['rows'][0]['students'] == ['own']
  results = json.loads((run / 'results.json').read_text())
  for name, model in (('own', 'student'), ('stage2_steps=0', 'student, stage 1')):
    (expected,) = [m['test']['pearson'] for m in results['models'] if m['name'] == model]
    assert study['students'][name]['test']['pearson'] == pytest.approx(expected, abs=1e-6)
  assert len(np.load(folder / 'head=ffnn-stage1_steps=0' / 'test.npy')) == results['data']['test']
  assert (folder / 'figure3a.png').stat().st_size > 10_000
  assert 'figure3a.png' in (folder / 'study.md').read_text()
  assert not (folder / 'features').exists()
  weights = {path: path.stat().st_mtime_ns for path in folder.rglob('weights.*')}
  assert len(weights) == 12
  assert study['students']['own']['accelerators'] == results['environment']['accelerators']
  again = python(*asked, f'--students={own}', '--rounds=0')
  assert again.returncode == 0, again.stderr[-3000:]
  untimed = json.loads((folder / 'study.json').read_text())
  assert not untimed['speed'] and not untimed['encoding']
  assert 'Pairs/s' not in (folder / 'study.md').read_text()
  assert '10 students: 0 to train, 10 trained already or along; 0 tuples' in again.stdout
  assert weights == {path: path.stat().st_mtime_ns for path in folder.rglob('weights.*')}
