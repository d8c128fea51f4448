"""Pairs scored on Beam in three shapes: the scores of one call on everything."""

import json
import os
import shutil

import apache_beam as beam
import numpy as np
import pyarrow.parquet as pq
import pytest
from apache_beam.ml.inference.base import RunInference
from apache_beam.testing.util import assert_that, equal_to

from common import digests
from common.errors import InputError
from common.pipelines import encode, jobs, score
from common.pipelines.jobs import FilesConfig, OutputConfig
from common.pipelines.models import ScorerHandler, TupleModel
from common.scoring.scorer import PairScorer
from common.vectors.store import VectorStore

TERMS = [('t0', 'red'), ('t1', 'wide footwear'), ('t2', 'nike shoes')]
PRODUCTS = [(f'p{i}', f'{text} {i // 3}') for i, text in enumerate(['red throw', 'boots', 'x'] * 3)]


@pytest.fixture(name='stores', scope='module')
def _stores(exported, tmp_path_factory, tsv):
  """Folders of both sides' stores, made by the job."""
  folder, made = tmp_path_factory.mktemp('stores'), []
  for side, rows in (('left', TERMS), ('right', PRODUCTS)):
    files = tsv(folder / f'{side}.tsv', ('id', 'text'), rows)
    out = OutputConfig(output=str(folder / side))
    encode.main(encode.EncodeConfig(exported[0], side, files, dtype='float32', out=out), [])
    made.append(out.output)
  return tuple(made)


def read(folder):
  names = sorted(name for name in os.listdir(folder) if name.startswith('scores'))
  tables = [pq.read_table(os.path.join(folder, name)).to_pylist() for name in names]
  return [row for table in tables for row in table]


def expected_scores(exported):
  scorer = PairScorer.load(exported[0], encoder_runtime='litert-int8')
  pairs = [(t, p) for t in TERMS for p in PRODUCTS]
  found = scorer.score([t for (_, t), _ in pairs], [p for _, (_, p) in pairs])
  return {(t, p): s for ((t, _), (p, _)), s in zip(pairs, found, strict=True)}


def test_pairs_of_ids_go_on_where_they_stopped(exported, stores, tmp_path, capsys, tsv):
  pairs = [(t, p) for t, _ in TERMS for p, _ in PRODUCTS]
  files = tsv(tmp_path / 'pairs.tsv', ('left', 'right'), [*pairs, ('t0', 'none'), ('t1',)])
  out = OutputConfig(output=str(tmp_path / 'out'), max_bad_rows=1)
  config = score.ScoreConfig(exported[0], 'tensorflow', 0, 'pairs', files, stores, out=out)
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
  other = score.ScoreConfig(exported[0], 'litert', 0, 'pairs', files, stores, out=out)
  with pytest.raises(InputError, match='begun with other runtime; go on with those'):
    score.main(other, [])


def test_candidates_and_all_pairs_keep_the_best(exported, stores, tmp_path, tsv):
  expected = expected_scores(exported)
  rows = [
    ('t1', '["p0", "p7", "p7", "p0", "p3"]'),
    ('t0', '["p1"]'),
    ('t2', '["p9"]'),
    ('t2', 'p1'),
  ]
  rows += [('t2', '{"p1": 1}'), ('t2', '"p1"'), ('t2', '[["p1"]]')]  # JSON, and no list of ids
  rows += [('t2', r'["\ud800", "p1"]')]  # half of a character
  files = tsv(tmp_path / 'queries.tsv', ('left', 'right'), rows)
  out = OutputConfig(output=str(tmp_path / 'some'), max_bad_rows=6)
  some = score.ScoreConfig(
    exported[0], 'tensorflow', 0, 'candidates', files, stores, top_k=2, out=out
  )
  score.main(some, [])
  best = sorted(['p0', 'p7', 'p3'], key=lambda p: -expected['t1', p])[:2]
  found = sorted((row['left'], row['rank'], row['right']) for row in read(out.output))
  assert found == [('t0', 1, 'p1'), ('t1', 1, best[0]), ('t1', 2, best[1])]

  out = OutputConfig(output=str(tmp_path / 'all'))
  every = score.ScoreConfig(
    exported[0], 'tensorflow', 0, 'all', FilesConfig(), stores, top_k=4, unit_rows=2, out=out
  )
  score.main(every, [])
  for term, _ in TERMS:
    found = [row['score'] for row in read(out.output) if row['left'] == term]
    of_term = sorted((s for (t, _), s in expected.items() if t == term), reverse=True)
    np.testing.assert_allclose(found, of_term[:4], atol=1e-5)


def test_scores_of_another_head_or_of_a_store_that_was_changed_since_are_not_gone_on_with(
  exported, stores, tmp_path
):
  left, right = stores
  export, right = (str(shutil.copytree(of, tmp_path / of[-5:])) for of in (exported[0], right))
  out = OutputConfig(output=str(tmp_path / 'all'))
  every = score.ScoreConfig(export, 'tensorflow', 0, 'all', FilesConfig(), (left, right), out=out)
  score.main(every, [])
  score.main(every, [])
  with open(f'{export}/head/1/saved_model.pb', 'ab') as file:
    file.write(b'x')
  digests.write(export)
  with pytest.raises(InputError, match='begun with other export; go on with'):
    score.main(every, [])
  VectorStore(right).delete(['p0'])
  message = 'begun with other export, contents of the stores; go on with'
  with pytest.raises(InputError, match=message):
    score.main(every, [])


def test_a_store_that_changes_while_a_job_runs_is_refused(exported, stores, tmp_path, monkeypatch):
  right, run = str(shutil.copytree(stores[1], tmp_path / 'right')), jobs.run

  def changed(*of):
    VectorStore(right).delete(['p0'])
    return run(*of)

  monkeypatch.setattr(jobs, 'run', changed)
  out = OutputConfig(output=str(tmp_path / 'all'))
  every = score.ScoreConfig(
    exported[0], 'tensorflow', 0, 'all', FilesConfig(), (stores[0], right), out=out
  )
  with pytest.raises(InputError, match='right: changed since the job began; choose another --out'):
    score.main(every, [])


def test_a_text_that_comes_again_is_encoded_once(exported, monkeypatch):
  scorer, seen = PairScorer.load(exported[0]), []
  sides = [['red', 'wide', 'red', 'red'], ['x', 'x', 'boots', 'red throw']]
  expected, encode = scorer.score(*sides), scorer.encode

  def counted(texts, side):
    seen.append((side, sorted(texts)))
    return encode(texts, side)

  monkeypatch.setattr(scorer, 'encode', counted)
  *_, scores = TupleModel(scorer).score(sides, '', None)
  assert seen == [('left', ['red', 'wide']), ('right', ['boots', 'red throw', 'x'])]
  np.testing.assert_allclose(scores, expected, atol=1e-6)


def test_pairs_of_texts_and_run_inference(exported, tmp_path, tsv):
  files = tsv(tmp_path / 'texts.tsv', ('q', 'title'), [('red', 'boots 1'), ('nike shoes', 'x 2')])
  out = OutputConfig(output=str(tmp_path / 'out'))
  exact = {'runtime': 'litert', 'encoder_runtime': 'litert', 'threads': 1}
  columns = {'columns': ('q', 'title')}
  score.main(score.ScoreConfig(exported[0], files=files, out=out, **exact, **columns), [])
  expected = PairScorer.load(exported[0]).score(['red', 'nike shoes'], ['boots 1', 'x 2'])
  np.testing.assert_allclose([row['score'] for row in read(out.output)], expected, atol=1e-5)
  with beam.Pipeline() as pipeline:
    pairs = pipeline | beam.Create([('red', 'boots 1'), ('nike shoes', 'x 2')])
    scores = pairs | RunInference(ScorerHandler(exported[0])) | beam.Map(lambda s: round(s, 4))
    assert_that(scores, equal_to([round(float(s), 4) for s in expected]))


def test_each_class_has_a_column_of_scores(export, tmp_path, tsv):
  texts = ['red', 'wide boots', 'x y']
  folder = export('dse', 3, shared_encoder=False).folder  # the other student, of its own sides
  stores = tuple(str(tmp_path / side) for side in ('left', 'right'))
  for side, store in zip(('left', 'right'), stores, strict=True):
    files = tsv(tmp_path / f'{side}.tsv', ('id', 'text'), [(text, text) for text in texts])
    out = OutputConfig(output=store)
    encode.main(encode.EncodeConfig(folder, side, files, dtype='float32', out=out), [])
  pairs = [(left, right) for left in texts for right in texts]
  scorer = PairScorer.load(folder, encoder_runtime='litert-int8')
  expected = scorer.score(*map(list, zip(*pairs, strict=True)))
  assert expected.shape == (9, 3)
  for name, sides, unknown in (('texts', (), []), ('ids', stores, [('red', 'none')])):
    files = tsv(tmp_path / f'{name}.tsv', ('left', 'right'), [*pairs, *unknown])
    out = OutputConfig(output=str(tmp_path / name), max_bad_rows=1)
    score.main(score.ScoreConfig(folder, 'tensorflow', 0, 'pairs', files, sides, out=out), [])
    rows = read(out.output)
    assert [(row['left'], row['right']) for row in rows] == pairs
    found = [[row[f'score_{number}'] for number in range(3)] for row in rows]
    np.testing.assert_allclose(found, expected, atol=1e-5)
  handled = ScorerHandler(folder).run_inference(pairs, scorer)
  np.testing.assert_allclose(handled, expected, atol=1e-5)
  with pytest.raises(InputError, match='--shape=all ranks by one score; .* gives 3 a pair'):
    score.main(score.ScoreConfig(folder, 'tensorflow', 0, 'all', FilesConfig(), stores), [])


@pytest.mark.parametrize('runtime', ['tensorflow', 'litert'])
def test_a_process_keeps_to_its_threads(exported, runtime, monkeypatch):
  threads = []
  monkeypatch.setattr('common.pipelines.models.limit_threads', lambda count: None)
  monkeypatch.setattr(
    'common.scoring.litert.ThreadPoolExecutor', lambda count: threads.append(count)
  )
  ScorerHandler(exported[0], runtime, 1, 'litert-int8').load_model()
  assert set(threads) == {1}


@pytest.mark.parametrize(
  ('main', 'config'), [(score.main, score.ScoreConfig), (encode.main, encode.EncodeConfig)]
)
def test_an_export_must_be_named(main, config):
  with pytest.raises(InputError, match='^--export_dir is needed$'):
    main(config(), [])
