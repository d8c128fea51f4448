"""Cells that hold vectors of floats in place of texts: an image's embedding, a user's.

Dimensions: n vectors, w their width.
"""

import io
import os
from collections.abc import Callable, Sequence

import numpy as np

from common import files
from common.errors import InputError

_KIND = '.npy'


def parse(flag: str) -> tuple[str, str]:
  """(column, file) of one of `--vector_columns`; the file is empty where cells hold the numbers."""
  column, _, path = flag.partition(':')
  if not column or (path and not path.endswith(_KIND)):
    raise InputError(f'--vector_columns={flag}: COLUMN, or COLUMN:FILE{_KIND}, is needed')
  return column, path


def ids_path(path: str) -> str:
  """The text file beside a `.npy` file that names its rows, a line each."""
  return path.removesuffix(_KIND) + '.txt'


def numbers_of(cell: str) -> list[str]:
  """The numbers that a cell holds, with spaces or commas between, in [ ] or not."""
  return cell.strip().strip('[]').replace(',', ' ').split()


def of_cell(cell: str, where: str) -> np.ndarray:
  """The vector [w] float32 that a cell holds, as of `numbers_of`.

  Raises:
    InputError: If there are none, or one is not finite; begins with `where`.
  """
  try:
    if '_' in cell:  # NumPy takes 1_0 for 10
      raise ValueError(f'{cell!r} has a _')
    vector = np.array(numbers_of(cell), np.float32)
  except ValueError as error:
    raise InputError(f'{where}: no vector of numbers: {error}') from error
  return checked(vector, where)


def checked(vector: np.ndarray, where: str) -> np.ndarray:
  """A vector [w] of finite floats; raises InputError, which begins with `where`, if it is none."""
  if vector.ndim != 1 or not len(vector):
    raise InputError(f'{where}: a vector of numbers is needed, and this holds none')
  if not np.isfinite(vector).all():
    raise InputError(f'{where}: a vector of numbers that are not all finite')
  return vector


def of_cells(
  cells: Sequence[str], width: int, where: Sequence[str], refuse: Callable[[str, str, str], None]
) -> dict[int, np.ndarray]:
  """{row: vector} of the cells that hold one of a width; the others go to `refuse`.

  Args:
    cells: As for `of_cell`.
    width: w.
    where: Place of each.
    refuse: Takes the place, the reason and the cell.
  """
  found = {}
  for row, (cell, place) in enumerate(zip(cells, where, strict=True)):
    try:
      vector = of_cell(cell, 'not taken')
      if len(vector) != width:
        raise InputError(f'a vector of {len(vector)} numbers; this model takes {width}')
    except InputError as error:
      refuse(place, str(error).removeprefix('not taken: '), cell)
    else:
      found[row] = vector
  return found


def _array(path: str) -> np.ndarray:
  """A `.npy` file's array, memory-mapped if it is local; raises ValueError for a `.npz`."""
  if not files.is_remote(path):
    found = np.load(path, mmap_mode='r')
  else:
    with files.opened(path, 'rb') as file:
      found = np.load(io.BytesIO(file.read()))
  if not isinstance(found, np.ndarray):
    raise ValueError(f'{path}: arrays by name, as a .npz file has them')
  return found


class VectorColumn:
  """Reads the cells of a column of `--vector_columns`.

  Args:
    flag: `COLUMN`, whose cells are vectors, or `COLUMN:FILE.npy`, whose cells are ids: the lines of
      `FILE.txt` name the rows of the array [n, w].

  Raises:
    InputError: If the files are not there, or do not go together.

  Attributes:
    name: The column.
  """

  def __init__(self, flag: str):
    self.name, self._path = parse(flag)
    self._width = 0  # of the vectors read; 0: none yet
    if not self._path:
      return
    try:
      self._vectors = _array(self._path)
      with files.opened(ids_path(self._path), 'rb') as file:
        text = io.StringIO(file.read().decode('utf-8-sig'), newline=None)
        ids = [line.rstrip('\n') for line in text]
    except (OSError, ValueError, EOFError) as error:
      raise InputError(
        f'--vector_columns={flag}: {error}; an array [rows, width] is needed, and beside it '
        f'{os.path.basename(ids_path(self._path))} with an id a line'
      ) from error
    self._rows = {key: row for row, key in enumerate(ids)}
    shape = self._vectors.shape
    if len(shape) != 2 or len(ids) != shape[0] or self._vectors.dtype.kind not in 'fiu':
      raise InputError(
        f'{self._path}: {self._vectors.dtype} of shape {shape}, and {len(ids)} ids in '
        f'{ids_path(self._path)}: numbers [rows, width] and as many ids are needed'
      )
    if len(self._rows) != len(ids):
      raise InputError(f'{ids_path(self._path)}: an id stands twice')

  def read(self, cell: str, where: str) -> np.ndarray:
    """The vector [w] float32 of a cell.

    Raises:
      InputError: If there is none, or one of another width than those before; begins with `where`.
    """
    where = f'{where}, column {self.name!r}'
    if self._path:
      if cell not in self._rows:
        raise InputError(f'{where}: id {cell!r} is not in {ids_path(self._path)}')
      return checked(np.array(self._vectors[self._rows[cell]], np.float32), where)
    vector = of_cell(cell, where)
    self._width = self._width or len(vector)
    if len(vector) != self._width:
      raise InputError(
        f'{where}: a vector of {len(vector)} numbers; those before have {self._width}'
      )
    return vector
