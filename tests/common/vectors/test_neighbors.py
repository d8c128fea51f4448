"""An index finds the nearest of all, is made in bounded memory, and kept in a file."""

import numpy as np
import pytest

from common.errors import InputError
from common.vectors import neighbors
from common.vectors.neighbors import Index
from common.vectors.store import VectorStore
from common.vectors.writer import VectorWriter


def store(folder, vectors):
  writer = VectorWriter(str(folder), vectors.shape[1:], 'float32', 'f', 'right')
  ids = [str(i) for i in range(len(vectors))]
  writer.write(0, ids, ids, vectors)
  return writer.finish(1)


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
  assert len(Index.of_store(made)) == 1000
  assert (max(counts), sum(counts)) == (64, read)


def test_an_index_is_opened_from_its_file_as_long_as_the_store_is_the_same(tmp_path, monkeypatch):
  made, path = store(tmp_path / 'store', np.eye(8, dtype=np.float32)), str(tmp_path / 'i.faiss')
  assert Index.of_store(made, path).nearest(np.eye(8)[[5]], 1).tolist() == [[5]]
  monkeypatch.delattr(neighbors, '_made')
  again = Index.of_store(VectorStore(made.folder), path)
  assert again.nearest(np.eye(8)[[2, 5]], 1).tolist() == [[2], [5]]
  monkeypatch.undo()
  changed = made.delete(['0'])
  assert Index.of_store(changed, path).nearest(np.eye(8)[[5]], 1).tolist() == [[4]]
  assert Index.of_store(made, path).nearest(np.eye(8)[[5]], 1).tolist() == [[5]]
  assert sorted(file.name for file in tmp_path.iterdir()) == ['i.faiss', 'store']


def test_an_index_that_the_disk_has_no_room_for_leaves_no_file(tmp_path, monkeypatch):
  made, path = store(tmp_path / 'store', np.eye(8, dtype=np.float32)), tmp_path / 'i.faiss'

  def full(index, path):
    raise RuntimeError('write error: No space left on device')

  monkeypatch.setattr(neighbors.faiss, 'write_index', full)
  with pytest.raises(RuntimeError, match='No space left'):
    Index.of_store(made, str(path))
  assert not path.exists()
  with pytest.raises(InputError, match='^path=.*/none/i.faiss: there is no folder .*/none$'):
    Index.of_store(made, str(tmp_path / 'none' / 'i.faiss'))


def test_the_cells_of_an_index_of_many_vectors_stay_in_its_file(tmp_path, monkeypatch):
  monkeypatch.setattr(neighbors, '_EXACT', 100)
  made = store(tmp_path / 'store', np.random.default_rng(0).normal(size=[1000, 8]).astype('f'))
  for _ in range(2):  # made, then opened
    index = Index.of_store(made, str(tmp_path / 'i.faiss'))._index
    lists = neighbors.faiss.downcast_InvertedLists(index.invlists)
    assert isinstance(lists, neighbors.faiss.OnDiskInvertedLists)


def test_an_index_in_memory_of_many_vectors_holds_a_byte_a_number(monkeypatch):
  vectors = neighbors.text_vectors(np.random.default_rng(0).normal(size=[1000, 8]).astype('f'))
  monkeypatch.setattr(neighbors, '_EXACT', 100)
  monkeypatch.setattr(neighbors, '_PROBES', 1000)
  monkeypatch.setattr(neighbors, '_BLOCK', 64)
  index = Index.of(vectors)
  assert index._index.code_size == 8
  assert (index.search(vectors, 1)[1][:, 0] == np.arange(1000)).mean() > 0.95


@pytest.mark.parametrize('exact', [True, False])
@pytest.mark.parametrize('name', ['', 'i.faiss'])
def test_the_nearest_are_those_of_a_product_of_matrices(tmp_path, monkeypatch, exact, name):
  rng = np.random.default_rng(0)
  vectors, queries = (neighbors.text_vectors(rng.normal(size=[n, 8])) for n in (4000, 20))
  monkeypatch.setattr(neighbors, '_EXACT', 10_000 if exact else 100)
  made = store(tmp_path / 'store', vectors.astype(np.float32))
  index = Index.of_store(made, str(tmp_path / name) if name else '')
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
  assert (rows >= 0).all()
  assert all(len({*of_query}) == 3000 for of_query in rows)  # no text twice
  np.testing.assert_allclose(scores, np.take_along_axis(inner, rows, 1), atol=1e-5)
