"""A run's record sets from GLUE's folders, and what of their flags is refused."""

import dataclasses

import pytest

from common.data import records
from common.data.examples import Example, TableConfig
from common.distillation import dataset
from common.distillation.dataset import DataConfig
from common.distillation.pairing import PairingConfig
from common.errors import InputError

RTE = TableConfig(task='rte')
HEADER = 'index\tsentence1\tsentence2\tlabel\n'


def test_a_glue_task_as_record_sets_its_training_tuples_to_be_scored(tmp_path):
  (tmp_path / 'RTE').mkdir()
  rows = ''.join(f'{i}\tPremise {i}.\tSo.\tnot_entailment\n' for i in range(30))
  (tmp_path / 'RTE' / 'train.tsv').write_text(HEADER + rows, encoding='utf-8')
  (tmp_path / 'RTE' / 'dev.tsv').write_text(HEADER + '0\tA.\tB.\tentailment\n', encoding='utf-8')
  config = DataConfig(
    data_dir=str(tmp_path), table=RTE, pairing=PairingConfig(distillation_pairs=0)
  )
  assert (config.table.kind, config.table.outputs) == ('multiclass', 2)
  counts = dataset.write_labelled(config, str(tmp_path / 'data'), seed=1)
  assert counts['train'] + counts['valid'] == 30
  assert list(records.read(str(tmp_path / 'data' / 'test'))) == [
    Example('RTE-dev-2', ('A.', 'B.'), 0.0)
  ]
  unlabelled = str(tmp_path / 'unlabelled')
  assert dataset.write_unlabelled(config, str(tmp_path / 'data'), unlabelled, 1) == counts['train']
  assert {example.label for example in records.read(unlabelled)} == {1.0}
  assert f'sha256 of {tmp_path}/RTE/dev.tsv' in config.labelled_sources()


@pytest.mark.parametrize(
  ('fields', 'message'),
  [
    ({'table': RTE}, '--task=rte: --data_dir, the folder of its data, is needed'),
    ({'data_dir': 'glue'}, '--data_dir and --tfds hold GLUE tasks; --task is one of mrpc, mnli'),
    (
      {'data_dir': 'glue', 'table': RTE, 'train_file': 'x'},
      '--data_dir, --tfds or files of your own, not both',
    ),
  ],
)
def test_glue_flags_that_do_not_fit_are_refused(fields, message):
  with pytest.raises(InputError, match=message):
    DataConfig(**fields)


def test_an_annotated_record_set_is_taken_as_it_is(tmp_path):
  rows = [Example(f'{i}', ('a', f'b {i}'), teacher_logits=(float(i),)) for i in range(5)]
  folder = str(tmp_path / 'annotated')
  records.write(folder, rows, shard_size=2)
  config = DataConfig(distillation_file=folder, valid_file='v.tsv', test_file='t.tsv')
  assert config.annotated
  dataset.write_unlabelled(config, '', str(tmp_path / 'copy'), seed=1)
  assert list(records.read(str(tmp_path / 'copy'))) == rows
  with pytest.raises(InputError, match="annotated: tuple '0' has no label"):
    dataset.write_unlabelled(config, '', str(tmp_path / 'all'), seed=1, labelled=True)
  three = dataclasses.replace(config, table=TableConfig(text_columns=('a', 'b', 'c')))
  with pytest.raises(InputError, match='2 texts and 1 teacher logits; .* need 3 and 1'):
    dataset.write_unlabelled(three, '', str(tmp_path / 'other'), seed=1)


def test_labels_of_a_distillation_file_are_kept_and_asked_for_only_where_all_are_needed(tmp_path):
  path = tmp_path / 'd.tsv'
  path.write_text('left\tright\tlabel\na\tb\t0.5\nc\td\t\n', encoding='utf-8')
  config = DataConfig(distillation_file=str(path), valid_file='v.tsv', test_file='t.tsv')
  dataset.write_unlabelled(config, '', str(tmp_path / 'some'), seed=1)
  assert [e.label for e in records.read(str(tmp_path / 'some'))] == [0.5, None]
  with pytest.raises(InputError, match=f"^{path}:3: label '' is not a finite number"):
    dataset.write_unlabelled(config, '', str(tmp_path / 'all'), seed=1, labelled=True)


def test_the_kind_of_scores_is_part_of_a_run_only_where_they_are_probabilities():
  config = DataConfig()
  assert 'teacher_scores' not in config.labelled_sources()
  table = TableConfig(teacher_logits_column='p', teacher_scores='probability')
  assert DataConfig(table=table).labelled_sources()['teacher_scores'] == 'probability'
