"""Units of work: pieces of input files; each becomes one shard of the output.

A unit is a range of bytes of a TSV or JSONL file, a row group of a Parquet file, or a whole file
(CSV, whose quoted cells hold line breaks; TFRecord; gzip). Paths are those of Beam's filesystems:
local, `gs://`, `s3://`.
"""

import dataclasses
import os
import re
from collections.abc import Sequence

from apache_beam.io.filesystem import FileMetadata
from apache_beam.io.filesystems import FileSystems

from common import files
from common.data import tables
from common.errors import InputError
from common.pipelines import parquet
from common.pipelines.files import each, open_file

SUFFIXES = (*tables.SUFFIXES, '.tfrecord')
END = (1 << 62) - 1  # of a file, whatever its length
_SPLIT = ('.tsv', '.txt', '.jsonl')  # at any line


@dataclasses.dataclass(frozen=True)
class Unit:
  """A piece of a file.

  Attributes:
    number: Number of the unit and of its shard.
    path: Path of the file.
    start: First byte, row group or row.
    stop: One after the last, or `END`.
    state: Size and time of the last change of the file.
  """

  number: int
  path: str
  start: int = 0
  stop: int = END
  state: str = ''


def of_files(patterns: Sequence[str], unit_bytes: int) -> list[Unit]:
  """Units of the files that match, in the order of their names.

  Raises:
    InputError: If nothing matches a pattern, or a file is matched twice, of no known kind or an
      empty gzip.
  """
  listed: list[FileMetadata] = []
  known: set[str] = set()
  for pattern in patterns:
    try:
      found = sorted(_matches(pattern), key=lambda file: file.path)
    except Exception as error:  # each filesystem has its own
      raise InputError(f'{pattern}: cannot be listed: {error}') from error
    if not found:
      raise InputError(f'{pattern}: no such file')
    for file in found:
      same = file.path if files.is_remote(file.path) else os.path.abspath(file.path)
      if same in known:
        raise InputError(f'{pattern}: {file.path} is named twice in --input')
      known.add(same)
      listed.append(file)
  units: list[Unit] = []
  of_each = each(lambda file: _pieces(file.path, file.size_in_bytes, unit_bytes), listed)
  for file, pieces in zip(listed, of_each, strict=True):
    state = f'{file.size_in_bytes} {file.last_updated_in_seconds}'
    units += [Unit(len(units) + i, file.path, *piece, state) for i, piece in enumerate(pieces)]
  return units


def of_rows(path: str, rows: int, unit_rows: int) -> list[Unit]:
  """Units of a vector store's rows."""
  starts = range(0, rows, unit_rows)
  return [Unit(i, path, start, min(start + unit_rows, rows)) for i, start in enumerate(starts)]


def _matches(pattern: str) -> list[FileMetadata]:
  """Files that match.

  Beam lists nothing for a pattern that names no folder before its first sign.
  """
  before = re.split(r'[*?[]', pattern, maxsplit=1)[0]
  here = before != pattern and not os.path.dirname(before)
  (found,) = FileSystems.match([f'./{pattern}' if here else pattern])
  # A name that ends with a slash is a bucket's name of a folder.
  return [file for file in found.metadata_list if not file.path.endswith('/')]


def _pieces(path: str, size: int, unit_bytes: int) -> list[tuple[int, int]]:
  """(start, stop) of each unit of a file."""
  if path.endswith(_SPLIT):
    return [(start, min(start + unit_bytes, size)) for start in range(0, size, unit_bytes)]
  if path.endswith('.parquet'):
    with open_file(path) as file:
      groups = parquet.opened(file, path).num_row_groups
    return [(group, group + 1) for group in range(groups)]
  if path.endswith((*tables.ENDS, '.tfrecord', '.tfrecord.gz')):
    if path.endswith('.gz') and not size:
      raise InputError(f'{path}: damaged gzip: {tables.NO_BYTES}; copy it anew')
    return [(0, END)]
  raise InputError(f'{path}: unknown kind of file; names end in {", ".join(SUFFIXES)} (or .gz)')
