"""A store's ids and vectors as a Parquet file, which search engines and data frames read."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tqdm import tqdm

from common import files
from common.errors import InputError, check_parent, local_path
from common.vectors.arrow import lists, pyarrow
from common.vectors.values import Stored, finite

Transform = Callable[[np.ndarray], np.ndarray]
_BLOCK = 8192  # rows read at a time, and of a row group
_DELAY = 2  # seconds before there is a bar


def write(
  path: str,
  count: int,
  read: Callable[[np.ndarray], tuple[list[str], Stored]],
  transform: Transform | None = None,
) -> None:
  """Writes a store, whole or not at all; `VectorStore.to_parquet` says which columns.

  Args:
    path: The file.
    count: The store's rows.
    read: Ids and vectors of some rows.
    transform: As for `to_parquet`.
  """
  check_parent(path := local_path(path, 'path'), 'path')
  arrow = pyarrow()
  from pyarrow import parquet

  with files.whole(path) as temporary, tqdm(desc='parquet', total=count, delay=_DELAY) as bar:
    writer = None
    try:
      for start in range(0, max(1, count), _BLOCK):  # an empty store has columns too
        rows = np.arange(start, min(start + _BLOCK, count))
        ids, stored = read(rows)
        stored = _written(stored, rows, transform)
        columns = {'id': arrow.array(ids, arrow.string()), 'vectors': lists(stored.values)}
        if stored.scale is not None:
          columns['scale'] = lists(stored.scale)
        table = arrow.table(columns)
        writer = writer or parquet.ParquetWriter(temporary, table.schema, write_page_checksum=True)
        writer.write_table(table)
        bar.update(len(rows))
    finally:
      if writer:
        writer.close()


def _written(stored: Stored, rows: np.ndarray, transform: Transform | None) -> Stored:
  """Rows as they are written."""
  if transform is None:
    return Stored(stored[:], None) if stored.values.dtype == np.float16 else stored
  found = np.asarray(transform(stored[:]))
  if found.ndim < 2 or len(found) != len(rows):
    raise InputError(
      f'transform: gave an array of shape {found.shape} for {len(rows)} rows; '
      'vectors are needed, one a row or more'
    )
  return Stored(finite(found, 'transform', rows), None)
