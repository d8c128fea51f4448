"""Nearest neighbours by FAISS: a first stage before the head, and partners for pairing."""

import hashlib
import os

import faiss
import numpy as np
from tqdm import tqdm

from common.serving.vectors import MANIFEST, VectorStore

_EXACT = 200_000  # vectors up to which the search is exact
_BLOCK = 65_536


def index_of(sample: np.ndarray, count: int) -> faiss.Index:
  """An empty index for `count` vectors by inner product: exact, or of cells for many.

  Args:
    sample: [s, d] of the vectors, which the cells are made from.
    count: How many there will be.
  """
  index = faiss.IndexFlatIP(sample.shape[1])
  if count > _EXACT:
    cells = int(4 * count**0.5)
    index = faiss.IndexIVFFlat(index, sample.shape[1], cells, faiss.METRIC_INNER_PRODUCT)
    index.train(sample[np.linspace(0, len(sample) - 1, min(len(sample), 40 * cells), dtype=int)])
    index.nprobe = 16
  return index


def pooled(vectors: np.ndarray) -> np.ndarray:
  """One vector of length 1 a text: [n, k, D] to [n, D], the mean of what is not padding."""
  if vectors.ndim == 3:
    present = np.maximum(1, vectors.any(-1).sum(-1))
    vectors = vectors.sum(1) / present[:, None]
  length = np.linalg.norm(vectors, axis=1, keepdims=True)
  return vectors / np.where(length == 0, 1, length)


def nearest(store: VectorStore, queries: np.ndarray, count: int) -> np.ndarray:
  """Rows of the store whose pooled vectors are nearest to the queries' own, nearest first.

  The index is made at the first call and kept beside the store's shards.

  Args:
    store: Of vectors from the same encoder.
    queries: [q, *vector shape].
    count: Rows a query.

  Returns:
    [q, min(count, len(store))] int64; -1 where the index found fewer.
  """
  return _index(store).search(pooled(queries), min(count, len(store)))[1]


def _index(store: VectorStore) -> faiss.Index:
  with open(os.path.join(store.folder, MANIFEST), 'rb') as file:
    version = hashlib.sha256(file.read()).hexdigest()[:12]
  path = os.path.join(store.folder, f'nearest-{version}.faiss')
  if os.path.exists(path):
    return faiss.read_index(path)
  rows = np.random.default_rng(0).permutation(len(store))[: 4 * _BLOCK]
  index = index_of(pooled(store.vectors(np.sort(rows))), len(store))
  for start in tqdm(range(0, len(store), _BLOCK), desc='index', disable=len(store) <= _BLOCK):
    index.add(pooled(store.vectors(slice(start, start + _BLOCK))))
  faiss.write_index(index, f'{path}.tmp')
  os.replace(f'{path}.tmp', path)
  return index
