"""Jobs on Beam against one call on everything: encode, score in three shapes, annotate."""

import gzip
import json
import os
import subprocess
import sys

import apache_beam as beam
import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from apache_beam.ml.inference.base import RunInference
from apache_beam.testing.util import assert_that, equal_to

from common.data.records import RecordSet
from common.data.tokenization import Tokenizer
from common.data.tokens import TokenizedTuples
from common.distillation.teacher import Teacher
from common.errors import InputError
from common.export import student_export
from common.modeling import checkpoints
from common.pipelines import annotate, encode, score
from common.pipelines.jobs import FilesConfig, OutputConfig
from common.pipelines.models import ScorerHandler
from common.vectors.store import VectorStore
from dipair.scorer import Scorer

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TERMS = [('t0', 'red'), ('t1', 'wide footwear'), ('t2', 'nike shoes')]
PRODUCTS = [(f'p{i}', f'{text} {i // 3}') for i, text in enumerate(['red throw', 'boots', 'x'] * 3)]


def tsv(path, header, rows):
  lines = ['\t'.join(header), *('\t'.join(row) for row in rows)]
  path.write_text('\n'.join(lines) + '\n', encoding='utf-8')
  return FilesConfig(input=(str(path),), unit_bytes=40)


@pytest.fixture(name='stores', scope='module')
def _stores(exported, tmp_path_factory):
  """Folders of both sides' stores, made by the job."""
  folder, made = tmp_path_factory.mktemp('stores'), []
  for side, rows in (('left', TERMS), ('right', PRODUCTS)):
    files = tsv(folder / f'{side}.tsv', ('id', 'text'), rows)
    out = OutputConfig(output=str(folder / side))
    encode.main(encode.EncodeConfig(exported[0], side, files, dtype='float32', out=out), [])
    made.append(out.output)
  return made


def read(folder):
  names = sorted(name for name in os.listdir(folder) if name.startswith('scores'))
  tables = [pq.read_table(os.path.join(folder, name)).to_pylist() for name in names]
  return [row for table in tables for row in table]


def expected_scores(exported):
  scorer = Scorer.load(exported[0])
  pairs = [(t, p) for t in TERMS for p in PRODUCTS]
  found = scorer.score([t for (_, t), _ in pairs], [p for _, (_, p) in pairs])
  return {(t, p): s for ((t, _), (p, _)), s in zip(pairs, found, strict=True)}


def test_a_store_from_many_shards(exported, stores):
  scorer, store = Scorer.load(exported[0]), VectorStore(stores[1])
  store.verify()
  assert store.ids(range(9)) == [key for key, _ in PRODUCTS]
  assert len([name for name in os.listdir(stores[1]) if name.endswith('.arrow')]) > 2
  expected = scorer.encode([text for _, text in PRODUCTS], 'right')
  np.testing.assert_allclose(store.vectors(slice(None)), expected, atol=1e-5)
  assert [row for row, _ in scorer.rank('red', store, 3)] == [
    row for row, _ in scorer.rank('red', expected, 3)
  ]


def test_an_id_that_comes_twice_makes_no_store(exported, tmp_path):
  files = tsv(tmp_path / 'twice.tsv', ('id', 'text'), [*PRODUCTS, ('p1', 'boots 0')])
  out = OutputConfig(output=str(tmp_path / 'out'))
  config = encode.EncodeConfig(exported[0], 'right', files, out=out)
  message = r"out: id 'p1' came twice \(in .*/vectors-00000.arrow and .*/vectors-0000[1-9].arrow\)"
  for _ in range(2):
    with pytest.raises(InputError, match=message):
      encode.main(config, [])
  with pytest.raises(InputError, match='no whole vector store there'):
    VectorStore(out.output)


def test_a_gzip_file_that_ends_in_the_middle_gives_no_store(exported, tmp_path):
  rows = ''.join(f'{i * 7919 % 10007}\tred\n' for i in range(5000))
  packed = gzip.compress(b'id\ttext\n' + rows.encode())
  (tmp_path / 'a.tsv.gz').write_bytes(packed[: len(packed) // 2])
  files = FilesConfig(input=(str(tmp_path / 'a.tsv.gz'),))
  out = OutputConfig(output=str(tmp_path / 'out'), max_bad_rows=9)
  with pytest.raises(InputError, match='a.tsv.gz: damaged gzip up to byte .*; copy it anew'):
    encode.main(encode.EncodeConfig(exported[0], 'right', files, out=out), [])
  assert os.listdir(out.output) == ['plan.json']


def test_pairs_of_ids_go_on_where_they_stopped(exported, stores, tmp_path, capsys):
  pairs = [(t, p) for t, _ in TERMS for p, _ in PRODUCTS]
  files = tsv(tmp_path / 'pairs.tsv', ('left', 'right'), [*pairs, ('t0', 'none'), ('t1',)])
  out = OutputConfig(output=str(tmp_path / 'out'), max_bad_rows=1)
  config = score.ScoreConfig(
    exported[0], 'tensorflow', 0, 'pairs', files, *stores, out=out, output_format='parquet'
  )
  with pytest.raises(InputError, match=r'2 bad rows, more than --max_bad_rows=1: see .*/bad'):
    score.main(config, [])
  rows = read(out.output)
  expected = expected_scores(exported)
  assert [(row['left'], row['right']) for row in rows] == pairs
  np.testing.assert_allclose([row['score'] for row in rows], list(expected.values()), atol=1e-5)
  lines = [line for path in (tmp_path / 'out/bad').iterdir() for line in path.open()]
  bad = [json.loads(line) for line in lines]
  assert {row['why'] for row in bad} == {
    "no right vectors of id 'none'",
    '1 columns; the header names 2',
  }

  lost = sorted(os.listdir(f'{out.output}/done'))[1]
  os.remove(f'{out.output}/done/{lost}')
  before = {n: os.path.getmtime(f'{out.output}/{n}') for n in os.listdir(out.output) if 'sc' in n}
  with pytest.raises(InputError, match='2 bad rows'):
    score.main(config, [])
  after = {name: os.path.getmtime(f'{out.output}/{name}') for name in before}
  assert [name[7:12] for name in before if after[name] != before[name]] == [lost[:5]]
  assert read(out.output) == rows
  other = score.ScoreConfig(exported[0], 'litert', 0, 'pairs', files, *stores, out=out)
  with pytest.raises(InputError, match='begun with other runtime; go on with those'):
    score.main(other, [])


def test_candidates_and_all_pairs_keep_the_best(exported, stores, tmp_path):
  expected = expected_scores(exported)
  rows = [('t1', '["p0", "p7", "p3"]'), ('t0', '["p1"]'), ('t2', '["p9"]'), ('t2', 'p1')]
  files = tsv(tmp_path / 'queries.tsv', ('left', 'right'), rows)
  out = OutputConfig(output=str(tmp_path / 'some'), max_bad_rows=2)
  some = score.ScoreConfig(
    exported[0], 'tensorflow', 0, 'candidates', files, *stores, top_k=2, out=out
  )
  score.main(some, [])
  best = sorted(['p0', 'p7', 'p3'], key=lambda p: -expected['t1', p])[:2]
  found = sorted((row['left'], row['rank'], row['right']) for row in read(out.output))
  assert found == [('t0', 1, 'p1'), ('t1', 1, best[0]), ('t1', 2, best[1])]

  out = OutputConfig(output=str(tmp_path / 'all'))
  every = score.ScoreConfig(
    exported[0], 'tensorflow', 0, 'all', FilesConfig(), *stores, top_k=4, unit_rows=2, out=out
  )
  score.main(every, [])
  for term, _ in TERMS:
    found = [row['score'] for row in read(out.output) if row['left'] == term]
    of_term = sorted((s for (t, _), s in expected.items() if t == term), reverse=True)
    np.testing.assert_allclose(found, of_term[:4], atol=1e-5)


def test_pairs_of_texts_and_run_inference(exported, tmp_path):
  files = tsv(tmp_path / 'texts.tsv', ('q', 'title'), [('red', 'boots 1'), ('nike shoes', 'x 2')])
  out = OutputConfig(output=str(tmp_path / 'out'))
  score.main(
    score.ScoreConfig(
      exported[0], 'litert', 1, 'pairs', files, left_column='q', right_column='title', out=out
    ),
    [],
  )
  expected = Scorer.load(exported[0]).score(['red', 'nike shoes'], ['boots 1', 'x 2'])
  np.testing.assert_allclose([row['score'] for row in read(out.output)], expected, atol=1e-5)
  with beam.Pipeline() as pipeline:
    pairs = pipeline | beam.Create([('red', 'boots 1'), ('nike shoes', 'x 2')])
    scores = pairs | RunInference(ScorerHandler(exported[0])) | beam.Map(lambda s: round(s, 4))
    assert_that(scores, equal_to([round(float(s), 4) for s in expected]))


def test_each_class_has_a_column_of_scores(tiny, tmp_path):
  texts = ['red', 'wide boots', 'x y']
  export, stores = str(tmp_path / 'export'), [str(tmp_path / side) for side in ('left', 'right')]
  student_export.write(
    export, *tiny(outputs=3), slots=('left', 'right'), task='multiclass', samples=(texts, texts)
  )
  for side, store in zip(('left', 'right'), stores, strict=True):
    files = tsv(tmp_path / f'{side}.tsv', ('id', 'text'), [(text, text) for text in texts])
    out = OutputConfig(output=store)
    encode.main(encode.EncodeConfig(export, side, files, dtype='float32', out=out), [])
  pairs = [(left, right) for left in texts for right in texts]
  expected = Scorer.load(export).score(*map(list, zip(*pairs, strict=True)))
  assert expected.shape == (9, 3)
  for name, sides, unknown in (('texts', ('', ''), []), ('ids', stores, [('red', 'none')])):
    files = tsv(tmp_path / f'{name}.tsv', ('left', 'right'), [*pairs, *unknown])
    out = OutputConfig(output=str(tmp_path / name), max_bad_rows=1)
    score.main(score.ScoreConfig(export, 'tensorflow', 0, 'pairs', files, *sides, out=out), [])
    rows = read(out.output)
    assert [(row['left'], row['right']) for row in rows] == pairs
    found = [[row[f'score_{number}'] for number in range(3)] for row in rows]
    np.testing.assert_allclose(found, expected, atol=1e-5)
  handled = ScorerHandler(export).run_inference(pairs, Scorer.load(export))
  np.testing.assert_allclose(handled, expected, atol=1e-5)
  with pytest.raises(InputError, match='--shape=all ranks by one score; .* gives 3 a pair'):
    score.main(score.ScoreConfig(export, 'tensorflow', 0, 'all', FilesConfig(), *stores), [])


def test_annotation_is_the_teachers_mean(tmp_path):
  folders, teachers = [], []
  pretrained = checkpoints.read('random-tiny')
  tokenizer = Tokenizer(pretrained.vocabulary, pretrained.lower_case)
  for number in range(2):
    teachers.append(Teacher(pretrained.config, tokenizer, 32, 1))
    folders.append(str(tmp_path / f'teacher{number}'))
    teachers[-1].save(folders[-1])
  rows = [(t, p) for _, t in TERMS for _, p in PRODUCTS]
  files = tsv(tmp_path / 'pairs.tsv', ('left', 'right'), rows)
  out = OutputConfig(output=str(tmp_path / 'distill'))
  config = annotate.AnnotateConfig(tuple(folders), files, temperature=2.0, out=out)
  annotate.main(config, [])
  found = RecordSet(out.output)
  assert found.texts() == rows
  assert [len(found.items(slot)) for slot in range(2)] == [
    len(set(c)) for c in zip(*rows, strict=True)
  ]
  assert len(found.manifest.shards) > 1  # each with tables of its own
  strategy, tuples = tf.distribute.get_strategy(), TokenizedTuples.of_texts(rows, tokenizer)
  logits = np.mean([teacher.logits(tuples, strategy=strategy) for teacher in teachers], 0)
  np.testing.assert_allclose(found.tuples().teacher_logits, logits, atol=1e-5)
  soft = 1 / (1 + np.exp(-logits / 2))
  np.testing.assert_allclose(found.tuples().soft_labels, soft, atol=1e-5)


def test_the_command_on_two_processes_and_misled(exported, tmp_path, refusals):
  files = tsv(tmp_path / 'products.tsv', ('id', 'text'), PRODUCTS)
  arguments = [f'--export_dir={exported[0]}', f'--input={files.input[0]}']
  arguments += ['--unit_bytes=40', '--threads=1']
  command = [sys.executable, '-m', 'common.pipelines.encode', *arguments]
  command += [f'--output={tmp_path}/out']
  command += ['--direct_running_mode=multi_processing', '--direct_num_workers=2']
  done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
  assert done.returncode == 0, done.stderr[-3000:]
  assert '9 rows in ' in done.stdout
  assert sorted(VectorStore(f'{tmp_path}/out').ids(range(9))) == [key for key, _ in PRODUCTS]
  refused = {
    '--outptu=x': "Unknown command line flag 'outptu'",
    '--side=up': '--side=up: one of left, right',
    '--text_column=txt': "no column 'txt'; did you mean 'text'",
  }
  cases = [[*arguments, f'--output={tmp_path}/other', flag] for flag in refused]
  found = refusals('common.pipelines.encode', cases)
  for (status, said), message in zip(found, refused.values(), strict=True):
    assert (status, message in said) == (2, True), said[-2000:]
