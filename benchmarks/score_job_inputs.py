"""Inputs of `benchmarks.score_job`: a random export, stores of random vectors, tables of pairs.

Made once in a folder and kept: `export`, `left`, `right`, `pairs-N.parquet`.
"""

import dataclasses
import os
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from benchmarks import random_exports
from common.errors import InputError
from common.files import read_json, write_json
from common.scoring import exported
from common.vectors.writer import VectorWriter

_GROUP = 250_000  # pairs of a row group, a unit of the job, at the most; four of them at the least
_SHARD = 16_384  # vectors written at a time


@dataclasses.dataclass(frozen=True)
class Inputs:
  """The folder and its sizes."""

  folder: str
  lefts: int
  rights: int

  def path(self, name: str) -> str:
    """A file or folder of it."""
    return os.path.join(self.folder, name)

  def make(self) -> None:
    """Makes the export and its stores, unless they are there.

    Raises:
      InputError: If stores of other sizes are there.
    """
    sizes = {'lefts': self.lefts, 'rights': self.rights}
    if os.path.exists(self.path('sizes.json')):
      if read_json(self.path('sizes.json')) != sizes:
        raise InputError(f'--folder={self.folder}: has stores of other sizes; choose another')
      return
    shutil.rmtree(self.folder, ignore_errors=True)
    description = exported.describe(random_exports.dipair(self.path('export')))
    for side, rows, shape in zip(
      ('left', 'right'), sizes.values(), description['vector_shapes'], strict=True
    ):
      self._store(side, rows, shape, description['fingerprint'])
    write_json(self.path('sizes.json'), sizes)

  def pairs(self, count: int) -> str:
    """A table of `count` random pairs of ids, each once."""
    path = self.path(f'pairs-{count}.parquet')
    if os.path.exists(path):
      return path
    schema = pa.schema([('left', pa.string()), ('right', pa.string())])
    lefts, rights = self._codes(count)
    group = min(_GROUP, -(-count // 4))
    with pq.ParquetWriter(f'{path}.tmp', schema) as writer:
      for start in tqdm(range(0, count, group), desc=f'{count:,} pairs', unit=' groups'):
        rows = slice(start, start + group)
        columns = [_ids('left', lefts[rows]), _ids('right', rights[rows])]
        writer.write_table(pa.table(columns, schema=schema), row_group_size=group)
    os.replace(f'{path}.tmp', path)
    return path

  def _store(self, side: str, rows: int, shape: list[int], fingerprint: str) -> None:
    writer = VectorWriter(self.path(side), shape, 'int8', fingerprint, side)
    rng, starts = np.random.default_rng(rows), range(0, rows, _SHARD)
    for number, start in enumerate(tqdm(starts, desc=f'{side} store', unit=' shards')):
      count = min(_SHARD, rows - start)
      vectors = rng.standard_normal((count, *shape), np.float32)
      ids = _ids(side, np.arange(start, start + count))
      writer.write(number, ids, ids, vectors)
    writer.finish(len(starts))

  def _codes(self, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of both stores, random, no pair twice."""
    every = self.lefts * self.rights
    if count * 2 > every:
      raise InputError(f'--pairs={count}: more than half of {every:,} that the stores have')
    rng, codes = np.random.default_rng(count), np.zeros([0], np.int64)
    while len(codes) < count:
      codes = np.unique(np.append(codes, rng.integers(0, every, count)))
    return np.divmod(rng.permutation(codes)[:count], self.rights)


def _ids(side: str, rows: np.ndarray) -> list[str]:
  return [f'{side}-{row:08d}' for row in rows]
