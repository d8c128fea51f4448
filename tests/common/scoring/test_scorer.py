"""Scores of a reloaded export are the live model's, from texts or vectors, in pairs or ranked."""

import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from scipy.special import logit

import common.data.texts
import common.scoring.sides
from common.data.tokens import TokenizedTuples
from common.distillation.inference import TupleScorer
from common.errors import InputError
from common.scoring import best
from common.scoring.first_stage import FirstStageWeight
from common.scoring.scorer import PairScorer
from common.vectors import neighbors
from common.vectors.values import Stored

LEFT = ['red', 'wide footwear', 'nike shoes', '']
RIGHT = ['black nike shoes for boys', 'red throw', 'x', 'wide red boots and more words']
SHAPES = {'dipair': ((3, 8), (4, 8)), 'dse': ((2 * 32,), (2 * 32,))}  # of a text's vectors
PARTS = {'dipair': (4, 3 * 8), 'dse': (6,)}  # of a right text


def test_exports_score_as_the_live_model_does(exported, monkeypatch, load):
  folder, model, tokenizer, result = exported
  assert result['max_difference'] <= 1e-5
  left, right = SHAPES[model.name]
  assert result['vector_bytes'] == {'left': math.prod(left) * 4, 'right': math.prod(right) * 4}
  scorer = load(folder)
  tuples = TokenizedTuples.of_texts(list(zip(LEFT, RIGHT, strict=True)), tokenizer)
  logits = TupleScorer(model, tokenizer, tf.distribute.get_strategy()).logits(tuples)[:, 0]
  expected = 1 / (1 + np.exp(-logits))
  vectors = scorer.encode(LEFT, side='left'), scorer.encode(RIGHT, side='right')
  np.testing.assert_allclose(scorer.score(*vectors), expected, atol=1e-5)
  np.testing.assert_allclose(scorer.score(LEFT, RIGHT), expected, atol=1e-5)
  monkeypatch.setattr('common.scoring.tensorflow_runtimes._BLOCK', 3)
  np.testing.assert_allclose(scorer.score(*vectors), expected, atol=1e-5)
  monkeypatch.setattr('common.scoring.scorer._TOGETHER', 3)
  turned = [(of[::-1], np.arange(4)[::-1]) for of in vectors]
  for found, exact in zip(scorer.scored(*turned), (logits[:, None], expected), strict=True):
    np.testing.assert_allclose(found, exact, atol=1e-4)
  assert [v.shape for v in vectors] == [(4, *left), (4, *right)]
  assert vectors[0].dtype == np.float32


def test_a_texts_vectors_do_not_depend_on_its_batch(exported, load):
  scorer = load(exported[0])
  together = scorer.encode(RIGHT, side='right')
  alone = np.concatenate([scorer.encode([text], side='right') for text in RIGHT])
  np.testing.assert_allclose(together, alone, atol=1e-5)


def test_one_text_or_none_is_refused_wherever_texts_are_taken(exported, tmp_path, load):
  scorer, texts = load(exported[0]), ['red', None]
  for call in (
    lambda: scorer.score('black', 'shoes'),
    lambda: scorer.score(['black'], 'shoes'),
    lambda: scorer.rank('nike', 'a shoe'),
    lambda: scorer.encode('shoes', 'right'),
  ):
    with pytest.raises(InputError, match='^(left|right) texts: a list of texts is needed, not one'):
      call()
  for call in (
    lambda: scorer.score(LEFT[:2], texts),
    lambda: scorer.rank('nike', texts),
    lambda: scorer.rank(texts, RIGHT),
    lambda: scorer.encode(texts, 'right'),
    lambda: scorer.encode_to(str(tmp_path), enumerate_ids(texts), 'right'),
  ):
    with pytest.raises(InputError, match='row 1: None is not a text$'):
      call()


def test_each_argument_is_looked_at_once(exported, load, monkeypatch):
  scorer, texts, looked = load(exported[0]), ['red'] * 50, {'text': 0, 'vectors': 0}

  def counted(name, function):
    def call(*given):
      looked[name] += 1
      return function(*given)

    return call

  check_text = counted('text', common.data.texts.check_text)
  monkeypatch.setattr('common.data.texts.check_text', check_text)
  are_vectors = counted('vectors', common.scoring.sides.are_vectors)
  monkeypatch.setattr('common.scoring.sides.are_vectors', are_vectors)
  monkeypatch.setattr('common.scoring.scorer.are_vectors', are_vectors)
  scorer.score(texts, texts)
  assert looked == {'text': 100, 'vectors': 2}
  scorer.rank('red', texts)
  assert looked == {'text': 151, 'vectors': 4}


def enumerate_ids(texts):
  return ((str(number), text) for number, text in enumerate(texts))


def test_rank_gives_the_best_scores_in_order_with_and_without_parts(exported, monkeypatch, load):
  monkeypatch.setattr('common.scoring.tensorflow_runtimes._BLOCK', 2)
  scorer = load(exported[0])
  products = scorer.encode(RIGHT, side='right')
  ranking = scorer.rank('red', products, top_k=3)
  scores = scorer.score(['red'] * 4, products)
  np.testing.assert_allclose([s for _, s in ranking], sorted(scores)[:0:-1], atol=1e-6)
  assert scorer.rank('red', np.array([])) == []
  texts = np.array(RIGHT, np.dtypes.StringDType())
  assert [row for row, _ in scorer.rank('red', texts, top_k=3)] == [row for row, _ in ranking]
  np.testing.assert_allclose([scores[i] for i, _ in ranking], sorted(scores)[:0:-1], atol=1e-5)
  query = scorer.encode(['red'], side='left')[0]
  assert ranking == scorer.rank(query, products, top_k=3)
  parts = scorer.parts(products, 'right')
  assert parts.shape == (4, *PARTS[exported.model.name])
  given = scorer.rank(query, products, 3, parts=parts)
  assert [i for i, _ in given] == [i for i, _ in ranking]
  np.testing.assert_allclose([s for _, s in given], [s for _, s in ranking], atol=1e-6)
  assert scorer.rank('red', products[:0]) == []


@pytest.mark.parametrize(
  ('shape', 'width', 'query', 'expected'),
  [
    ((4,), 0, np.array(['red'] * 4), (4, True)),
    ((4,), 0, np.zeros(4), (1, False)),
    ((2, 5), 3, np.zeros([2, 5]), (1, False)),
    ((2, 5), 3, np.zeros([2, 3]), (2, True)),
    ((2, 3), 3, np.zeros([2, 3]), (2, True)),  # may be one query's vectors, too
    ((2, 3), 3, np.zeros(3), (1, False)),
  ],
)
def test_what_one_query_is(shape, width, query, expected):
  scorer = object.__new__(PairScorer)
  scorer.slots, scorer.outputs = ('left', 'right'), 1
  scorer.vector_shapes, scorer.widths = {'left': shape}, {'left': width} if width else {}
  scorer.encode_listed = lambda texts, side: np.zeros([len(texts), *shape])
  rows, several = scorer._queries(query)
  vectors = scorer._vectors(rows, 'left')
  assert (vectors.shape, several) == ((expected[0], *shape), expected[1])


@pytest.mark.parametrize(
  ('logits', 'scores', 'ranked'),
  [
    ([18, 20, 19], [1, 1, 1], [(1, 1.0), (2, 1.0), (0, 1.0)]),  # of float32
    ([1, 2, 1, 2], [0.25, 0.5, 0.25, 0.5], [(1, 0.5), (3, 0.5), (0, 0.25), (2, 0.25)]),  # ties
  ],
)
def test_logits_rank_and_equal_ones_keep_the_candidates_order(
  exported, load, monkeypatch, logits, scores, ranked
):
  scorer = load(exported.folder)
  found = np.array(logits, np.float32), np.array(scores, np.float32)
  monkeypatch.setattr(scorer, '_scored', lambda *of: found)
  assert scorer.rank('red', RIGHT[: len(logits)]) == ranked


def test_a_first_stages_scores_are_summed_with_logits_before_calibration(
  exported, load, monkeypatch
):
  scorer = load(exported.folder)
  monkeypatch.setattr(scorer, 'first_stage_weight', FirstStageWeight('bm25', 0.5, 4.0))
  monkeypatch.setattr(scorer, 'temperature', 2.0)
  logits = np.array([0, 2, 1], np.float32)
  monkeypatch.setattr(scorer, '_scored', lambda *of: (logits, logits))
  bm25 = {'first_stage_scores': [10, 4, 6], 'first_stage_name': 'bm25'}
  found = scorer.rank('red', RIGHT[:3], **bm25)
  assert [row for row, _ in found] == [0, 1, 2]  # 0 + 3, 2 + 0, 1 + 1
  np.testing.assert_allclose([score for _, score in found], [0.817574, 0.731059, 0.731059], 1e-5)
  assert scorer.rank('red', RIGHT[:3], 2, **bm25) == found[:2]
  assert [row for row, _ in scorer.rank('red', RIGHT[:3])] == [1, 2, 0]


def test_sums_of_several_queries_and_rows_and_what_does_not_fit(
  exported, load, tmp_path, monkeypatch
):
  monkeypatch.setattr('common.scoring.best._READ', 2)
  scorer = load(exported.folder)
  monkeypatch.setattr(scorer, 'first_stage_weight', FirstStageWeight('bm25', 2.0, 0.5))
  store = scorer.encode_to(str(tmp_path), enumerate_ids(RIGHT), 'right')
  queries, rows = ['red', 'x'], [3, 0, 2]
  scores = np.array([[1, 3, 2], [2, 1, 3]], np.float32)
  bm25 = {'first_stage_scores': scores, 'first_stage_name': 'bm25'}
  found = scorer.rank(queries, store, rows=rows, **bm25)
  for query, own, one in zip(queries, scores, found, strict=True):
    sums = logit(scorer.score([query] * 3, [RIGHT[row] for row in rows])) + 2.0 * (own - 0.5)
    order = np.argsort(-sums)
    assert [row for row, _ in one] == [rows[place] for place in order]
    np.testing.assert_allclose([s for _, s in one], 1 / (1 + np.exp(-sums[order])), atol=1e-5)
    alone = scorer.rank(query, store, rows=rows, **{**bm25, 'first_stage_scores': list(own)})
    np.testing.assert_allclose(alone, one, atol=1e-6)
  index = neighbors.Index.of_store(store)
  for given, message in (
    (scores[0], r'of shape \(3,\); \(2, 3\) is needed$'),
    (scores.T, r'of shape \(3, 2\); \(2, 3\) is needed$'),
    (None, r'of shape \(\); \(2, 3\) is needed$'),
    ([['a'] * 3] * 2, "could not convert string to float: 'a'$"),
  ):
    with pytest.raises(InputError, match=f'^first_stage_scores: {message}'):
      scorer.rank(queries, store, rows=rows, **{**bm25, 'first_stage_scores': given})
  for changes, message in (
    ({'rows': None}, r'first_stage_scores: of shape \(2, 3\); \(2, 4\) is needed$'),
    ({'first_stage': index, 'rows': None}, 'first_stage_scores: of given candidates; first_stage'),
    ({'first_stage_name': 'dense'}, "first stage 'dense': .* a weight for 'bm25' alone; fit one"),
    ({'first_stage_name': ''}, "first stage '': .*python -m common.rerank --fit_first_stage"),
    (
      {'first_stage_scores': [[1, 2, math.nan]] * 2},
      r'first_stage_scores\[0, 2\] is nan; each needs a finite number$',
    ),
  ):
    with pytest.raises(InputError, match=f'^{message}'):
      scorer.rank(queries, store, **{'rows': rows, **bm25, **changes})
  monkeypatch.setattr(scorer, 'first_stage_weight', None)
  with pytest.raises(InputError, match="^first stage 'bm25': the export has no weight for its "):
    scorer.rank(queries, store, rows=rows, **bm25)


@pytest.mark.parametrize('top_k', [1, 5, 9, 30, 50])
def test_the_best_of_many_blocks_are_those_of_one_sort(monkeypatch, top_k):
  monkeypatch.setattr('common.scoring.best._READ', 4)
  logits = np.random.default_rng(0).integers(0, 5, [2, 30]).astype(np.float32)  # many ties
  cuts = []
  top = best.top
  monkeypatch.setattr(best, 'top', lambda scores, k: cuts.append(len(scores)) or top(scores, k))

  def score(query, block, parts, places):
    assert (block[:, 0] == np.arange(30)[places]).all()
    found = logits[query, block[:, 0].astype(int)]
    return found, found / 10

  ranked = best.ranked(score, 2, np.arange(30.0)[:, None], top_k, None, None)
  for own, found in zip(logits, ranked, strict=True):
    order = np.argsort(-own, kind='stable')[:top_k]
    assert found == list(zip(order.tolist(), (own[order] / 10).tolist(), strict=True))
  assert sum(cuts) <= 2 * (4 * 30 + 3 * top_k)  # not all that is held, at each block


def test_parts_are_taken_at_any_stage_and_vectors_are_read_where_the_head_takes_them(
  exported, load, tmp_path, monkeypatch
):
  scorer = load(exported[0])
  store = scorer.encode_to(str(tmp_path), enumerate_ids(RIGHT), 'right')
  parts = scorer.parts(store.stored(slice(None)), 'right')
  index = neighbors.Index.of_store(store)
  expected = scorer.rank('red', store, first_stage=index)
  asked, read, stored = [], [], store.stored
  scored = scorer.one_to_many
  monkeypatch.setattr(scorer, 'one_to_many', lambda *of: asked.append(of[3]) or scored(*of))
  monkeypatch.setattr(store, 'stored', lambda rows: read.append(rows) or stored(rows))
  for stage in (None, index):
    found = scorer.rank('red', store, parts=parts, first_stage=stage)
    assert [row for row, _ in found] == [row for row, _ in expected]
    with pytest.raises(InputError, match='parts: of shape .* is needed'):
      scorer.rank('red', store, parts=parts[:2], first_stage=stage)
  assert [of.shape for of in asked] == [parts.shape] * 2
  assert len(read) == (2 if 'right' in scorer._head.inputs('of_parts') else 0)


def test_a_store_is_made_without_a_bar_where_none_is_asked_for(exported, load, tmp_path, capsys):
  scorer = load(exported[0])
  for shown in (True, False):
    scorer.encode_to(f'{tmp_path}/{shown}', enumerate_ids(RIGHT), 'right', progress=shown)
    assert ('encode right' in capsys.readouterr().err) == shown


def test_a_store_ranks_as_its_vectors_do_and_is_made_once(exported, load, tmp_path, monkeypatch):
  monkeypatch.setattr('common.scoring.best._READ', 3)
  scorer = load(exported[0])
  rows = [(f'p{i}', RIGHT[i % 4]) for i in range(10)]
  store = scorer.encode_to(str(tmp_path), rows, 'right', shard_size=4)
  products = scorer.encode([text for _, text in rows], 'right')
  np.testing.assert_allclose(store.vectors(slice(None)), products, atol=1e-5)
  ranking = scorer.rank('red', store, top_k=4)
  expected = scorer.rank('red', products, top_k=4)
  np.testing.assert_allclose([s for _, s in ranking], [s for _, s in expected], atol=1e-6)
  assert store.ids([7]) == ['p7']
  both = scorer.rank(['red', 'x'], store, top_k=4)
  for query, found in zip(['red', 'x'], both, strict=True):
    one = [score for _, score in scorer.rank(query, products, 4)]
    np.testing.assert_allclose([score for _, score in found], one, atol=1e-6)
  some = scorer.rank('red', store, rows=[9, 0, 3])
  scores = scorer.score(['red'] * 10, products)
  assert sorted(i for i, _ in some) == [0, 3, 9]
  np.testing.assert_allclose([s for _, s in some], sorted(scores[[9, 0, 3]])[::-1], atol=1e-6)
  index = neighbors.Index.of_store(store)
  assert scorer.rank('red', store, 4, first_stage=index, shortlist=10) == ranking
  short = scorer.rank(['red'], store, 10, first_stage=index, shortlist=3)[0]
  near = (
    neighbors.text_vectors(products) @ neighbors.text_vectors(scorer.encode(['red'], 'left'))[0]
  )
  assert {scores[i] for i, _ in short} <= set(scores[np.argsort(-near)[:6]])
  for asked, stage, rows_alone in (
    (products, index, None),
    (store, 'ann', None),
    (store, index, [1]),
  ):
    with pytest.raises(InputError, match=r'first_stage: neighbors.Index.of_store\(candidates\)'):
      scorer.rank('red', asked, first_stage=stage, rows=rows_alone)
  fewer = scorer.encode_to(f'{tmp_path}/fewer', rows[:3], 'right')
  with pytest.raises(InputError, match='an index of 10 texts; the store has 3: make the index'):
    scorer.rank('red', fewer, first_stage=index)

  os.remove(tmp_path / 'manifest.json')
  os.remove(tmp_path / 'vectors-00001.arrow')
  encoded = []
  monkeypatch.setattr(scorer, 'encode', lambda texts, side: encoded.append(texts) or products[:4])
  scorer.encode_to(str(tmp_path), rows, 'right', shard_size=4)
  assert [len(texts) for texts in encoded] == [4]  # the missing shard alone
  os.remove(tmp_path / 'manifest.json')
  monkeypatch.setattr(scorer._encoder, 'name', 'litert-int8')
  scorer.encode_to(str(tmp_path), rows, 'right', shard_size=4)
  assert [len(texts) for texts in encoded] == [4, 4, 4, 2]  # those of the other runtime too
  store.side = 'left'
  with pytest.raises(InputError, match='vectors of the left side, not right'):
    scorer.rank(np.zeros(scorer.vector_shapes['left']), store)
  monkeypatch.setitem(scorer.fingerprints, 'right', 'another')
  with pytest.raises(InputError, match='vectors of another encoder'):
    scorer.rank(np.zeros(scorer.vector_shapes['left']), store)


def test_rows_alone_are_read_and_what_is_read_is_checked(exported, load, tmp_path, monkeypatch):
  monkeypatch.setattr('common.scoring.best._READ', 2)
  scorer = load(exported[0])
  products = scorer.encode(RIGHT, 'right')
  store = scorer.encode_to(str(tmp_path), enumerate_ids(RIGHT), 'right')
  assert scorer.rank('red', store.stored(slice(None))) == scorer.rank('red', store)
  assert scorer.parts(store.stored(slice(0)), 'right').shape[0] == 0
  expected = scorer.rank('red', products, rows=[0, 1, 3])
  products[2] = np.nan
  assert scorer.rank('red', products, rows=[0, 1, 3]) == expected
  for some in ({}, {'rows': [3, 0, 2]}):
    with pytest.raises(InputError, match='candidates: NaN or infinity among the vectors of row 2'):
      scorer.rank('red', products, **some)


def test_deleted_rows_are_never_ranked(exported, load, tmp_path):
  scorer = load(exported[0])
  store = scorer.encode_to(str(tmp_path), [(text, text) for text in RIGHT], 'right')
  best = store.ids([row for row, _ in scorer.rank('red', store)])
  assert sorted(best) == sorted(RIGHT)
  left = store.delete([best[0], best[2]])
  for stage in (None, neighbors.Index.of_store(left)):
    assert left.ids([row for row, _ in scorer.rank('red', left, first_stage=stage)]) == best[1:4:2]


@pytest.mark.parametrize(
  ('outputs', 'call', 'message'),
  [
    (1, lambda s: s.rank(None, RIGHT), 'left texts: a list of texts is needed, not None'),
    (1, lambda s: s.rank('a', RIGHT, rows=[99]), 'candidates: no row 99; rows are 0 to 3'),
    (1, lambda s: s.score(['a'], RIGHT), 'sides of .1, 4. rows; pairs need one row on each'),
    (1, lambda s: s.score(RIGHT, ['a', None, 'b', 'c']), 'right texts, row 1: None is not a text'),
    (3, lambda s: s.rank('a', RIGHT), 'rank takes a model of two sides and one output'),
  ],
)
def test_what_does_not_fit_is_refused_before_a_text_is_encoded(
  exported, classes, load, monkeypatch, outputs, call, message
):
  scorer = load((exported if outputs == 1 else classes).folder)
  monkeypatch.setattr(scorer, '_encoder', None)
  with pytest.raises(InputError, match=f'^{message}'):
    call(scorer)


def test_a_folder_without_an_export_is_refused(tmp_path):
  with pytest.raises(InputError, match='no export there'):
    PairScorer.load(str(tmp_path))


def test_scoring_loads_no_training_code(export):
  program = (
    'import sys, dipair, dse\n'
    's, e = dipair.Scorer.load(sys.argv[1]), dse.Embedder.load(sys.argv[2])\n'
    'print(s.score(["a"], ["b"]).shape, e.score(["a"], ["b"]).shape)\n'
    'print([m for m in sys.modules if m.split(".")[0] in ("official", "tf_keras")'
    ' or m.startswith(("common.training", "common.distillation", "common.modeling"))])'
  )
  command = [sys.executable, '-c', program, export('dipair').folder, export('dse').folder]
  done = subprocess.run(command, capture_output=True, text=True, check=True)
  assert done.stdout.splitlines() == ['(1,) (1,)', '[]']


def test_scoring_without_tensorflow(export, tmp_path):
  program = """
import json, sys
sys.modules['tensorflow'] = sys.modules['absl'] = None
import dipair, dse
from common.vectors.store import VectorStore
of_runtimes = {'runtime': 'litert-int8', 'encoder_runtime': 'litert-int8'}
scorer = dipair.Scorer.load(sys.argv[1], **of_runtimes)
embedder = dse.Embedder.load(sys.argv[2], **of_runtimes)
scorer.encode_to(sys.argv[3], [('a', 'nike shoes'), ('b', 'red throw')], 'right')
ranked = scorer.rank('red', VectorStore(sys.argv[3]))
from dipair import *
from dse import *
for of in (
  *(lambda: dipair.Scorer.load(sys.argv[1]), lambda: dipair.Scorer.load(sys.argv[1], 'litert')),
  lambda: dipair.Scorer.load('gs://b/x.tar.gz', **of_runtimes),
  lambda: dipair.Scorer.load('https://x/x.tar.gz'),
  dipair.distill, distill,
):
  try:
    of()
  except dipair.InputError as error:
    print(error)
print(json.dumps([ranked, embedder.score_all_pairs(['red', 'x']).tolist()]))
"""
  folders = export('dipair').folder, export('dse').folder
  command = [sys.executable, '-c', program, *folders, str(tmp_path / 'store')]
  done = subprocess.run(command, capture_output=True, text=True, check=False)
  assert not done.returncode, done.stderr
  *refused, found = done.stdout.splitlines()
  light = "runtime='litert-int8' with encoder_runtime='litert-int8' does without TensorFlow: "
  missing = "is not installed: pip install 'dipair[train]'"
  assert refused == [
    *[f'{light}tensorflow {missing}'] * 2,
    f'gs://b/x.tar.gz: tensorflow {missing}',
    'https://x/x.tar.gz: no file system for https://; download it, or gs://',
    *[f'tensorflow {missing}'] * 2,
  ]
  ranked, scores = json.loads(found)
  scorer, embedder = (PairScorer.load(f, encoder_runtime='litert-int8') for f in folders)
  expected = dict(scorer.rank('red', ['nike shoes', 'red throw']))
  np.testing.assert_allclose([s for _, s in ranked], [expected[i] for i, _ in ranked], atol=0.03)
  pairs = [['red', 'red', 'x', 'x'], ['red', 'x'] * 2]
  np.testing.assert_allclose(np.ravel(scores), embedder.score(*pairs), atol=0.03)


def test_arguments_out_of_range_are_refused_by_name(exported, load, tmp_path):
  scorer, folder = load(exported[0]), exported[0]
  left, right = scorer.encode(LEFT, 'left'), scorer.encode(RIGHT, 'right')
  wrong = right.copy()
  wrong[2, ..., 0] = np.nan

  def nan_parts():
    parts = scorer.parts(right, 'right')
    parts[2] = np.nan
    return parts

  for call, message in (
    (lambda: PairScorer.load(folder, 'litert', threads=-1), 'threads=-1: a whole number from 0'),
    (lambda: PairScorer.load(folder, 'litert', threads=10**18), 'threads=10{18}: .* to 1,024 is'),
    (lambda: PairScorer.load(folder, 'litert', threads=1.5), 'threads=1.5: a whole number'),
    (lambda: scorer.encode(LEFT, 'left', batch_size=0), 'batch_size=0: a whole number from 1'),
    (lambda: scorer.encode(LEFT, 'left', batch_size=True), 'batch_size=True: a whole number'),
    (
      lambda: scorer.encode_to(f'{tmp_path}/x', [], 'left', shard_size=-1),
      'shard_size=-1: a whole number',
    ),
    (lambda: scorer.rank('red', right, top_k=0), 'top_k=0: a whole number from 1'),
    (lambda: scorer.rank('red', right, top_k=math.nan), 'top_k=nan: a whole number from 1'),
    (lambda: scorer.rank('red', right, rows=[0, 4]), 'candidates: no row 4; rows are 0 to 3'),
    (lambda: scorer.rank('red', right, rows=[-1]), 'candidates: no row -1'),
    (lambda: scorer.rank('red', wrong), 'candidates: NaN or infinity among the vectors of row 2'),
    (lambda: scorer.score(left, wrong), 'right: NaN or infinity among the vectors of row 2'),
    (lambda: scorer.score(left * np.inf, right), 'left: NaN or infinity among the vectors'),
    (lambda: scorer.parts(left.astype(complex), 'left'), 'left: vectors of complex.*numbers are'),
    (lambda: scorer.rank('red', right, shortlist=-1), 'shortlist=-1: a whole number from 1'),
    (lambda: scorer.rank('red', right, parts=right[:1]), r'parts: of shape .* is needed'),
    (lambda: scorer.rank('red', right, parts=nan_parts()), 'candidates: the score of row 2 is NaN'),
    (lambda: scorer.encode(LEFT, 'top'), "side='top': one of left, right"),
    (lambda: scorer.parts(right, 'middle'), "side='middle': one of left, right"),
    (lambda: scorer.score(['a']), '1 sides given; this model takes left, right'),
    (lambda: scorer.encode_to(f'{tmp_path}/x', [], 'up'), "side='up': one of left, right"),
    (lambda: scorer.score(Stored(right[:, :1], None), right), 'left: vectors of shape'),
    (lambda: PairScorer.load(None), 'folder=None: the path of a file or a folder'),
    (lambda: scorer.score(left[..., :1], right), 'left: vectors of shape .*this model has'),
  ):
    with pytest.raises(InputError, match=message):
      call()
