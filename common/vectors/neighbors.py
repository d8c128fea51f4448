"""Nearest neighbours by inner product (FAISS): a first stage before the head, pairing, mining."""

import os
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from tqdm import tqdm

from common import extras, files
from common.errors import check_parent
from common.vectors.store import VectorStore

with extras.needed('store', 'nearest neighbours: '):
  import faiss

_EXACT = 200_000  # vectors up to which the search is exact
_PROBES = 16  # cells at least that are searched of a larger one's
_READ = 32  # vectors in them, for each one asked for
_SAMPLE = 262_144  # vectors from which the cells of a larger one are made
_BLOCK = 8192  # texts whose vectors are read at a time: 8 kB a text at 8 of 256
_MAPPED = 0 if os.name == 'nt' else faiss.IO_FLAG_MMAP  # cells stay in the file; not on Windows


class Vectors(Protocol):
  """Vectors [n, D] that may lie in a file: an array, or one that reads the rows it is asked for."""

  def __len__(self) -> int: ...

  def __getitem__(self, rows: Any, /) -> Any: ...


class Index:
  """An index of vectors: exact up to 200,000; for more, it searches some of its cells.

  Example:
    index = Index.of_store(store, 'products.faiss')
    scorer.rank('nike shoes', store, first_stage=index, shortlist=1000)
  """

  def __init__(self, index: faiss.Index):
    self._index = index

  @classmethod
  def of(cls, vectors: Vectors) -> 'Index':
    """An index in memory; it holds a byte for each number where there are many vectors."""
    index = _empty(vectors, len(vectors), bytes_alone=True)
    for start in range(0, len(vectors), _BLOCK):
      index.add(vectors[start : start + _BLOCK])
    return cls(index)

  @classmethod
  def of_store(cls, store: VectorStore, path: str = '') -> 'Index':
    """The index of a store's texts, a vector each.

    Args:
      store: The store.
      path: A file. The index is opened from it, memory-mapped, where it holds this version of the
        store; else it is made and saved there. Empty: the index is made and stays in memory.
    """
    if not path:
      return cls(_made(store))
    check_parent(path, 'path')
    if not os.path.exists(path) or _saved_version(path) != store.version:
      with files.whole(path) as temporary:
        faiss.write_index(_made(store), temporary)
        with open(temporary, 'ab') as file:
          file.write(store.version.encode())  # after FAISS's own bytes, which do not miss it
    index = faiss.read_index(path, _MAPPED)
    if _MAPPED and isinstance(index, faiss.IndexIVF):
      lists = faiss.downcast_InvertedLists(index.invlists)
      lists.prefetch_nthread = 0  # threads that each search would start: more time than one takes
    return cls(index)

  def __len__(self) -> int:
    return self._index.ntotal

  def search(self, queries: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Inner products [q, count] and rows [q, count], nearest first; row -1: none was found.

    Of cells, as many are searched as hold many times the vectors asked for.
    """
    if not isinstance(self._index, faiss.IndexIVF):
      return self._index.search(queries, count)
    cells = self._index.nlist
    probes = max(_PROBES, -(-_READ * count * cells // self._index.ntotal))
    chosen = faiss.SearchParametersIVF(nprobe=min(cells, probes))
    return self._index.search(queries, count, params=chosen)

  def nearest(self, queries: np.ndarray, count: int) -> np.ndarray:
    """Rows of a store by nearness of their texts to the queries, nearest first.

    Args:
      queries: [q, *vector shape].
      count: Rows a query.

    Returns:
      [q, min(count, vectors)] int64; -1 where the index found fewer.
    """
    if not (count := min(count, len(self))):  # which FAISS does not take
      return np.zeros([len(queries), 0], np.int64)
    return self.search(text_vectors(queries), count)[1]


def text_vectors(vectors: np.ndarray) -> np.ndarray:
  """Unit vector of each text: its first, which is the mean of all or [CLS], [n, k, D] to [n, D]."""
  vectors = vectors[:, 0] if vectors.ndim == 3 else vectors
  length = np.linalg.norm(vectors, axis=1, keepdims=True)
  return vectors / np.where(length == 0, 1, length)


def _saved_version(path: str) -> str:
  """Version of the store that an index file belongs to: the file's last bytes."""
  with open(path, 'rb') as file:
    file.seek(max(0, os.path.getsize(path) - 64))
    return file.read().decode('latin-1')


def _made(store: VectorStore) -> faiss.Index:
  """The index of a store, in memory; vectors are read a block at a time."""
  count = _SAMPLE if len(store) > _EXACT else 1  # an exact index takes the width alone
  rows = np.sort(np.random.default_rng(0).permutation(len(store))[:count])
  parts = np.split(rows, range(_BLOCK, len(rows), _BLOCK))
  sample = np.concatenate([text_vectors(store.vectors(part)) for part in parts])
  index = _empty(sample, len(store))
  for block in _blocks(store):
    index.add(block)
  return index


def _blocks(store: VectorStore) -> Iterator[np.ndarray]:
  """A vector of each text, block by block."""
  for start in tqdm(range(0, len(store), _BLOCK), desc='index', disable=len(store) <= 8 * _BLOCK):
    yield text_vectors(store.vectors(slice(start, start + _BLOCK)))


def _empty(sample: Vectors, count: int, bytes_alone: bool = False) -> faiss.Index:
  """An empty index for `count` vectors: exact, or of cells (made from a sample) for many.

  Args:
    sample: Some of the vectors, or all.
    count: Vectors to be added.
    bytes_alone: Whether cells hold numbers as bytes, and not as floats.
  """
  dim = sample[:1].shape[1]
  index = faiss.IndexFlatIP(dim)
  if count > _EXACT:
    cells, metric = int(4 * count**0.5), faiss.METRIC_INNER_PRODUCT
    if bytes_alone:
      of_byte = faiss.ScalarQuantizer.QT_8bit
      index = faiss.IndexIVFScalarQuantizer(index, dim, cells, of_byte, metric)
    else:
      index = faiss.IndexIVFFlat(index, dim, cells, metric)
    index.train(sample[np.linspace(0, len(sample) - 1, min(len(sample), 40 * cells), dtype=int)])
  return index
