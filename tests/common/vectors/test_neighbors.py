"""Both libraries find what a product of matrices finds, from threads, in forks, of folders that are read alone."""

import builtins
import errno
import os
import pathlib
import signal
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from common.vectors import neighbors
from common.vectors.store import VectorStore
from common.vectors.writer import VectorWriter
from tests import forks, limits


def store(folder, vectors):
  writer = VectorWriter(str(folder), vectors.shape[1:], 'float32', 'f', 'right')
  ids = [str(i) for i in range(len(vectors))]
  writer.write(0, ids, ids, vectors)
  return writer.finish(1)


def test_many_threads_share_one_index_which_stays_open(tmp_path):
  made = store(tmp_path, np.eye(8, dtype=np.float32))
  with ThreadPoolExecutor(8) as pool:
    rows = list(
      pool.map(lambda i: neighbors.nearest(made, np.eye(8)[i : i + 1], 1)[0, 0], range(8))
    )
  assert rows == [*range(8)]
  (kept,) = tmp_path.glob('nearest-*.faiss')
  kept.unlink()  # nobody reads it again
  assert neighbors.nearest(made, np.eye(8)[:1], 1).tolist() == [[0]]


def test_a_fork_of_a_process_that_has_searched_searches_too(tmp_path):
  rng = np.random.default_rng(0)
  queries, vectors = (rng.normal(size=[n, 64]).astype(np.float32) for n in (40, 2000))
  made = store(tmp_path, vectors)
  expected = neighbors.nearest(made, queries, 50)  # on all of FAISS's threads

  def search():
    signal.alarm(int(limits.ANSWER))  # a search that waits for them is killed
    for again in (made, VectorStore(made.folder)):
      np.testing.assert_array_equal(neighbors.nearest(again, queries, 50), expected)

  with neighbors._OPENING:  # as another thread may hold it
    if not (child := os.fork()):
      forks.end(search)
  assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize('reason', [errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO])
def test_the_index_of_a_folder_that_may_not_be_written_to_is_in_memory(
  tmp_path, monkeypatch, reason
):
  made, opened = store(tmp_path, np.eye(8, dtype=np.float32)), builtins.open

  def refused(path, mode='r', **of):
    if mode[0] in 'aw' and str(path).startswith(str(tmp_path)):
      raise OSError(reason, os.strerror(reason), path)
    return opened(path, mode, **of)

  monkeypatch.setattr(builtins, 'open', refused)
  if reason == errno.EIO:
    with pytest.raises(OSError, match='Input/output error'):
      neighbors.nearest(made, np.eye(8)[:1], 1)
  else:
    assert neighbors.nearest(made, np.eye(8)[:1], 1).tolist() == [[0]]
  assert not [*tmp_path.glob('nearest-*')]


def test_an_index_that_the_disk_has_no_room_for_is_made_once_and_in_memory(tmp_path, monkeypatch):
  made = store(tmp_path, np.eye(8, dtype=np.float32))

  def full(index, path):
    pathlib.Path(path).write_bytes(b'half')
    raise RuntimeError('write error: No space left on device')

  monkeypatch.setattr(neighbors.faiss, 'write_index', full)
  assert neighbors.nearest(made, np.eye(8)[2:3], 1).tolist() == [[2]]
  monkeypatch.delattr(neighbors, '_built')
  assert neighbors.nearest(made, np.eye(8)[3:4], 1).tolist() == [[3]]
  assert [path.suffix for path in tmp_path.glob('nearest-*')] == ['.lock']


@pytest.mark.parametrize(('exact', 'read'), [(True, 1001), (False, 2000)])
def test_an_index_is_made_of_few_vectors_at_a_time(tmp_path, monkeypatch, exact, read):
  made, counts = store(tmp_path, np.random.default_rng(0).normal(size=[1000, 8]).astype('f')), []
  monkeypatch.setattr(neighbors, '_EXACT', 1000 if exact else 100)
  monkeypatch.setattr(neighbors, '_BLOCK', 64)
  vectors = made.vectors

  def counted(rows):
    counts.append(len(found := vectors(rows)))
    return found

  monkeypatch.setattr(made, 'vectors', counted)
  assert neighbors._kept_faiss(made).ntotal == 1000
  assert (max(counts), sum(counts)) == (64, read)


def test_the_cells_of_an_index_of_many_vectors_stay_in_its_file(tmp_path, monkeypatch):
  monkeypatch.setattr(neighbors, '_EXACT', 100)
  made = store(tmp_path, np.random.default_rng(0).normal(size=[1000, 8]).astype('f'))
  for opened in (made, VectorStore(made.folder)):  # which makes it, and which reads it
    lists = neighbors.faiss.downcast_InvertedLists(neighbors._kept_faiss(opened).invlists)
    assert isinstance(lists, neighbors.faiss.OnDiskInvertedLists)


def test_an_index_in_memory_of_many_vectors_holds_a_byte_a_number(monkeypatch):
  vectors = neighbors.pooled(np.random.default_rng(0).normal(size=[1000, 8]).astype('f'))
  monkeypatch.setattr(neighbors, '_EXACT', 100)
  monkeypatch.setattr(neighbors, '_PROBES', 1000)
  monkeypatch.setattr(neighbors, '_BLOCK', 64)
  index = neighbors.index_of(vectors)
  assert index._index.code_size == 8
  assert (index.search(vectors, 1)[1][:, 0] == np.arange(1000)).mean() > 0.95


@pytest.mark.parametrize('library', neighbors.LIBRARIES)
@pytest.mark.parametrize('exact', [True, False])
def test_nearest(tmp_path, monkeypatch, library, exact):
  rng = np.random.default_rng(0)
  vectors, queries = (neighbors.pooled(rng.normal(size=[n, 8])) for n in (4000, 20))
  monkeypatch.setattr(neighbors, '_EXACT', 10_000 if exact else 100)
  index = neighbors.open_index(store(tmp_path, vectors.astype(np.float32)), library)
  scores, rows = index.search(queries.astype(np.float32), 10)
  inner = queries @ vectors.T
  np.testing.assert_allclose(scores, np.take_along_axis(inner, rows, 1), atol=1e-5)
  expected = np.argsort(-inner, 1)[:, :10]
  if exact:
    np.testing.assert_array_equal(rows, expected)
  else:
    found = [len({*a} & {*b}) / 10 for a, b in zip(rows, expected, strict=True)]
    assert np.mean(found) > 0.5
  scores, rows = index.search(queries.astype(np.float32), 3000)
  there = rows >= 0
  assert there.all() if library == 'faiss' else there.sum(1).max() > neighbors._REORDERED
  for of_query, has in zip(rows, there, strict=True):
    assert len({*of_query[has]}) == has.sum()  # no text twice
  np.testing.assert_allclose(
    scores[there], np.take_along_axis(inner, rows.clip(0), 1)[there], atol=1e-5
  )
