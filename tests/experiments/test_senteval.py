"""SentEval's files as they are, and its protocols on vectors whose answer is known."""

import functools

import numpy as np
import pytest

from common import flags
from common.distillation.finished_run import FinishedRun
from common.errors import InputError
from common.files import read_json, write_json
from dse.run import RunConfig
from dse.student import DSE
from experiments import senteval, senteval_data
from experiments.senteval_data import Dataset, Split
from tests.conftest import TINY

RNG = np.random.default_rng(0)
FILES = {
  'MR/rt-polarity.pos': 'caf\xe9 \x85 good\n'.encode('latin-1'),
  'MR/rt-polarity.neg': b'bad\nworse\n',
  'SST/binary/sentiment-train': b'so good\t1\n',
  'SST/binary/sentiment-dev': b'so bad\t0\n',
  'SST/binary/sentiment-test': b'so so\t0\n',
  'TREC/train_5500.label': b'NUM:dist How far ?\n',
  'TREC/TREC_10.label': b'HUM:desc Who ?\n',
  'MRPC/msr_paraphrase_train.txt': b'Quality\t#1\t#2\t#1 String\t#2 String\n1\t2\t3\ta "b\tc\n',
  'MRPC/msr_paraphrase_test.txt': b'Quality\t#1\t#2\t#1 String\t#2 String\n0\t2\t3\td\te\n',
  'SICK/SICK_train.txt': b'pair_ID\ta\tb\ts\te\n1\tA kid\tA boy\t4.5\tNEUTRAL\n',
  'SICK/SICK_trial.txt': b'pair_ID\ta\tb\ts\te\n4\tA kid\tA man\t3.2\tNEUTRAL\n',
  'SICK/SICK_test_annotated.txt': b'pair_ID\ta\tb\ts\te\n6\tA\tB\t1\tCONTRADICTION\n',
  **{
    f'STS/STSBenchmark/sts-{split}.csv': b'g\tf\t2012\t1\t5.000\ta plane\tan air plane\n'
    for split in ('train', 'dev', 'test')
  },
}


@pytest.fixture(name='tiny')
def _tiny(build):
  return functools.partial(build, 'dse')


@pytest.fixture(autouse=True)
def _few_folds(monkeypatch):
  monkeypatch.setattr(senteval, '_FOLDS', 3)


@pytest.fixture(name='folder')
def _folder(tmp_path):
  for name, content in FILES.items():
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_bytes(content)
  return tmp_path


def test_every_form_is_read_as_it_was_published(folder):
  found = {dataset.name: dataset for dataset in senteval_data.read(str(folder))}
  assert list(found) == ['MR', 'SST', 'TREC', 'MRPC', 'SICK-R', 'SICK-E', 'STS-B']
  mr = found['MR'].splits['train']
  assert mr.texts == (['café \x85 good', 'bad', 'worse'],)
  assert mr.labels.tolist() == [1, 0, 0]
  assert found['SST'].splits['dev'].texts == (['so bad'],)
  assert found['TREC'].splits['train'].texts == (['How far ?'],)
  assert found['TREC'].splits['test'].labels.tolist() == ['HUM']
  assert found['MRPC'].splits['train'].texts == (['a "b'], ['c'])
  assert found['SICK-R'].splits['dev'].labels.tolist() == [3.2]
  assert found['SICK-E'].splits['test'].labels.tolist() == ['CONTRADICTION']
  assert found['STS-B'].splits['test'].texts == (['a plane'], ['an air plane'])


def test_what_is_missing_or_broken_is_named(folder, tmp_path):
  (folder / 'MR' / 'rt-polarity.neg').unlink()
  with pytest.raises(InputError, match='rt-polarity.neg'):
    senteval_data.read(str(folder))
  (folder / 'MR' / 'rt-polarity.neg').write_bytes(b'bad\n')
  (folder / 'SICK' / 'SICK_train.txt').write_bytes(b'header\n1\tonly\n')
  with pytest.raises(InputError, match='SICK_train.txt: a line of 2 columns, of 5'):
    senteval_data.read(str(folder))
  (folder / 'SICK' / 'SICK_train.txt').write_bytes(b'header\n1\ta\tb\tso so\tNEUTRAL\n')
  with pytest.raises(InputError, match="SICK_train.txt: a score that is no number: .*'so so'"):
    senteval_data.read(str(folder))
  (folder / 'TREC' / 'TREC_10.label').write_bytes(b'HUM:desc\n')
  with pytest.raises(InputError, match="TREC_10.label: a line without a question: 'HUM:desc'"):
    senteval_data.read(str(folder))
  (folder / 'MRPC' / 'msr_paraphrase_train.txt').write_bytes(b'header\n')
  with pytest.raises(InputError, match='msr_paraphrase_train.txt: no sentence in it'):
    senteval_data.read(str(folder), ['MRPC'])
  assert [task.name for task in senteval_data.read(str(folder), ['SST', 'MR'])] == ['MR', 'SST']
  with pytest.raises(InputError, match='--tasks=CR: in .* are MR, SST, TREC'):
    senteval_data.read(str(folder), ['MR', 'CR'])
  with pytest.raises(InputError, match="none of SentEval's folders"):
    senteval_data.read(str(tmp_path / 'MR'))


def dataset(name, labels, scored=False):
  splits = {split: Split(([''],), np.array(values)) for split, values in labels.items()}
  return Dataset(name, splits, scored)


def test_separable_sentences_are_told_apart_and_random_ones_are_not():
  labels = np.arange(120) % 2
  one = dataset('MR', {'train': labels})
  vectors = np.stack([4.0 * labels - 2, RNG.normal(size=120)], 1)
  assert senteval.evaluate(one, {'train': [vectors]}) == [100.0]
  assert senteval.evaluate(one, {'train': [RNG.normal(size=(120, 2))]})[0] < 70


def test_pairs_are_told_by_their_difference_and_product():
  labels = {'train': np.array(['0', '1'] * 40), 'test': np.array(['0', '1'] * 10)}
  vectors = {}
  for split, values in labels.items():
    u = RNG.normal(size=(len(values), 6))
    other = RNG.normal(size=u.shape)
    vectors[split] = [u, np.where(values[:, None] == '1', u, other)]
  f1, accuracy = senteval.evaluate(dataset('MRPC', labels), vectors)
  assert f1 > 85
  assert accuracy > 85


def test_relatedness_is_the_expectation_of_a_distribution():
  labels = {split: RNG.uniform(1, 5, size=200) for split in ('train', 'dev', 'test')}
  vectors = {s: [np.zeros([200, 1]), y[:, None] - 3] for s, y in labels.items()}
  for name, count in (('SICK-R', 1), ('STS-B', 2)):
    scores = senteval.evaluate(dataset(name, labels, scored=True), vectors)
    assert len(scores) == count
  vectors = {s: [np.ones([200, 4]), np.eye(4)[(y - 1).astype(int)]] for s, y in labels.items()}
  assert senteval.evaluate(dataset('SICK-R', labels, scored=True), vectors)[0] > 95


@pytest.mark.parametrize('shared', [True, False])
def test_sentences_are_as_long_as_the_one_encoder_takes(tiny, shared):
  encode = senteval._encoder(*tiny(max_lengths=(4, 16), shared_encoder=shared))
  long, cut = encode(['red wide nike shoes', 'red wide'])
  assert np.allclose(long, cut, atol=1e-5) != shared


def test_a_run_is_judged_beside_its_checkpoint_and_nothing_twice(tiny, tmp_path, monkeypatch):
  run, data = tmp_path / 'run', tmp_path / 'MR'
  of_run = {**TINY['dse'], 'seed': 3, 'variants': ('distilled', 'labels', 'frozen'), 'alpha': 0.5}
  made = {'student': 'dse', 'flags': {**flags.flat(RunConfig()), **of_run}}
  model, tokenizer = tiny()
  for folder in ('student', 'student/labels', 'student/frozen'):
    model.save(str(run / folder), tokenizer)
  write_json(f'{run}/results.json', made)
  write_json(f'{run}/student/stage.json', {'fingerprint': '1'})
  data.mkdir()
  for name in ('pos', 'neg'):
    (data / f'rt-polarity.{name}').write_text(f'{name} a\n{name} b\n{name} c\n{name} d\n')
  config = functools.partial(
    senteval.SentEvalConfig, str(run), str(tmp_path), output=f'{tmp_path}/table.json'
  )
  monkeypatch.setattr(senteval, '_FOLDS', 2)
  senteval.main(config())
  found = read_json(f'{tmp_path}/table.json')['scores']
  # A frozen encoder is the first one.
  assert list(found) == ['random-tiny', 'DSE (alpha = 0.5)', 'DSE (alpha = 0)']
  _, start = next(senteval._encoders(FinishedRun(str(run), 'dse')))
  frozen = senteval._encoder(*DSE.load(f'{run}/student/frozen'))
  np.testing.assert_allclose(start(['pos a']), frozen(['pos a']), atol=1e-6)
  monkeypatch.setattr(senteval, 'evaluate', None)
  senteval.main(config())
  assert read_json(f'{tmp_path}/table.json')['scores'] == found
  (data / 'rt-polarity.pos').write_text('pos a\npos b\npos c\npos e\n')
  with pytest.raises(InputError, match=r'--redo makes random-tiny-MR, DSE \(alpha = 0.5\)-MR, '):
    senteval.main(config())
  with pytest.raises(InputError, match=f'--tasks=CR: in {tmp_path} are MR'):
    senteval.main(config(tasks=('MR', 'CR')))
  with pytest.raises(InputError, match='/none: no results.json; name the folder of a finished run'):
    senteval.main(senteval.SentEvalConfig('/none', str(tmp_path)))


def test_table_2_has_the_papers_rows_for_the_tasks_that_ran():
  table = senteval.table2({'DSE': {'MR': [80.0], 'MRPC': [84.0, 78.0]}})
  assert table.headers == ['Model', 'MR', 'MRPC', 'AVG']
  assert table.rows[0] == ['DSE', '80.0', '84.0/78.0', '80.5']
  assert table.rows[2] == ['DSE (alpha = 0.5), the paper', '83.6', '83.8/77.9', '82.2']
