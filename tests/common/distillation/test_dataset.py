"""A run's record sets from every source, and what of their flags is refused."""

import dataclasses
import gc
import itertools
import json
import os
import re
import types
from unittest import mock

import numpy as np
import pytest

from common.data import catalog, examples, glue_tfds, record_writer
from common.data.examples import Example, TableConfig
from common.data.records import RecordSet
from common.distillation import checks, dataset, embedders, pairing, run
from common.distillation.config import AnnotationConfig, ExperimentConfig
from common.distillation.dataset import DataConfig, LabelledSets
from common.distillation.mining import MiningConfig
from common.distillation.pairing import PairingConfig
from common.distillation.run_folder import RunFolder
from common.distillation.sources.catalogue import CatalogueConfig
from common.distillation.sources.glue import GlueConfig
from common.distillation.sources.tables import Tables, TablesConfig
from common.distillation.student import check_set
from common.distillation.teacher import TeacherConfig
from common.errors import InputError, refuse
from common.modeling.list_losses import MarginMSE
from common.modeling.losses import LossConfig

RTE = TableConfig(task='rte')
HEADER = 'index\tsentence1\tsentence2\tlabel\n'
TRAIN_ITSELF = PairingConfig(distillation_pairs=0)
ALONE = (
  '--alpha=0 (DSE: --variants=labels) needs a label on every pair, and most made pairs have none; '
  'train on the training set (--distillation_pairs=0 --augmentations=0)'
)
MINED = {
  'mining': MiningConfig(mine_from='a'),
  'table': TableConfig(text_columns=('query', 'passage'), task='binary'),
}


def labels(folder) -> list[float]:
  return RecordSet(str(folder)).tuples().label[:, 0].tolist()


def rows_of(folder) -> list[tuple[str, ...]]:
  return RecordSet(str(folder)).texts()


def tables(tmp_path, rows, judging=(('judge', 'a', 1), ('judge', 'b', 0)), **config):
  """A config of tables of (left, right, label) rows: `rows` to train on, `judging` to judge."""
  paths = [tmp_path / name for name in ('rows.tsv', 'judging.tsv')]
  for path, of in zip(paths, (rows, judging), strict=True):
    lines = ['left\tright\tlabel', *('\t'.join(map(str, row)) for row in of)]
    path.write_text('\n'.join(lines) + '\n', encoding='utf-8')
  train, judges = map(str, paths)
  return DataConfig(files=TablesConfig(train, judges, judges), **config)


def declared(folder, config, losses=(), **sizes):
  """A run's folder with its first stages: the labelled sets and the unlabelled tuples."""
  student = types.SimpleNamespace(losses=losses, batch_sizes=sizes, depends_on={})
  of = RunFolder(str(folder), config, 'toy.run', redo=False)
  run.declare(of, ExperimentConfig(data=config), student, None)
  del of.stages[2:]
  return of


def test_a_tables_rows_come_back_in_order_each_text_once_in_groups_of_64(tmp_path):
  rows = [(f'left {i // 3}', f'right {i % 7}', i % 5 / 4) for i in range(150)]
  config = tables(tmp_path, rows)
  data = tmp_path / 'data'
  made = dataset.write_labelled(config, str(data), seed=1)
  assert made == LabelledSets({'train': 150, 'valid': 2, 'test': 2}, left_out=0)
  assert rows_of(data / 'train') == [row[:2] for row in rows]
  assert labels(data / 'train') == pytest.approx([row[2] for row in rows])
  tuples = RecordSet(str(data / 'train')).tuples()
  assert tuples.groups.tolist() == [0, 64, 128, 150]
  assert not tuples.ids
  assert [len(RecordSet(str(data / 'test')).items(slot)) for slot in (0, 1)] == [51, 9]
  assert sorted(path.name for path in (data / 'items').iterdir()) == ['0.tfrecord', '1.tfrecord']


def test_what_valid_or_test_has_is_in_nothing_that_is_learnt_from(tmp_path, capsys):
  judging = [('Nike  shoes', 'Black, 42', 1), ('Café', 'x', 0), ('u', 'v', 1)]
  rows = [('nike SHOES', 'black , 42', 1), ('cafe', 'x', 0), ('v', 'u', 1), ('u', 'x', 0.5)]
  brought = tmp_path / 'brought.tsv'
  brought.write_text('left\tright\nu\tv\nu\tw\nX\tcafé\n', encoding='utf-8')
  config = tables(tmp_path, rows, judging, pairing=TRAIN_ITSELF)
  data = str(tmp_path / 'data')
  made = dataset.write_labelled(config, data, seed=1)
  assert made == LabelledSets({'train': 1, 'valid': 3, 'test': 3}, left_out=3)
  assert rows_of(tmp_path / 'data' / 'train') == [('u', 'x')]
  files = dataclasses.replace(config.files, distillation_file=str(brought))
  config = dataclasses.replace(config, files=files)
  found = dataset.write_unlabelled(config, data, str(tmp_path / 'unlabelled'), seed=1)
  assert (found.count, found.left_out) == (1, 2)
  assert rows_of(tmp_path / 'unlabelled') == [('u', 'w')]
  said = 'train: 3 of 4 tuples stand in valid or test; left out'
  assert said in capsys.readouterr().out


def test_a_block_keeps_its_size_by_its_own_pairs_where_some_are_left_out(tmp_path, monkeypatch):
  rng = np.random.default_rng(0)
  encode = lambda texts, advance: rng.normal(size=(len(texts), 8))  # noqa: E731
  encoder = types.SimpleNamespace(dim=8, encode=encode)
  monkeypatch.setattr(pairing, 'MeanPooledEncoder', lambda path: encoder)
  made = PairingConfig(12, 6)
  rows = [('x', 'a', 1), ('y', 'b', 0), ('x', 'c', 1)]
  config = tables(tmp_path, rows, [('y', 'a', 0), ('y', 'c', 1)], pairing=made)
  data, unlabelled = tmp_path / 'data', tmp_path / 'unlabelled'
  dataset.write_labelled(config, str(data), seed=1)
  found = dataset.write_unlabelled(config, str(data), str(unlabelled), seed=1)
  assert (found.count, found.left_out) == (12, 4)
  assert np.diff(RecordSet(str(unlabelled)).tuples().groups).tolist() == [6, 6]
  assert set(rows_of(unlabelled)) == {('x', 'a'), ('x', 'b'), ('x', 'c'), ('y', 'b')}


def test_a_training_file_alone_is_split_by_its_left_texts(tmp_path):
  rows = [((f'Left {i // 4}!', f'left  {i // 4}')[i % 2], f'right {i}') for i in range(400)]

  def sets(count):
    path, data = tmp_path / 'rows.jsonl', tmp_path / f'data {count}'
    found = [{'left': left, 'right': right, 'label': 0.5} for left, right in rows[:count]]
    path.write_text('\n'.join(map(json.dumps, found)))
    dataset.write_labelled(DataConfig(files=TablesConfig(str(path))), str(data), seed=1)
    return {name: rows_of(data / name) for name in ('train', 'valid', 'test')}

  with mock.patch.object(examples, 'read', wraps=examples.read) as read:
    few, all_of_them = sets(300), sets(400)
  assert read.call_count == 2  # a file is read once for its three sets
  assert sorted(itertools.chain(*all_of_them.values())) == sorted(rows)
  assert all(all_of_them[name][: len(few[name])] == few[name] for name in few)
  texts = [{left.split()[1].strip('!') for left, _ in found} for found in all_of_them.values()]
  assert sum(map(len, texts)) == len(set.union(*texts)) == 100
  assert len(texts[0]) > 60 > 30 > max(len(texts[1]), len(texts[2]))
  with pytest.raises(InputError, match='rows.jsonl: no left text is in (train|valid), by its hash'):
    sets(4)


def test_a_bad_row_is_told_after_the_last_bar(tmp_path, capsys):
  config = tables(tmp_path, [('a', 'b', 1)], table=TableConfig(label_column='grade'))
  with pytest.raises(InputError, match="no column 'grade'") as told:
    dataset.write_labelled(config, str(tmp_path / 'data'), seed=1)
  with pytest.raises(SystemExit):
    refuse(told.value)
  del told
  gc.collect()
  assert re.split('[\r\n]', capsys.readouterr().err.strip())[-1].startswith('error: ')


def test_a_distillation_file_keeps_its_ids_and_logits(tmp_path):
  path = tmp_path / 'scored.jsonl'
  lines = [{'left': 'a', 'right': f'b {i}', 'z': i - 1.5, 'key': f'k{i}'} for i in range(3)]
  path.write_text('\n'.join(map(json.dumps, lines)), encoding='utf-8')
  table = TableConfig(teacher_logits_column='z', id_column='key')
  config = DataConfig(files=TablesConfig('', 'v.tsv', 't.tsv', str(path)), table=table)
  assert config.source.brings_logits
  assert dataset.write_unlabelled(config, '', str(tmp_path / 'set'), seed=1).count == 3
  scored = RecordSet(str(tmp_path / 'set'))
  tuples = scored.tuples()
  assert [key for group in scored.groups() for key in group.ids] == ['k0', 'k1', 'k2']
  assert tuples.teacher_logits.tolist() == [[-1.5], [-0.5], [0.5]]
  assert tuples.label is None


@pytest.mark.parametrize(
  ('flags', 'message'),
  [
    (
      {'teachers': ('runs/a/teacher',)},
      '--distillation_file already has teacher scores: remove --teacher=runs/a/teacher',
    ),
    (
      {'annotation': AnnotationConfig(1.0, 'litert-int8')},
      'runs a teacher of a folder, not scores that a file',
    ),
  ],
)
def test_flags_of_a_teacher_are_refused_where_the_file_brings_its_scores(flags, message):
  files = TablesConfig('', 'v.tsv', 't.tsv', 'scored.tsv')
  data = DataConfig(files=files, table=TableConfig(teacher_logits_column='z'))
  with pytest.raises(InputError, match=message):
    ExperimentConfig(data=data, **flags)


def test_vectors_of_another_width_are_refused_by_file_and_line(tmp_path):
  for name, cell in (('train', '1 2'), ('valid', '[3, 4]'), ('test', '1 2 3')):
    (tmp_path / f'{name}.tsv').write_text(f'left\tright\tlabel\na\t{cell}\t1\n')
  paths = [str(tmp_path / f'{name}.tsv') for name in ('train', 'valid', 'test')]
  table = TableConfig(vector_columns=('right',))
  source = Tables(TablesConfig(*paths, 'd.tsv'), table, (0.8, 0.1, 0.1))
  message = f"^{paths[2]}:2, column 'right': a vector of 3 numbers; those before have 2$"
  with pytest.raises(InputError, match=message):
    source.write_labelled(str(tmp_path / 'data'), 1)


def test_logits_in_some_rows_alone_are_refused(tmp_path):
  path = tmp_path / 'valid.jsonl'
  lines = [{'left': 'a', 'right': 'b', 'label': 1, 'z': 2}, {'left': 'a', 'right': 'c', 'label': 1}]
  path.write_text('\n'.join(map(json.dumps, lines)), encoding='utf-8')
  files = TablesConfig(str(path), str(path), str(path), str(path))
  config = DataConfig(files=files, table=TableConfig(teacher_logits_column='z'))
  with pytest.raises(InputError, match='valid.jsonl: row 2: all rows have teacher logits, or none'):
    dataset.write_labelled(config, str(tmp_path / 'data'), seed=1)


def test_the_training_set_itself_shares_its_items_and_keeps_its_labels(tmp_path):
  config = tables(tmp_path, [('a', 'b', 1), ('a', 'c', 0)], pairing=TRAIN_ITSELF)
  data, unlabelled = tmp_path / 'data', tmp_path / 'unlabelled'
  dataset.write_labelled(config, str(data), seed=1)
  assert dataset.write_unlabelled(config, str(data), str(unlabelled), seed=1).count == 2
  assert (rows_of(unlabelled), labels(unlabelled)) == ([('a', 'b'), ('a', 'c')], [1.0, 0.0])
  assert not (unlabelled / 'items').exists()


def test_pairs_are_made_of_unlabelled_texts_too(tmp_path, monkeypatch):
  monkeypatch.setattr(embedders, '_MAX_LENGTH', 16)  # few to convert for
  paths = [tmp_path / name for name in ('products.tsv', 'more.csv')]
  paths[0].write_text('price\tright\n1\tc\n2\td\n3\tb\n', encoding='utf-8')
  paths[1].write_text('right\ne\nd\n', encoding='utf-8')
  made = PairingConfig(
    8,
    10,
    pairing_pretrained='random-tiny',
    unlabelled_texts=tuple(f'right:{p}' for p in paths),
  )
  config = tables(tmp_path, [('x', 'a', 1), ('y', 'b', 0)], pairing=made)
  data, unlabelled = tmp_path / 'data', tmp_path / 'unlabelled'
  dataset.write_labelled(config, str(data), seed=1)
  assert dataset.write_unlabelled(config, str(data), str(unlabelled), seed=1).count == 10
  assert set(rows_of(unlabelled)) == {(left, right) for left in 'xy' for right in 'abcde'}
  items = RecordSet(str(unlabelled)).items
  assert [list(items(slot).texts()) for slot in (0, 1)] == [['x', 'y', 'judge'], list('abcde')]
  assert f'sha256 of {paths[1]}' in config.unlabelled_inputs()


@pytest.mark.parametrize(
  ('flag', 'columns', 'files', 'message'),
  [
    ('c:t.tsv', 'ab', TablesConfig('t.tsv', 'v.tsv', 't.tsv'), 'not one of --text_columns=a,b'),
    (
      'b:t.tsv',
      'abc',
      TablesConfig('t.tsv', 'v.tsv', 't.tsv'),
      "pairs are made of 'a' and the other 2 texts together",
    ),
    (
      'a:t.tsv',
      'ab',
      TablesConfig('t.tsv', 'v.tsv', 't.tsv', 'd.tsv'),
      'a --distillation_file is taken as',
    ),
    (
      'a:t.tsv',
      'ab',
      TablesConfig(),
      'pairs of a --train_file are made with them, and of no other',
    ),
  ],
)
def test_unlabelled_texts_that_no_pairs_are_made_of_are_refused(flag, columns, files, message):
  table, made = TableConfig(text_columns=tuple(columns)), PairingConfig(unlabelled_texts=(flag,))
  with pytest.raises(InputError, match=f'--unlabelled_texts={flag}: .*{message}'):
    DataConfig(files=files, table=table, pairing=made)


def test_a_glue_task_as_record_sets_its_training_tuples_to_be_scored(tmp_path):
  (tmp_path / 'RTE').mkdir()
  rows = ''.join(f'{i}\tPremise {i}.\tSo.\tnot_entailment\n' for i in range(30))
  (tmp_path / 'RTE' / 'train.tsv').write_text(HEADER + rows, encoding='utf-8')
  (tmp_path / 'RTE' / 'dev.tsv').write_text(HEADER + '0\tA.\tB.\tentailment\n', encoding='utf-8')
  config = DataConfig(glue=GlueConfig(str(tmp_path)), table=RTE, pairing=TRAIN_ITSELF)
  assert (config.table.task_of().kind, config.table.outputs) == ('multiclass', 2)
  data, unlabelled = tmp_path / 'data', tmp_path / 'unlabelled'
  counts = dataset.write_labelled(config, str(data), seed=1).counts
  assert counts['train'] + counts['valid'] == 30
  assert (rows_of(data / 'test'), labels(data / 'test')) == ([('A.', 'B.')], [0.0])
  assert [group.ids for group in RecordSet(str(data / 'test')).groups()] == [['RTE-dev-2']]
  made = dataset.write_unlabelled(config, str(data), str(unlabelled), 1)
  assert made.count == counts['train']
  assert set(labels(unlabelled)) == {1.0}
  assert f'sha256 of {tmp_path}/RTE/dev.tsv' in config.labelled_inputs()


def test_a_task_of_tensorflow_datasets(tmp_path, monkeypatch):
  rows = {name: [(f'{name}-0', (f'{name} a', 'b'), 1.0)] for name in ('train', 'valid', 'test')}
  monkeypatch.setattr(glue_tfds, 'builder', lambda task, name, data_dir: (task, name, data_dir))
  monkeypatch.setattr(glue_tfds, 'sets', lambda task, made: rows)
  monkeypatch.setattr(glue_tfds, 'read', lambda task, made, name: iter(rows[name]))
  config = DataConfig(glue=GlueConfig(tfds='glue/rte'), table=RTE)
  assert (config.source.on_hub, config.source.language) == (['nyu-mll/glue'], 'en')
  made = dataset.write_labelled(config, str(tmp_path), 1)
  assert made.counts == {'train': 1, 'valid': 1, 'test': 1}
  assert rows_of(tmp_path / 'valid') == [('valid a', 'b')]


def test_the_catalogues_blocks_are_groups(tmp_path):
  config = DataConfig(catalogue=CatalogueConfig((30, 6, 6, 600)))
  dataset.write_labelled(config, str(tmp_path / 'data'), seed=3)
  rated = catalog.splits(3, 30, 6, 6, 600)
  for name in ('train', 'valid', 'test'):
    found = rows_of(tmp_path / 'data' / name)
    assert found == [(pair.term, pair.product) for pair in rated[name]]
  unlabelled = tmp_path / 'unlabelled'
  dataset.write_unlabelled(config, str(tmp_path / 'data'), str(unlabelled), seed=3)
  assert rows_of(unlabelled) == [(pair.term, pair.product) for pair in rated['distillation']]
  tuples = RecordSet(str(unlabelled)).tuples()
  assert np.diff(tuples.groups).tolist() == [512, 512]
  for start, end in ((0, 512), (512, 1024)):
    items = tuples.items[start:end]
    assert [len(set(items[:, slot].tolist())) for slot in (0, 1)] == list(catalog.BLOCK)


@pytest.mark.parametrize(
  ('fields', 'message'),
  [
    ({'table': RTE}, '--task=rte: --data_dir, the folder of its data, is needed'),
    (
      {'glue': GlueConfig('glue')},
      '--data_dir and --tfds hold GLUE tasks; --task is one of mrpc, mnli',
    ),
    (
      {'glue': GlueConfig('glue'), 'table': RTE, 'files': TablesConfig('x')},
      '--data_dir, --tfds or files of your own, not both',
    ),
    (
      {'table': TableConfig(teacher_logits_column='z')},
      '--teacher_logits_column is a column of --distillation_file, which is missing',
    ),
    ({'files': TablesConfig('x', 'y')}, '--test_file is needed where any file is given'),
    (
      {'table': TableConfig(text_columns=('a', 'b', 'c'))},
      '^--catalog_sizes: holds pairs of texts, and --text_columns names 3; name two, or ',
    ),
    (
      {'glue': GlueConfig('glue'), 'table': dataclasses.replace(RTE, text_columns=('a', 'b', 'c'))},
      '^--data_dir, --tfds: holds pairs of texts, and --text_columns names 3',
    ),
  ],
)
def test_flags_that_do_not_fit_are_refused(fields, message):
  with pytest.raises(InputError, match=message):
    DataConfig(**fields)


@pytest.mark.parametrize(
  ('fields', 'labelled', 'made'),
  [
    ({}, False, False),  # the catalogue's own pairs are not rated
    ({'pairing': TRAIN_ITSELF}, True, False),
    ({'pairing': PairingConfig(distillation_pairs=0, augmentations=2)}, True, True),
    ({'files': TablesConfig('a', 'a', 'a')}, True, True),
    ({'files': TablesConfig('a', 'a', 'a'), 'pairing': TRAIN_ITSELF}, True, False),
    ({'files': TablesConfig('a', 'a', 'a', 'b')}, True, False),
    ({**MINED, 'pairing': TRAIN_ITSELF}, False, False),
  ],
)
def test_the_source_says_whether_there_are_labels_to_learn_from(fields, labelled, made):
  config = DataConfig(**fields)
  assert (config.brings_labels, config.makes) == (labelled, made)


@pytest.mark.parametrize(
  ('fields', 'alpha', 'message'),
  [
    (
      MINED,
      0.5,
      '--mine_from: this loss needs labels, and the distillation set has none; use --alpha=1',
    ),
    ({'glue': GlueConfig('a'), 'table': RTE}, 0.0, f'{ALONE}, or remove it'),
    ({'files': TablesConfig('a')}, 0.0, f'{ALONE} or a --distillation_file with labels, or'),
  ],
)
def test_a_loss_that_takes_labels_is_refused_with_what_the_source_leaves_open(
  fields, alpha, message
):
  teacher = TeacherConfig(pretrained='random-tiny', similarity='')
  config = ExperimentConfig(data=DataConfig(**fields), teacher=teacher)
  student = types.SimpleNamespace(losses=[LossConfig(alpha=alpha).build()])
  with pytest.raises(InputError, match=f'^{re.escape(message)}'):
    checks.check(config, student, None)


def test_a_folder_of_tables_is_known_by_its_tables(tmp_path):
  (tmp_path / 'qrels').mkdir()
  paths = [tmp_path / 'b.tsv', tmp_path / 'qrels' / 'a.tsv']
  for path, row in zip(paths, ('a\tb', 'c\td'), strict=True):
    path.write_text(f'query\tpassage\n{row}\n')
  mining = dataclasses.replace(MINED['mining'], mine_from=str(tmp_path))
  config = DataConfig(**{**MINED, 'mining': mining})
  before = config.labelled_inputs()
  assert {f'sha256 of {path}' for path in paths} <= set(before)
  (tmp_path / 'run.log').touch()
  assert config.labelled_inputs() == before


def test_a_table_is_the_same_by_any_path(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  os.makedirs('data')
  paths = ['t.tsv', str(tmp_path / 't.tsv'), 'data/other.tsv', 'data/t.txt']
  for path in (*paths, 'v.tsv'):
    with open(path, 'w', encoding='utf-8') as file:
      file.write('left\tright\tlabel\na\tb\t1\n')
  configs = [DataConfig(TablesConfig(path, 'v.tsv', 'v.tsv')) for path in paths]
  marks = [declared('run', config).stages[0].fingerprint for config in configs]
  assert marks[0] == marks[1] == marks[2] != marks[3]


def test_an_empty_set_is_refused(tmp_path):
  (tmp_path / 'RTE').mkdir()
  (tmp_path / 'RTE' / 'train.tsv').write_text(HEADER + '0\tA.\tB.\tentailment\n')
  (tmp_path / 'RTE' / 'dev.tsv').write_text(HEADER + '0\tA.\tB.\tentailment\n')
  config = DataConfig(glue=GlueConfig(str(tmp_path)), table=RTE)
  with pytest.raises(InputError, match='(train|valid): no tuples; train needs more of them'):
    dataset.write_labelled(config, str(tmp_path / 'data'), seed=1)


def test_a_set_of_no_use_to_the_student_is_refused_as_soon_as_it_is_there(tmp_path):
  config = tables(tmp_path, [('a', 'b', 0.5), ('c', 'd', 1)], pairing=TRAIN_ITSELF)
  cases = [
    (3, [], '^--batch_size=3: there are 2 tuples to learn from$'),
    (2, [MarginMSE()], '^the distillation set: each left text stands in one tuple alone'),
  ]
  for size, losses, message in cases:
    with pytest.raises(InputError, match=message):
      declared(tmp_path / 'run', config, losses, stage1_batch_size=2, batch_size=size).make()
  declared(tmp_path / 'run', config, batch_size=2).make()
  for size, losses, message in cases:  # at a later start, with these flags
    of = declared(tmp_path / 'run', config, losses, batch_size=size)
    of.stage('distill', LabelledSets, pytest.fail, {}, after=of.stages)
    with pytest.raises(InputError, match=message):
      of.make()


@pytest.mark.parametrize(
  ('files', 'message'),
  [
    (
      'alike mixed mixed',
      r'data.part/train \(of .*/alike.tsv\): all 2 labels are alike; nothing can',
    ),
    ('other mixed alike', r'data.part/test \(of .*/alike.tsv\): AUC-ROC needs both classes; all 2'),
  ],
)
def test_labels_that_are_alike_are_refused_before_data_are_done(tmp_path, files, message):
  (tmp_path / 'alike.tsv').write_text('left\tright\tlabel\na\tb\t1\nc\td\t1\n')
  (tmp_path / 'mixed.tsv').write_text('left\tright\tlabel\ne\tf\t1\ng\th\t0\n')
  (tmp_path / 'other.tsv').write_text('left\tright\tlabel\ni\tj\t1\nk\tl\t0\n')
  paths = [str(tmp_path / f'{name}.tsv') for name in files.split()]
  config = DataConfig(files=TablesConfig(*paths), table=TableConfig(task='binary'))
  with pytest.raises(InputError, match=message):
    declared(tmp_path / 'run', config).make()
  assert not (tmp_path / 'run' / 'data').exists()


def test_a_table_with_a_typo_is_mended_and_the_same_command_goes_on(tmp_path):
  config = tables(tmp_path, [('a', 'b', 0.5), ('c', 'd', 1)], pairing=TRAIN_ITSELF)
  valid = tmp_path / 'valid.tsv'
  config = dataclasses.replace(
    config, files=dataclasses.replace(config.files, valid_file=str(valid))
  )
  for label, message in (('O', "valid.tsv:3: label 'O' is not"), ('1', 'labels that differ')):
    valid.write_text(f'left\tright\tlabel\ne\tf\t1\ng\th\t{label}\n')
    with pytest.raises(InputError, match=message):
      declared(tmp_path / 'run', config).make()
  valid.write_text('left\tright\tlabel\ne\tf\t1\ng\th\t0\n')
  of = declared(tmp_path / 'run', config)
  of.make()
  assert of.stages[0].result.counts['valid'] == 2


def test_an_annotated_record_set_is_taken_as_it_is(tmp_path):
  """Two tables of a slot, as two machines write them: an item in both is one."""
  source = tmp_path / 'annotated'
  halves = [[('a', 'b 0', 0.5), ('a', 'b 1', 1.5)], [('c', 'b 1', 2.5), ('a', 'b 2', 3.5)]]
  shards, by_slot = [], [[], []]
  for number, rows in enumerate(halves):
    unit = tmp_path / f'unit{number}'
    examples = [Example('', row[:2], teacher_logits=row[2:]) for row in rows]
    record_writer.write_sets(str(unit), {'': record_writer.of_examples(examples)}, 2)
    written = RecordSet(str(unit))
    tables_of_unit = record_writer.tables_from(written, str(source))
    groups = list(written.groups())
    source.mkdir(exist_ok=True)
    shards.append(record_writer.write_shard(str(source), number, groups, (number, number)))
    for slot, table in zip(by_slot, tables_of_unit, strict=True):
      slot.extend(table)
  record_writer.finish(str(source), shards, by_slot, {})
  files = TablesConfig('', 'v.tsv', 't.tsv', str(source))
  config = DataConfig(files=files)
  assert config.source.brings_logits
  copy = tmp_path / 'copy'
  dataset.write_unlabelled(config, '', str(copy), seed=1)
  expected = [row for rows in halves for row in rows]
  assert rows_of(copy) == [row[:2] for row in expected]
  tuples = RecordSet(str(copy)).tuples()
  assert tuples.teacher_logits[:, 0].tolist() == [row[2] for row in expected]
  assert tuples.groups.tolist() == [0, 2, 4]
  assert list(RecordSet(str(copy)).items(1).texts()) == ['b 0', 'b 1', 'b 2']
  three = DataConfig(files=files, table=TableConfig(text_columns=('a', 'b', 'c')))
  with pytest.raises(InputError, match='2 texts and 1 teacher logits; .* need 3 and 1'):
    dataset.write_unlabelled(three, '', str(tmp_path / 'other'), seed=1)


def test_labels_of_a_distillation_file_are_kept_and_asked_for_only_where_all_are_needed(tmp_path):
  path = tmp_path / 'd.tsv'
  path.write_text('left\tright\tlabel\na\tb\t0.5\nc\td\t\n', encoding='utf-8')
  files = TablesConfig(distillation_file=str(path), valid_file='v.tsv', test_file='t.tsv')
  config = DataConfig(files=files)
  dataset.write_unlabelled(config, '', str(tmp_path / 'some'), seed=1)
  tuples = RecordSet(str(tmp_path / 'some')).tuples()
  assert tuples.labelled.tolist() == [True, False] and tuples.label[0, 0] == 0.5
  with pytest.raises(InputError, match=f"^{path}:3: label '' is not a finite number"):
    dataset.write_unlabelled(config, '', str(tmp_path / 'all'), seed=1, labels='all')
  dataset.write_unlabelled(config, '', str(tmp_path / 'taken'), seed=1, labels='some')
  assert labels(tmp_path / 'taken')[0] == 0.5
  path.write_text('left\tright\tlabel\na\tb\t0.5\nc\td\t4\n', encoding='utf-8')
  with pytest.raises(InputError, match=f'^{path}:3: label 4 is outside --label_range=0,1'):
    dataset.write_unlabelled(config, '', str(tmp_path / 'taken'), seed=1, labels='some')


def test_tuples_of_which_none_has_a_label_are_refused(tmp_path):
  source = tmp_path / 'annotated'
  rows = [Example('', ('a', 'b'), teacher_logits=(0.5,))]
  record_writer.write_sets(str(source), {'': record_writer.of_examples(rows)}, 2)
  config = DataConfig(files=TablesConfig('', 'v.tsv', 't.tsv', str(source)))
  with pytest.raises(InputError, match=f'^{source}: no tuple has a label, .* use --alpha=1$'):
    dataset.write_unlabelled(config, '', str(tmp_path / 'set'), seed=1, labels='some')
  assert not list((tmp_path / 'set').glob('*.tfrecord'))  # before they are copied
  with pytest.raises(InputError, match=f'^{source}: holds no tuple with a label, .*; add labels'):
    check_set(RecordSet(str(source)), [LossConfig(alpha=0.5).build()], {})
