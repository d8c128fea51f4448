"""Nearest neighbours by inner product: a first stage before the head, partners for pairing, mining.

FAISS (the default) or ScaNN (`pip install -e '.[scann]'`), behind one interface: an `Index` is made
from a sample, gets vectors added and is searched.
"""

import contextlib
import errno
import importlib
import os
import threading
import weakref
from typing import Any, Protocol

import numpy as np
from tqdm import tqdm

from common import digests, extras, files
from common.errors import InputError, damaged
from common.vectors.store import VectorStore

with extras.needed('', 'nearest neighbours: '):
  import faiss

LIBRARIES = ('faiss', 'scann')
_EXACT = 200_000  # vectors up to which the search is exact
_PROBES = 16  # cells at least that are searched of a larger one's
_READ = 32  # vectors in them, for each one asked for
_SAMPLE = 262_144  # vectors from which the cells of a larger one are made
_REORDERED = 200  # of ScaNN's nearest, or as many as are asked for, again with whole vectors
_BLOCK = 8192  # texts whose vectors are read at a time: 8 kB a text at 8 of 256
_MAPPED = 0 if os.name == 'nt' else faiss.IO_FLAG_MMAP  # cells stay in the file; not on Windows
_NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT)


class Index(Protocol):
  """An index of vectors: the nearest ones of a query's."""

  def search(self, queries: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Inner products [q, count] and rows [q, count], nearest first; row -1: none was found."""


class Vectors(Protocol):
  """Vectors [n, D] that may lie in a file: an array, or one that reads the rows it is asked for."""

  def __len__(self) -> int: ...

  def __getitem__(self, rows: Any, /) -> Any: ...


def index_of(vectors: Vectors) -> Index:
  """A FAISS index in memory, which holds a byte for each number where there are many vectors."""
  index = _faiss_index(vectors, len(vectors), bytes_alone=True)
  for start in range(0, len(vectors), _BLOCK):
    index.add(vectors[start : start + _BLOCK])
  return _FAISS(index)


def pooled(vectors: np.ndarray) -> np.ndarray:
  """One vector of length 1 a text: [n, k, D] to [n, D], the mean of what is not padding."""
  if vectors.ndim == 3:
    present = np.maximum(1, vectors.any(-1).sum(-1))
    vectors = vectors.sum(1) / present[:, None]
  length = np.linalg.norm(vectors, axis=1, keepdims=True)
  return vectors / np.where(length == 0, 1, length)


def nearest(store: VectorStore, queries: np.ndarray, count: int) -> np.ndarray:
  """Rows of the store whose pooled vectors are nearest to the queries' own, nearest first.

  Args:
    store: Vectors from the same encoder.
    queries: [q, *vector shape].
    count: Rows a query.

  Returns:
    [q, min(count, len(store))] int64; -1 where the index found fewer.
  """
  if not (count := min(count, len(store))):  # which FAISS does not take
    return np.zeros([len(queries), 0], np.int64)
  return open_index(store).search(pooled(queries), count)[1]


def open_index(store: VectorStore, library: str = 'faiss') -> Index:
  """The index of a store's pooled vectors.

  FAISS's is made at the first call, kept beside the store's shards until the store changes (in memory
  alone where the folder may not be written to, or has no room), and stays open as long as the store. One of many
  vectors is memory-mapped; they are in memory while it is made. ScaNN's is in memory, and made each time. A fork
  searches FAISS's on one thread.

  Args:
    store: The vectors to search.
    library: One of `LIBRARIES`.

  Raises:
    InputError: If the library is not installed.
  """
  return _SCANN(store) if library == 'scann' else _FAISS(_kept_faiss(store))


class _FAISS:
  """FAISS's index, where it has cells searched in as many as hold many times the vectors asked for."""

  def __init__(self, index: faiss.Index):
    self._index = index

  def search(self, queries: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    if not isinstance(self._index, faiss.IndexIVF):
      return self._index.search(queries, count)
    cells = self._index.nlist
    probes = max(_PROBES, -(-_READ * count * cells // self._index.ntotal))
    chosen = faiss.SearchParametersIVF(nprobe=min(cells, probes))
    return self._index.search(queries, count, params=chosen)


class _SCANN:
  """ScaNN's searcher: quantized scores, the best ones again with whole vectors."""

  def __init__(self, store: VectorStore):
    with extras.needed('scann', '--index=scann: '):
      scann: Any = importlib.import_module('scann')
    vectors = np.concatenate([*_blocks(store)])
    builder = scann.scann_ops_pybind.builder(vectors, 10, 'dot_product')
    if len(store) > _EXACT:
      leaves = int(len(store) ** 0.5)
      builder = builder.tree(leaves, max(1, leaves // 20), training_sample_size=_SAMPLE)
      builder = builder.score_ah(2, anisotropic_quantization_threshold=0.2).reorder(_REORDERED)
    else:
      builder = builder.score_brute_force()
    self._searcher = builder.build()

  def search(self, queries: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    rows, scores = self._searcher.search_batched_parallel(
      queries, final_num_neighbors=count, pre_reorder_num_neighbors=max(count, _REORDERED)
    )
    found = ~np.isnan(scores)  # for what was not, ScaNN has the first row
    return scores, np.where(found, rows.astype(np.int64), -1)


def _faiss_index(sample: Vectors, count: int, bytes_alone: bool = False) -> faiss.Index:
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


_OPEN: weakref.WeakKeyDictionary[VectorStore, faiss.Index] = weakref.WeakKeyDictionary()
_OPENING = threading.Lock()


def _start() -> None:
  """Lets a fork search: FAISS's threads, and the one that may hold the lock, do not come along."""
  global _OPENING
  _OPENING = threading.Lock()
  faiss.omp_set_num_threads(1)


if hasattr(os, 'register_at_fork'):  # as servers of several processes load first, and then fork
  os.register_at_fork(after_in_child=_start)


def _kept_faiss(store: VectorStore) -> faiss.Index:
  """A store's index, read or made once, whichever of many threads asks first."""
  if (index := _OPEN.get(store)) is None:
    with _OPENING:
      if (index := _OPEN.get(store)) is None:
        index = _OPEN[store] = _opened(store)
  return index


def _opened(store: VectorStore) -> faiss.Index:
  """Reads the index, or makes it; in memory alone where the folder holds another version by now."""
  path = os.path.join(store.folder, f'nearest-{store.version[:12]}.faiss')
  if os.path.exists(path) or store.is_current():
    try:
      return _read_or_made(store, path)
    except (InputError, FileNotFoundError):
      if store.is_current():
        raise  # else it was removed with its version
  return _built(store)


def _read_or_made(store: VectorStore, path: str) -> faiss.Index:
  """Reads the index, or makes it, whichever of many processes asks first; one that may not write keeps none."""
  if not os.path.exists(path):
    try:
      with open(f'{path}.lock', 'a', encoding='utf-8'):
        pass
    except OSError as error:
      if error.errno not in _NOT_WRITABLE:
        raise
      return _built(store)
    with files.turn(f'{path}.lock'):
      if not os.path.exists(path):
        index = _built(store)
        try:
          _write(index, path)
        except (OSError, RuntimeError):  # FAISS's own: a full disk would fail after each build
          with contextlib.suppress(OSError):
            os.remove(f'{path}.tmp')
          return index
        del index  # its copy of the vectors, before they are mapped
  remedy = 'delete it, which is made anew'
  listed = f'{path}.json'
  if os.path.exists(listed):  # not of an index from before
    digests.check_entry(path, files.read_json(listed, remedy), remedy)
  with damaged(path, remedy):
    index = faiss.read_index(path, _MAPPED)
    if index.ntotal != len(store):
      raise ValueError(f'{index.ntotal} vectors of {len(store)}')
  if _MAPPED and isinstance(index, faiss.IndexIVF):
    lists = faiss.downcast_InvertedLists(index.invlists)
    lists.prefetch_nthread = 0  # threads that each search would start, for more time than one takes
  return index


def _built(store: VectorStore) -> faiss.Index:
  count = _SAMPLE if len(store) > _EXACT else 1  # an exact index takes the width alone
  rows = np.sort(np.random.default_rng(0).permutation(len(store))[:count])
  parts = np.split(rows, range(_BLOCK, len(rows), _BLOCK))
  sample = np.concatenate([pooled(store.vectors(part)) for part in parts])
  index = _faiss_index(sample, len(store))
  for block in _blocks(store):
    index.add(block)
  return index


def _write(index: faiss.Index, path: str) -> None:
  with files.whole(path) as temporary:
    faiss.write_index(index, temporary)
    files.write_json(f'{path}.json', digests.of(temporary), sealed=True)


def _blocks(store: VectorStore):
  """Pooled vectors, block by block."""
  for start in tqdm(range(0, len(store), _BLOCK), desc='index', disable=len(store) <= 8 * _BLOCK):
    yield pooled(store.vectors(slice(start, start + _BLOCK)))
