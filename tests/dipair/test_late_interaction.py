"""One query with many stored texts, by inner products: LITE and MaxSim against slow versions."""

import numpy as np
import pytest

from common.scoring import products
from common.scoring.exported import OF_PRODUCTS
from common.vectors.values import Stored
from common.vectors.writer import VectorWriter
from dipair.scorer import Scorer
from tests.conftest import ENCODES_LITTLE
from tests.dipair.test_heads import slow_lite, slow_similarity

ROWS = 300  # more than a call of LiteRT takes


def slow_score(head, left, right):
  """One pair's score, token by token."""
  if head.name == 'lite_head':
    (logit,) = slow_lite(head, left, right)
  else:
    similarity = slow_similarity('max_sim', head, left, right)
    (logit,) = similarity * head.scale.numpy() + head.bias.numpy()
  return 1 / (1 + np.exp(-logit))


@pytest.mark.parametrize('head', ['max_sim', 'lite'])
def test_a_store_is_ranked_as_the_slow_version_ranks_it(export, head, tmp_path, monkeypatch):
  monkeypatch.setattr(products, '_MULTIPLICATIONS', 5 * 3 * 8)  # five tokens a product
  monkeypatch.setattr(products, '_BLOCK_BYTES', 4 * 3 * 5 * 8)  # three products a block
  exported, rng = export('dipair', head=head, **ENCODES_LITTLE), np.random.default_rng(6)
  query, right = rng.normal(size=(3, 8)), rng.normal(size=(ROWS, 4, 8))
  right[3:] -= 3 * query[0]  # most cosines are below 0, an absent token's
  query[2] = right[0, 2:] = right[1, 0] = right[2] = 0
  query, right = query.astype(np.float32), right.astype(np.float32)
  scorers = [Scorer.load(exported.folder, name) for name in ('litert', 'litert-int8', 'litert')]
  older = scorers[-1]._head._interpreters
  del older.inputs[OF_PRODUCTS]  # an export of before has none
  for dtype in ('int8', 'float16', 'float32'):
    store = VectorWriter(
      str(tmp_path / dtype), (4, 8), dtype, scorers[0].fingerprint, 'right'
    ).fill(((str(row), str(row)) for row in range(ROWS)), lambda texts: right[[*map(int, texts)]])
    expected = [slow_score(exported.model.head, query, y) for y in store.vectors(slice(None))]
    for scorer in scorers:
      ranked = dict(scorer.rank(query, store, ROWS))
      np.testing.assert_allclose([ranked[row] for row in range(ROWS)], expected, atol=1e-5)
      for row in (0, 299):  # alone
        (found,) = scorer.rank(query, store, rows=[row])
        np.testing.assert_allclose(found, (row, expected[row]), atol=1e-5)
      assert scorer.rank(query, store, rows=[]) == []
  assert np.ptp(expected) > 0.05


def test_products_of_stored_vectors_by_hand():
  values = np.array([[[1, 2], [0, 0]], [[-3, 4], [127, 1]]], np.int8)
  stored = Stored(values, np.array([[0.5, 0], [1, 2]], np.float32))
  left = np.array([[1, 0], [1, 1], [0, -1]], np.float32)
  inner, squares = products.products(left, stored)
  assert inner.tolist() == [[[0.5, 1.5, -1], [0, 0, 0]], [[-3, 1, -4], [254, 256, -2]]]
  assert squares.tolist() == [[1.25, 0], [25, 4 * (127**2 + 1)]]
  assert [found.shape for found in products.products(left, values[:0])] == [(0, 2, 3), (0, 2)]
