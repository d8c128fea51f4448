"""GLUE's folders in their published forms: columns, quirks, held-out rows, what is refused."""

import os
import types

import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from common.data import glue, glue_tfds
from common.errors import InputError

FORMS = {  # task: ((folder, header), a row, what is read of it)
  'mrpc': (
    ('MRPC', 'Quality\t#1 ID\t#2 ID\t#1 String\t#2 String'),
    '1\t7\t8\tHe said " no .\tHe said no .',
    (('He said " no .', 'He said no .'), 1.0),
  ),
  'qqp': (
    ('QQP', 'id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate'),
    '4\t8\t9\t"Why ""so""?"\tHow ?\t0',
    (('"Why ""so""?"', 'How ?'), 0.0),
  ),
  'qnli': (
    ('QNLI', 'index\tquestion\tsentence\tlabel'),
    '0\tWho?\tHe.\tnot_entailment',
    (('Who?', 'He.'), 1.0),
  ),
  'rte': (
    ('RTE', 'index\tsentence1\tsentence2\tlabel'),
    '0\tA.\tB.\tentailment',
    (('A.', 'B.'), 0.0),
  ),
  'stsb': (
    (
      'STS-B',
      'index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore',
    ),
    '1\tnews\tMSR\t2012\t4\tnone\tnone\tA plane.\tAn air plane.\t3.800',
    (('A plane.', 'An air plane.'), 0.76),
  ),
  'snli': (
    (
      'SNLI',
      'index\tcaptionID\tpairID\tsentence1_binary_parse\tsentence2_binary_parse\t'
      'sentence1_parse\tsentence2_parse\tsentence1\tsentence2\tlabel1\tgold_label',
    ),
    '0\t34#4\t34#4r1n\t( A )\t( B )\t(ROOT)\t(ROOT)\tA man.\tNo man.\tneutral\tcontradiction',
    (('A man.', 'No man.'), 2.0),
  ),
  'mnli': (
    (
      'MNLI',
      'index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\t'
      'sentence1_parse\tsentence2_parse\tsentence1\tsentence2\tlabel1\tgold_label',
    ),
    '0\t31193\t31193n\tfiction\t( A )\t( B )\t(ROOT)\t(ROOT)\tA man.\tA boy.\tneutral\tneutral',
    (('A man.', 'A boy.'), 1.0),
  ),
}


def write(data_dir, task, rows=40, **files):
  """A task's folder: `rows` training rows whose first sentence is numbered, dev sets of one row."""
  (folder, header), row, ((left, _), _) = FORMS[task]
  os.makedirs(data_dir / folder)
  numbered = [row.replace(left, f'{left} {number}') for number in range(rows)]
  dev = '\ufeff' + '\n'.join([header, row]) + '\n'
  contents = {'train.tsv': '\n'.join([header, *numbered]) + '\n'}
  contents |= dict.fromkeys(glue.TASKS[task].dev, dev)
  for name, text in {**contents, **files}.items():
    (data_dir / folder / name).write_text(text, encoding='utf-8')


def read(task, data_dir, name):
  return [(texts, label) for _, texts, label in glue.read(task, str(data_dir), name)]


@pytest.mark.parametrize('task', glue.TASKS)
def test_each_tasks_own_form(task, tmp_path):
  write(tmp_path, task)
  assert read(task, tmp_path, 'test') == [FORMS[task][2]]
  valid, train = (read(task, tmp_path, name) for name in ('valid', 'train'))
  assert 0 < len(valid) < len(train)
  assert len({texts for texts, _ in valid + train}) == 40
  assert [row for _, row, _ in glue.read(task, str(tmp_path), 'valid')] == [t for t, _ in valid]


def test_a_labelled_test_set_frees_dev_for_validation(tmp_path):
  write(tmp_path, 'mrpc', **{'msr_paraphrase_test.txt': FORMS['mrpc'][0][1] + '\n0\t1\t2\tx\ty\n'})
  assert read('mrpc', tmp_path, 'test') == [(('x', 'y'), 0.0)]
  assert read('mrpc', tmp_path, 'valid') == [FORMS['mrpc'][2]]
  assert len(read('mrpc', tmp_path, 'train')) == 40


def test_broken_and_undecided_rows_are_skipped_and_counted(tmp_path, capsys):
  header, row = FORMS['snli'][0][1], FORMS['snli'][1]
  undecided = row.replace('contradiction', '-')
  bad = [row.rsplit('\t', 2)[0], row.replace('No man.', ''), row + '\tmore', undecided]
  write(tmp_path, 'snli', **{'dev.tsv': '\n'.join([header, row, *bad])})
  assert len(read('snli', tmp_path, 'test')) == 1
  assert capsys.readouterr().out == (
    f'{tmp_path}/SNLI/dev.tsv: of 5 rows, 1 undecided and 3 broken ones are skipped\n'
  )


def test_allnli_joins_what_there_is(tmp_path):
  write(tmp_path, 'snli')
  assert len(read('allnli', tmp_path, 'test')) == 1
  assert set(glue.sets('allnli', str(tmp_path))) == {'train', 'valid', 'test'}
  assert glue.on_hub('allnli', str(tmp_path)) == ['stanfordnlp/snli']
  write(tmp_path, 'mnli', rows=7)
  rows = sum(len(read('allnli', tmp_path, name)) for name in ('train', 'valid'))
  assert rows == 47
  assert glue.on_hub('allnli', str(tmp_path)) == ['stanfordnlp/snli', 'nyu-mll/glue']
  assert len(read('allnli', tmp_path, 'test')) == 2
  assert len(read('allnli', tmp_path, 'test_mismatched')) == 1


@pytest.mark.parametrize(
  ('files', 'message'),
  [
    (
      {'dev.tsv': 'index\tsentence1\tsentence2\tlabel\n1\ta\tb\tyes\n'},
      "dev.tsv:2: label 'yes' is",
    ),
    ({'dev.tsv': 'index\tsentence1\tlabel\n1\ta\tyes\n'}, "dev.tsv:1: no column 'sentence2'"),
  ],
)
def test_other_files_are_refused(files, message, tmp_path):
  write(tmp_path, 'rte', **files)
  with pytest.raises(InputError, match=message):
    read('rte', tmp_path, 'test')


def test_missing_folders_and_files_are_named(tmp_path):
  with pytest.raises(InputError, match='no folder MNLI there; --task=mnli needs it'):
    glue.sets('mnli', str(tmp_path))
  write(tmp_path, 'mnli')
  os.remove(tmp_path / 'MNLI' / 'dev_mismatched.tsv')
  with pytest.raises(InputError, match='dev_mismatched.tsv: no such file; --task=mnli needs it'):
    glue.sets('mnli', str(tmp_path))


@pytest.mark.parametrize(
  ('task', 'name', 'names'),
  [
    ('mrpc', 'glue/mrpc', ['train', 'valid', 'test']),
    ('mnli', 'glue/mnli', ['train', 'valid', 'test', 'test_mismatched']),
    ('stsb', 'glue/stsb', ['train', 'valid', 'test']),
  ],
)
def test_tensorflow_datasets_give_the_same_sets(task, name, names, tmp_path):
  with tfds.testing.mock_data(num_examples=30):
    made = glue_tfds.builder(task, name, str(tmp_path))
    assert list(glue_tfds.sets(task, made)) == names
    rows = {part: list(glue_tfds.read(task, made, part)) for part in names}
  assert len({row[0] for part in rows.values() for row in part}) == sum(map(len, rows.values()))
  most = 1.0 if task == 'stsb' else len(glue.classes(task)) - 1
  for row_id, texts, label in rows['train']:
    assert row_id.startswith(f'{task}-train-')
    assert len(texts) == 2
    assert 0 <= label <= most
  assert len(rows['test']) == 30


def test_a_data_set_that_is_not_there_is_refused(tmp_path):
  with pytest.raises(InputError, match='--tfds=glue/nothing: '):
    glue_tfds.builder('mrpc', 'glue/nothing', str(tmp_path))
  with pytest.raises(InputError, match='--task is one of mrpc'):
    glue_tfds.builder('allnli', 'glue/mrpc', str(tmp_path))


def test_rows_of_tfds_that_say_nothing_are_skipped_and_counted(capsys):
  rows = {'sentence1': ['a', 'b', ' ', 'd'], 'sentence2': ['e'] * 4, 'label': [1, -1, 0, 0]}
  made = types.SimpleNamespace(
    info=types.SimpleNamespace(full_name='glue/mrpc/2.0.0'),
    as_dataset=lambda **_: tf.data.Dataset.from_tensor_slices(rows),
  )
  found = list(glue_tfds.read('mrpc', made, 'test'))
  assert found == [('mrpc-test-0', ('a', 'e'), 1.0), ('mrpc-test-3', ('d', 'e'), 0.0)]
  said = 'glue/mrpc/2.0.0, test: of 4 rows, 1 undecided and 1 broken ones are skipped\n'
  assert capsys.readouterr().out == said
