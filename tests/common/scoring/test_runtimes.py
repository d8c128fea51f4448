"""Every runtime gives one runtime's scores, at any number of pairs and from any thread."""

import functools
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf

from common.errors import InputError
from common.scoring import litert, litert_head, runtimes
from common.scoring.exported import Export
from common.scoring.runtime import HeadFunction
from common.scoring.scorer import PairScorer
from tests.conftest import ENCODES_LITTLE, ROOT, TERMS, TWO_DEPTHS


@pytest.fixture(name='scorer_of', scope='module')
def _scorer_of(export):
  """A function (head, runtime) to a scorer of an export, without its encoder."""
  students = {'dse': ('dse', {}), 'transformer': ('dipair', {}), 'ffnn': ('dipair', TWO_DEPTHS)}

  @functools.cache
  def scorer_of(head, runtime):
    kind, changes = students.get(head, ('dipair', {'head': head, **ENCODES_LITTLE}))
    there = Export(export(kind, **changes).folder)
    return PairScorer(there, None, runtimes.load_head(there, runtime))

  return scorer_of


@pytest.mark.parametrize('runtime', runtimes.RUNTIMES)
@pytest.mark.parametrize(
  'student', ['transformer', 'ffnn', 'lite', 'max_sim', 'poly_encoder', 'dse']
)
def test_every_runtime_scores_alike_at_every_number_of_pairs(scorer_of, student, runtime):
  plain, scorer = scorer_of(student, 'tensorflow'), scorer_of(student, runtime)
  shapes = scorer.vector_shapes.values()
  rng = np.random.default_rng(0)
  for rows in (1, 2, 257):
    left, right = (rng.normal(size=(rows, *shape)).astype(np.float32) for shape in shapes)
    right[0, 2:] = 0  # a padded position
    exact = plain.score(left, right)
    atol = 3e-2 if runtime == 'litert-int8' else 1e-5
    np.testing.assert_allclose(scorer.score(left, right), exact, atol=atol)
    for parts in (None, plain.parts(right, 'right')):
      ranked = dict(scorer.rank(left[0], right, rows, parts=parts))
      expected = plain.score(np.repeat(left[:1], rows, 0), right)
      np.testing.assert_allclose([ranked[i] for i in range(rows)], expected, atol=atol)
    halves = plain.parts(right, 'right').astype(np.float16)
    np.testing.assert_allclose(
      [score for _, score in sorted(scorer.rank(left[0], right, rows, parts=halves))],
      expected,
      atol=atol + 4e-3,
    )
  assert np.ptp(exact) > 0.01
  inputs = dict(zip(scorer.slots, (left[:2], right[:3]), strict=True))
  with pytest.raises(InputError, match='^left: 2 rows; another input has 3$'):
    scorer._head.run('serving_default', inputs)


@pytest.mark.parametrize(('width', 'rows'), [(4000, 32), (1, 256), (10**6, 16)])
def test_a_calls_largest_tensor_stays_under_a_mebibyte(width, rows):
  def function(x):
    return {'score': tf.reduce_sum(tf.reshape(tf.repeat(x, 2, axis=1), [-1, width, 2]), [1, 2])}

  assert litert_head.rows_of_call(HeadFunction(function, {'x': [width]})) == rows  # 8 bytes a unit


@pytest.mark.parametrize('runtime', sorted(runtimes.RUNTIMES.keys() - {'tensorflow'}))
def test_every_runtime_encodes_alike_at_every_number_of_texts(exported, load, runtime):
  plain, scorer = load(exported.folder), load(exported.folder, encoder_runtime=runtime)
  texts = [
    '',
    '½ ™ ß',
    'shoes',
    b'black \xff',
    'word ' * 600,
    *(f'{t} {i}' for t in TERMS for i in range(9)),
  ]
  for side in scorer.slots:
    for rows in (1, 2, 8, len(texts)):
      vectors, exact = scorer.encode(texts[-rows:], side), plain.encode(texts[-rows:], side)
      np.testing.assert_array_equal(vectors.any(-1), exact.any(-1))  # padding stays all-zero
      atol = 0.06 if runtime == 'litert-int8' else 2e-5
      np.testing.assert_allclose(vectors, exact, atol=atol)
    assert np.ptp(exact) > 1
    for one in (plain, scorer):
      assert one.encode([], side).shape == (0, *one.vector_shapes[side])


def test_callers_on_several_threads_get_their_own_scores(exported):
  scorer, rng = PairScorer.load(exported[0], 'litert', threads=2), np.random.default_rng(0)
  sides = [
    [rng.normal(size=(640, *scorer.vector_shapes[slot])).astype(np.float32) for _ in range(8)]
    for slot in scorer.slots
  ]
  alone = [scorer.score(*pair) for pair in zip(*sides, strict=True)]
  with ThreadPoolExecutor(8) as pool:
    together = list(pool.map(scorer.score, *sides))
  np.testing.assert_array_equal(together, alone)


def test_a_runtime_that_is_not_there_is_refused(exported, tmp_path):
  with pytest.raises(InputError, match="runtime='gpu': one of tensorflow, litert"):
    PairScorer.load(exported[0], 'gpu')
  message = "threads=2 has no effect on runtime='tensorflow' with encoder_runtime='tensorflow'; "
  with pytest.raises(InputError, match=f'^{message}choose a LiteRT'):
    PairScorer.load(exported[0], 'tensorflow', threads=2)
  with pytest.raises(InputError, match="encoder_runtime='gpu': one of tensorflow, litert"):
    PairScorer.load(exported[0], encoder_runtime='gpu')
  with pytest.raises(InputError, match='^gs://b/int8.tflite: LiteRT needs a folder of this machi'):
    litert.Interpreters('gs://b/int8.tflite')
  for name in ('encoder', 'head', 'scorer.json'):
    os.symlink(os.path.join(exported[0], name), tmp_path / name)
  for what in ('runtime', 'encoder_runtime'):
    with pytest.raises(InputError, match='int8.tflite is not there; export the run anew'):
      PairScorer.load(str(tmp_path), **{what: 'litert-int8'})


def test_an_export_is_its_version_1_whatever_lies_beside_it(export, load, tmp_path):
  folder = export('dipair').folder
  other = export('dipair', **TWO_DEPTHS).folder
  for part in os.listdir(folder):
    os.symlink(os.path.join(folder, part), tmp_path / part)
  for form in ('encoder', 'head'):
    os.remove(tmp_path / form)
    (tmp_path / form).mkdir()
    for number, of in (('1', folder), ('2', other)):
      os.symlink(os.path.join(of, form, '1'), tmp_path / form / number)
  beside, alone = PairScorer.load(str(tmp_path)), load(folder)
  np.testing.assert_allclose(beside.score(TERMS, TERMS), alone.score(TERMS, TERMS), atol=1e-6)


def test_an_interrupted_call_leaves_no_thread_at_work():
  interpreters, done = litert.Interpreters.__new__(litert.Interpreters), []
  interpreters._runners, interpreters._lock = [{}, {}], threading.Lock()
  interpreters._pool = ThreadPoolExecutor(2)

  def function(runners, item):
    if not item:
      raise KeyboardInterrupt
    time.sleep(0.01)
    done.append(item)

  with pytest.raises(KeyboardInterrupt):
    interpreters.map(function, range(100))
  count = len(done)
  time.sleep(0.1)
  assert len(done) == count < 99


def test_where_the_system_does_not_tell_a_process_cores_all_are_taken(monkeypatch):
  monkeypatch.delattr(os, 'sched_getaffinity')  # macOS
  assert litert.cores() == os.cpu_count()


def test_threads_are_of_what_takes_them_and_no_more_than_16_unless_asked_for(exported, monkeypatch):
  scorer = PairScorer.load(exported.folder, encoder_runtime='litert-int8', threads=2)
  assert len(scorer._encoder._functions._interpreters._runners) == 2
  monkeypatch.setattr(litert, 'cores', lambda: 64)
  for threads, interpreters in ((0, 16), (17, 17)):
    head = runtimes.load_head(Export(exported.folder), 'litert-int8', threads)
    assert len(head._interpreters._runners) == interpreters


def test_two_threads_of_a_model_encode_alike(exported):
  texts = ['', 'red', 'wide red boots'] * 7
  export = Export(exported.folder)
  alone, pair = (
    PairScorer(
      export,
      runtimes.load_encoder(export, 'litert-int8', 3, paired=paired),
      runtimes.load_head(export, 'litert'),
    )
    for paired in (False, True)
  )
  assert len(pair._encoder._functions._interpreters._interpreters) == 2
  np.testing.assert_array_equal(alone.encode(texts, 'right'), pair.encode(texts, 'right'))


_FORKED = """
import os, sys
sys.modules['tensorflow'] = None  # nothing may import it
from common.scoring.scorer import PairScorer
scorer = PairScorer.load(sys.argv[1], 'litert-int8', encoder_runtime='litert-int8', threads=2)
texts = ['red', 'wide red boots'] * 40
expected = scorer.score(texts, texts)
if child := os.fork():
  sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
os._exit(0 if (scorer.score(texts, texts) == expected).all() else 3)
"""


def test_a_fork_of_a_process_that_has_scored_scores_too(export):
  command = [sys.executable, '-c', _FORKED, export('dipair').folder]
  assert subprocess.run(command, cwd=ROOT, timeout=60, check=False).returncode == 0
