"""The reranking command: its run against the scorer, its metrics against trec_eval, refusals."""

import os
import shutil

import ir_measures
import numpy as np
import pytest
from ir_measures import AP, nDCG

from common import files as common_files
from common.data import trec
from common.errors import InputError
from common.evaluation.ranking import Candidates, Judged
from common.rerank import texts
from common.rerank.__main__ import RerankConfig, main
from common.rerank.first_stage import fitted
from common.rerank.reranker import FirstStage, Reranker
from common.scoring.first_stage import FirstStageWeight
from common.scoring.scorer import PairScorer

QUERIES = {'q1': 'red', 'q2': 'nike shoes', 'q3': 'wide footwear'}
DOCUMENTS = {
  'd1': 'black nike shoes for boys',
  'd2': 'red throw',
  'd3': 'wide red boots',
  'd4': 'x',
}
LIGHT = {'runtime': 'litert', 'encoder_runtime': 'litert'}  # TensorFlow's takes a second to load


@pytest.fixture(name='files')
def _files(tmp_path):
  """Paths by flag: three queries with the four documents each, d4 last; judgements of two."""
  lines = [f'{q} Q0 d{i} {i} {5 - i}.5 bm25\n' for q in QUERIES for i in range(1, 5)]
  texts = {
    'run': ''.join(lines),
    'queries': ''.join(f'{key}\t{text}\n' for key, text in QUERIES.items()),
    'documents': ''.join(
      f'{k}\t{t}\n' for k, t in [('id', 'text'), *DOCUMENTS.items(), ('no', '')]
    ),
    'qrels': 'q1 0 d2 2\nq1 0 d3 1\nq2 0 d1 1\nq2 0 d9 1\nq2 0 d2 0\nq9 0 d1 1\n',
  }
  tables = ('queries', 'documents')
  paths = {flag: tmp_path / (f'{flag}.tsv' if flag in tables else flag) for flag in texts}
  for flag, text in texts.items():
    paths[flag].write_text(text)
  return {**{flag: str(path) for flag, path in paths.items()}, 'output': str(tmp_path / 'out')}


def _run(path):
  return list(ir_measures.read_trec_run(path))


def test_the_first_of_each_query_are_ranked_anew(exported, files, load, capsys):
  main(RerankConfig(export_dir=exported.folder, **files, depth=3))
  found = _run(files['output'])
  scorer, keys = load(exported.folder), list(DOCUMENTS)[:3]
  for number, (query, text) in enumerate(QUERIES.items()):
    own = found[4 * number : 4 * number + 4]
    scores = scorer.score([text] * 3, [DOCUMENTS[key] for key in keys])
    best = [keys[i] for i in np.argsort(-scores)]
    assert [of.doc_id for of in own] == [*best, 'd4'] and {of.query_id for of in own} == {query}
    assert [of.score for of in own] == pytest.approx([*sorted(scores, reverse=True), -1], abs=1e-5)
  shown = capsys.readouterr().out
  qrels = [of for of in ir_measures.read_trec_qrels(files['qrels']) if of.query_id != 'q9']
  for name, measure in (('NDCG@10', nDCG @ 10), ('MAP', AP)):
    (line,) = [line for line in shown.splitlines() if line.startswith(f'{name} ')]
    before, after = (
      ir_measures.calc_aggregate([measure], qrels, run)[measure]
      for run in (_run(files['run']), found)
    )
    assert f' {before:.3f} [' in line and f' {after:.3f} [' in line
  assert '2 judged queries, 0 of them without a relevant document' in shown


def test_logits_order_what_float32_gives_one_score(export, files, load, monkeypatch):
  run, scorer = trec.read_run(files['run']), load(export('dipair').folder)
  documents = [DOCUMENTS[key] for key in run.documents]
  reranker = Reranker.of_texts(scorer, FirstStage(run, 3), documents)
  logits, ones = np.array([18, 20, 18], np.float32), np.ones(3, np.float32)
  monkeypatch.setattr(scorer, '_scored', lambda *of: (logits, ones))
  scores = reranker.write(files['output'], list(QUERIES.values()))
  found = [(of.doc_id, np.float32(of.score)) for of in _run(files['output'])[:4]]
  below = [np.float32(1), np.float32(1 - 2**-24), np.float32(1 - 2**-23), np.float32(-1)]
  assert found == [*zip(['d2', 'd1', 'd3', 'd4'], below, strict=True)]
  assert scores[:4].tolist() == [below[1], below[0], below[2], below[3]]


def test_a_score_that_is_nan_is_refused_by_its_document(export, files, load, monkeypatch):
  run, scorer = trec.read_run(files['run']), load(export('dipair').folder)
  reranker = Reranker.of_texts(
    scorer, FirstStage(run, 3), [DOCUMENTS[key] for key in run.documents]
  )
  logits = np.array([1, np.nan, 2], np.float32)
  monkeypatch.setattr(scorer, '_scored', lambda *of: (logits, logits))
  with pytest.raises(InputError, match="^document 'd2': its score is NaN$"):
    reranker.write(files['output'], list(QUERIES.values()))
  assert not os.path.exists(files['output'])


def test_documents_beyond_the_depth_are_not_encoded(export, files, load):
  run = trec.read_run(files['run'])
  documents = [DOCUMENTS[key] for key in run.documents]
  found = Reranker.of_texts(load(export('dipair').folder), FirstStage(run, 3), documents)
  assert len(found.vectors) == 3  # of d4 none
  assert found.rows[[run.documents.index(key) for key in DOCUMENTS]].tolist() == [0, 1, 2, -1]


def test_a_store_gives_the_same_run(export, files, load, tmp_path):
  files |= LIGHT
  exported = export('dipair')
  main(RerankConfig(export_dir=exported.folder, **files))
  store, expected = str(tmp_path / 'store'), _run(files['output'])
  rows = [('other', 'blue'), *reversed(DOCUMENTS.items())]
  load(exported.folder, **LIGHT).encode_to(store, iter(rows), 'right')
  main(RerankConfig(export_dir=exported.folder, **{**files, 'documents': '', 'store': store}))
  found = _run(files['output'])
  assert [of.doc_id for of in found] == [of.doc_id for of in expected]
  assert [of.score for of in found] == pytest.approx([of.score for of in expected], abs=1e-5)


def test_a_document_beyond_the_depth_may_have_no_text(export, files, tmp_path):
  files |= LIGHT
  folder = export('dipair').folder
  main(RerankConfig(export_dir=folder, **files, depth=3))
  expected = _run(files['output'])
  lines = {'d4': 'd4\t \n', 'no d4': ''}
  for name, line in lines.items():
    rows = ''.join(f'{key}\t{text}\n' for key, text in DOCUMENTS.items() if key != 'd4')
    (tmp_path / 'documents.tsv').write_text(f'id\ttext\n{rows}{line}')
    main(RerankConfig(export_dir=folder, **files, depth=3))
    assert _run(files['output']) == expected, name
    with pytest.raises(InputError, match="document 'd4'"):
      main(RerankConfig(export_dir=folder, **files, depth=4))


def test_texts_quoted_as_in_a_csv_are_refused(files, tmp_path):
  (tmp_path / 'queries.tsv').write_text('q1\t"so ""called"" shoes"\n')
  with pytest.raises(InputError, match=r"queries.tsv:1: column 'text' is quoted as in a CSV"):
    texts.of_ids(files['queries'], trec.read_run(files['run']), 'query', 'id', 'text')


def test_a_run_is_written_to_a_bucket(export, files):
  files |= LIGHT
  main(RerankConfig(export_dir=export('dipair').folder, **files))
  with open(files['output'], encoding='utf-8') as file:
    expected = file.read()
  output = 'ram://bucket/reranked.trec'  # in memory, by TensorFlow's file systems as gs:// is
  main(RerankConfig(export_dir=export('dipair').folder, **{**files, 'output': output}))
  with common_files.opened(output) as file:
    assert file.read() == expected


def test_what_does_not_fit_is_refused_in_a_line_with_its_place(export, files, refusals, tmp_path):
  flags = {'export': export('dipair').folder, **files}
  bad = {}
  for name, text in {
    'run': 'q1 Q0 d1 1 1 a\nq1 Q0 d7 2 0 a\n',
    'other': 'q1 Q0 d1 1 1 a\nq8 Q0 d1 1 1 a\n',
    'qrels': 'q9 0 d1 1\n',
    'cells': 'q1 Q0 d1 1 a\n',
  }.items():
    bad[name] = str(tmp_path / f'bad {name}')
    (tmp_path / f'bad {name}').write_text(text)
  cases = {
    f"{bad['run']}:2: document 'd7' is not in {files['documents']}": {'run': bad['run']},
    f"{bad['other']}:2: query 'q8' is not in {files['queries']}": {'run': bad['other']},
    f'{bad["qrels"]}: judges no query of {files["run"]}': {'qrels': bad['qrels']},
    f'{bad["cells"]}:1: 5 cells; a line is `query Q0': {'run': bad['cells']},
    '--documents, which are encoded, or --store': {'store': 'x'},
  }
  given = [[f'--{k}={v}' for k, v in {**flags, **changed}.items()] for changed in cases.values()]
  for says, (status, error) in zip(cases, refusals('common.rerank', given), strict=True):
    assert status == 2 and says in error.splitlines()[-1]
  assert not (tmp_path / 'out').exists()


def test_the_weight_is_the_least_with_the_best_mrr():
  queries, relevant = np.repeat([0, 1], 3), np.array([1, 0, 0, 0, 1, 0], bool)
  judged = Judged(queries[relevant], np.ones(2), np.ones(2, bool), 2)
  candidates = Candidates(queries, np.arange(6), relevant * 1.0, relevant, judged)
  logits, scores = np.array([0, 1, -np.inf, 0, 1, -1.0]), np.array([2, 0, 9, 0, 1, 2.0])
  found = fitted('bm25', candidates, logits, scores)
  ratio = np.std([0, 1, 0, 1, -1]) / np.std([2, 0, 0, 1, 2])
  assert found.weight / ratio == pytest.approx(2**-0.5)  # above 1/2 the first query's is first
  assert found.mean == 1.0
  summed = logits + found.terms(scores)
  np.testing.assert_allclose(summed[:2], [found.weight, 1 - found.weight])


def test_runs_of_a_first_stage_are_summed_with_its_weight_and_others_refused(
  export, files, tmp_path, capsys
):
  files |= LIGHT
  folder = tmp_path / 'export'
  shutil.copytree(export('dipair').folder, folder)
  main(RerankConfig(export_dir=str(folder), **files, fit_first_stage=True))
  assert FirstStageWeight.of(str(folder)).name == 'bm25'
  assert f'bm25: weight 0, kept in {folder}' in capsys.readouterr().out
  alone = _run(files['output'])
  FirstStageWeight('bm25', 1000.0, 3.0).write(str(folder))
  main(RerankConfig(export_dir=str(folder), **files))
  assert [of.doc_id for of in _run(files['output'])] == 3 * list(DOCUMENTS)
  FirstStageWeight('bm25', 0.5, 3.0).write(str(folder))
  main(RerankConfig(export_dir=str(folder), **files))
  bm25 = {'first_stage_scores': [4.5, 3.5, 2.5, 1.5], 'first_stage_name': 'bm25'}
  ranked = PairScorer.load(str(folder), **LIGHT).rank('red', list(DOCUMENTS.values()), **bm25)
  assert [(of.doc_id, of.score) for of in _run(files['output'])[:4]] == [
    (list(DOCUMENTS)[row], pytest.approx(score, abs=1e-5)) for row, score in ranked
  ]
  main(RerankConfig(export_dir=str(folder), **files, sum_first_stage=False))
  assert _run(files['output']) == alone
  FirstStageWeight('dense', 1.0, 0.0).write(str(folder))
  message = "^--run=.*: of 'bm25'; the export has a weight for 'dense': fit this one"
  with pytest.raises(InputError, match=message):
    main(RerankConfig(export_dir=str(folder), **files))
  (folder / 'first_stage.json').write_text('{"name": "bm25", "weight": 1.0}')
  with pytest.raises(InputError, match='damaged .*mean is missing.; delete it, and fit it anew'):
    PairScorer.load(str(folder))
  with pytest.raises(InputError, match='^--fit_first_stage: --qrels is needed'):
    main(RerankConfig(export_dir=str(folder), **{**files, 'qrels': ''}, fit_first_stage=True))
