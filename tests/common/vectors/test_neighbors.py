"""Both libraries find what a product of matrices finds."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from common.vectors import neighbors
from common.vectors.writer import VectorWriter


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
