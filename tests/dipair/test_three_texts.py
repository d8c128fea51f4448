"""Three texts a tuple, from the command to jobs on Beam."""

import random

import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from common.data.records import RecordSet
from common.data.tokens import TokenizedTuples
from common.distillation.inference import TupleScorer
from common.distillation.teacher import Teacher
from common.errors import InputError
from common.export import student_export
from common.local_server.__main__ import ServerConfig, serving
from common.pipelines import annotate, encode, score
from common.pipelines.jobs import FilesConfig, OutputConfig
from common.scoring import exported
from common.serving.client import Client
from dipair.scorer import Scorer
from dipair.student import DiPair
from tests import limits

SLOTS = ('a', 'b', 'c')
TEXTS = (
  ['red', 'shoes', 'wide boots'],
  ['red throw 1', 'red boots 2', 'nike shoes 3', 'wide red boots 4', 'blue throw 5'],
  ['red', 'x', 'queen'],
)
IDS = tuple(
  {f'{slot}{i}': t for i, t in enumerate(of)} for slot, of in zip(SLOTS, TEXTS, strict=True)
)
KEYS = [('a0', 'b3', 'c2'), ('a2', 'b0', 'c0'), ('a0', 'b1', 'c1'), ('a1', 'b4', 'c2')]
TRIPLES = [tuple(of[key] for of, key in zip(IDS, keys, strict=True)) for keys in KEYS]


def tsv(path, header, rows, unit_bytes=60):
  lines = ['\t'.join(map(str, row)) for row in [header, *rows]]
  path.write_text('\n'.join(lines) + '\n', encoding='utf-8')
  return FilesConfig(input=(str(path),), unit_bytes=unit_bytes)


@pytest.fixture(name='run', scope='module')
def _run(python, tmp_path_factory):
  """Folder of a finished run."""
  folder, rng = tmp_path_factory.mktemp('three'), random.Random(1)
  for name in ('train', 'valid', 'test'):
    rows = [tuple(map(rng.choice, TEXTS)) for _ in range(24)]
    rated = [(*row, (row[0] in row[1]) * 0.6 + (row[2] in row[1]) * 0.4) for row in rows]
    tsv(folder / f'{name}.tsv', (*SLOTS, 'label'), rated)
  command = ['-m', 'dipair.run', '--flagfile=configs/smoke.flags']
  command += [f'--{name}_file={folder}/{name}.tsv' for name in ('train', 'valid', 'test')]
  command += ['--text_columns=a,b,c', '--max_lengths=8,16,8', '--output_tokens=2,3,2']
  command += ['--head=ffnn']
  command += ['--distillation_pairs=64', '--block_pairs=16']
  command += ['--teacher_steps=2', '--teacher_eval_every=2', '--teacher_warmup_steps=1']
  command += ['--stage1_batch_size=16', '--stage1_steps=2', '--stage1_eval_every=2']
  command += ['--stage2_batch_size=16', '--stage2_steps=2']
  command += [f'--run_dir={folder}/run']
  done = python(*command)
  assert done.returncode == 0, done.stderr[-3000:]
  return folder / 'run'


def test_made_tuples_are_firsts_with_the_rests_of_training_tuples(run):
  train, made = (set(RecordSet(str(run / name)).texts()) for name in ('data/train', 'unlabelled'))
  assert {t[1:] for t in made} <= {t[1:] for t in train}
  assert made - train


def test_the_export_has_an_encoder_signature_a_slot_and_scores_as_the_live_student(run):
  export = str(run / 'export')
  found = exported.signature_definitions(f'{export}/encoder/1')
  assert set(found) == {f'{slot}{of}' for slot in SLOTS for of in ('', '_ids')}
  head = exported.signature_definitions(f'{export}/head/1')
  assert set(head['serving_default'].inputs) == set(SLOTS)
  assert set(head['one_to_many'].inputs) == {'a_part', 'b', 'c'}
  model, tokenizer = DiPair.load(str(run / 'student'))
  live = TupleScorer(model, tokenizer, tf.distribute.get_strategy())
  logits = live.logits(TokenizedTuples.of_texts(TRIPLES, tokenizer))[:, 0]
  texts = [list(column) for column in zip(*TRIPLES, strict=True)]
  for runtime in ('tensorflow', 'litert'):
    scores = Scorer.load(str(export), runtime).score(*texts)
    np.testing.assert_allclose(scores, 1 / (1 + np.exp(-logits)), atol=1e-5)
  assert np.ptp(scores) > 1e-4
  assert 'scorer.score(a, b, c)' in (run / 'README.md').read_text()


def test_triples_are_annotated_on_beam(run, tmp_path):
  files = tsv(tmp_path / 'triples.tsv', SLOTS, TRIPLES)
  out = OutputConfig(output=str(tmp_path / 'out'))
  teacher = str(run / 'teacher')
  annotate.main(annotate.AnnotateConfig((teacher,), files, text_columns=SLOTS, out=out), [])
  found, loaded = RecordSet(out.output), Teacher.load(teacher)
  assert found.texts() == TRIPLES
  tuples = TokenizedTuples.of_texts(TRIPLES, loaded.tokenizer)
  expected = loaded.logits(tuples, strategy=tf.distribute.get_strategy())
  np.testing.assert_allclose(found.tuples().teacher_logits, expected, atol=1e-5)


@pytest.fixture(name='stores', scope='module')
def _stores(run, tmp_path_factory):
  """Folder of each slot's store, made by the job."""
  folder, made = tmp_path_factory.mktemp('stores'), []
  for slot, of in zip(SLOTS, IDS, strict=True):
    files = tsv(folder / f'{slot}.tsv', ('id', 'text'), of.items())
    out = OutputConfig(output=str(folder / slot))
    config = encode.EncodeConfig(str(run / 'export'), slot, files, dtype='float32', out=out)
    encode.main(config, [])
    made.append(out.output)
  return tuple(made)


def scores(run, output, files, **changes):
  """Rows of a job's output."""
  out = OutputConfig(output=str(output), max_bad_rows=1)
  config = score.ScoreConfig(str(run / 'export'), 'tensorflow', files=files, out=out, **changes)
  score.main(config, [])
  tables = [pq.read_table(path) for path in sorted(output.glob('scores-*'))]
  return [row for table in tables for row in table.to_pylist()]


def test_triples_are_served(run):
  models = tuple(f'toy_{part}={run}/export/{part}' for part in ('encoder', 'head'))
  texts = dict(zip(SLOTS, zip(*TRIPLES, strict=True), strict=True))
  with serving(ServerConfig(models=models, port=0, rest_api_port=0)) as (grpc, _):
    client = Client(f'localhost:{grpc}', 'toy', deadline=limits.ANSWER)
    found = client.score(**{slot: client.encode(of, slot) for slot, of in texts.items()})
  expected = Scorer.load(str(run / 'export')).score(*map(list, texts.values()))
  np.testing.assert_allclose(found, expected, atol=1e-5)


def test_triples_are_scored_on_beam(run, stores, tmp_path):
  texts = [list(column) for column in zip(*TRIPLES, strict=True)]
  expected = Scorer.load(str(run / 'export'), encoder_runtime='litert-int8').score(*texts)
  of_texts = tsv(tmp_path / 'texts.tsv', SLOTS, TRIPLES)
  of_ids = tsv(tmp_path / 'ids.tsv', ('x', 'y', 'z'), [*KEYS, ('a0', 'b9', 'c1')])
  named = {'files': of_ids, 'columns': ('x', 'y', 'z')}
  for name, rows, changes in (
    ('texts', TRIPLES, {'files': of_texts}),
    ('ids', KEYS, {**named, 'stores': stores}),
    ('joined', KEYS, {**named, 'stores': stores, 'join': True}),
  ):
    found = {
      tuple(row[s] for s in SLOTS): row['score'] for row in scores(run, tmp_path / name, **changes)
    }
    assert set(found) == set(rows)
    np.testing.assert_allclose([found[row] for row in rows], expected, atol=1e-5)
    bad = [path.read_text() for path in (tmp_path / name).glob('bad/*')]
    assert [line for line in bad if "no b vectors of id 'b9'" not in line] == []
    assert len(bad) == (name != 'texts')


@pytest.mark.parametrize(
  ('changes', 'message'),
  [
    ({'columns': ('a', 'b')}, '--columns=a,b: 2, and .*export scores 3 texts .a, b, c.: one each'),
    ({'stores': ('x', 'y')}, '--stores=x,y: 2, and .* scores 3 texts'),
    ({'stores': ('x', 'y', 'z'), 'shape': 'all'}, '--shape=all ranks for pairs; .* scores 3 texts'),
  ],
)
def test_what_does_not_fit_three_texts_is_refused(run, changes, message):
  with pytest.raises(InputError, match=message):
    score.main(score.ScoreConfig(str(run / 'export'), **changes), [])


@pytest.mark.parametrize(
  'columns',
  [
    ('a', 'b b', 'c'),
    ('a', 'b+c', 'b_c'),
    ('a', 'a_part', 'c'),
    ('a', 'b', 'a'),
    ('self', 'b', 'c'),
  ],
)
def test_columns_that_cannot_name_signatures_are_refused_before_the_run(columns):
  with pytest.raises(InputError, match='cannot name a signature of the export; rename the column'):
    student_export.slot_names(columns)
