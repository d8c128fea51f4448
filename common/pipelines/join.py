"""Vectors joined by id to the units of pairs that need them, for stores that no worker can map.

  ids of a unit ────┐
                    ├─ by id: vectors for a unit ─┐
  rows of a store ──┘                             ├─ by unit: a store of its own ids ─ scores
  units ──────────────────────────────────────────┘

A unit asks for an id once, in however many of its rows it is, so no id is hot. All rows of the
stores go through Beam's shuffle, and each unit's vectors after them. A worker holds the ids of a
unit, and writes their vectors to its disk as a store, which it maps.
"""

import dataclasses
import itertools
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence

import apache_beam as beam
import numpy as np
from apache_beam.io.filesystems import FileSystems

from common import sharded
from common.pipelines import jobs, reading
from common.pipelines.files import on_disk
from common.pipelines.models import Store, TupleModel
from common.pipelines.shards import Shard
from common.pipelines.units import Unit
from common.vectors import manifest, shards
from common.vectors.changes import shard_name
from common.vectors.manifest import Description, Manifest
from common.vectors.shards import ShardWriter
from common.vectors.store import VectorStore
from common.vectors.values import Stored

_ROWS = 16_384  # read or written at a time
Vector = tuple[str, bytes]  # an id, and its vectors as `_row_type` has them


@dataclasses.dataclass(frozen=True)
class Joined:
  """A unit, and each slot's vectors of the ids in it."""

  unit: Unit
  vectors: Sequence[Iterable[Vector]]


@dataclasses.dataclass(frozen=True)
class JoinJob:
  """`jobs.Job`: a unit's scores, by the vectors that were joined to it.

  Attributes:
    job: Scores a unit, given stores that hold its ids.
    columns: Column of each slot's ids.
    stores: Each slot's store.
  """

  job: jobs.Job
  columns: Sequence[str]
  stores: Sequence[Store]

  def load(self) -> TupleModel:
    return self.job.load()

  def run(self, joined: Joined, model: TupleModel, shard: Shard) -> int:
    with tempfile.TemporaryDirectory() as folder:
      found = [
        _written(os.path.join(folder, str(slot)), store.manifest.vectors, vectors)
        for slot, (store, vectors) in enumerate(zip(self.stores, joined.vectors, strict=True))
      ]
      return self.job.run(joined.unit, TupleModel(model.scorer, found), shard)

  def source(self, pipeline: beam.Pipeline, left: Sequence[Unit]) -> beam.PCollection:
    """`jobs.Source`: the units with their vectors."""
    units = jobs.spread(pipeline, left)
    slots = [f'slot {slot}' for slot in range(len(self.stores))]
    found = {'unit': units | 'number' >> beam.Map(lambda unit: (unit.number, unit))}
    for slot, column, store in zip(slots, self.columns, self.stores, strict=True):
      asked = units | f'ids, {slot}' >> beam.FlatMap(_asked, column)
      listed = pipeline | f'shards, {slot}' >> beam.Create(store.manifest.shards)
      listed |= f'spread, {slot}' >> beam.Reshuffle()
      rows = listed | f'rows, {slot}' >> beam.FlatMap(_rows, store)
      by_id = {'units': asked, 'rows': rows} | f'by id, {slot}' >> beam.CoGroupByKey()
      found[slot] = by_id | f'for units, {slot}' >> beam.FlatMap(_for_units)
    by_unit = found | 'by unit' >> beam.CoGroupByKey()
    return by_unit | beam.Map(lambda of: Joined(of[1]['unit'][0], [of[1][slot] for slot in slots]))


def _asked(unit: Unit, column: str) -> Iterator[tuple[str, int]]:
  """(id, number of the unit) of the ids in a unit; bad rows are refused where it is scored."""
  ids: set[str] = set()
  for (some,) in reading.cells(unit, [column], _ROWS, lambda *_: None):
    ids.update(some)
  return ((key, unit.number) for key in ids)


def _rows(shard: manifest.Shard, store: Store) -> Iterator[Vector]:
  """The rows of a store's shard."""
  path, description = FileSystems.join(store.folder, shard.name), store.manifest.vectors
  with on_disk(path) as local:
    shard.check(local, f'{manifest.REMEDY} ({path})')
    for piece in shards.opened(local, shard, description):
      live = np.arange(len(piece.stored)) if piece.live is None else piece.live
      for start in range(0, len(live), _ROWS):
        found = piece.stored.at(live[start : start + _ROWS])
        rows = np.empty(len(found), _row_type(description))
        rows['values'] = found.values
        if found.scale is not None:
          rows['scale'] = found.scale
        ids = piece.ids.slice(start, _ROWS).to_pylist()
        yield from zip(ids, map(np.void.tobytes, rows), strict=True)


def _for_units(
  joined: tuple[str, dict[str, Iterable]],
) -> Iterator[tuple[int, Vector]]:
  """(number of a unit, an id's vector) for each unit that asked for the id."""
  key, found = joined
  for row in found['rows']:
    for number in found['units']:
      yield number, (key, row)


def _written(folder: str, description: Description, vectors: Iterable[Vector]) -> VectorStore:
  """A new store of one shard."""
  os.mkdir(folder)
  name, count, stream = shard_name(0), 0, iter(vectors)
  with ShardWriter(os.path.join(folder, name), description) as writer:
    while some := list(itertools.islice(stream, _ROWS)):
      ids, rows = zip(*some, strict=True)
      found = np.frombuffer(b''.join(rows), _row_type(description))
      scale = found['scale'] if description.dtype == 'int8' else None
      writer.add(ids, np.zeros(len(ids), np.uint64), Stored(found['values'], scale))
      count += len(ids)
  listed = (manifest.Shard.written(folder, name, count),)
  sharded.write(os.path.join(folder, sharded.NAME), Manifest(description, listed))
  return VectorStore(folder)


def _row_type(description: Description) -> np.dtype:
  """A row of a store."""
  fields: list[tuple] = [('values', description.dtype, description.shape)]
  if description.dtype == 'int8':
    fields.append(('scale', np.float32, description.shape[:-1]))
  return np.dtype(fields)
