"""Held-out tuples: what stands in a set that judges is left out of everything that is learnt from.

Texts are compared by their normal forms (`common.data.normal_keys`), pairs in either order: a
siamese student that learns (u, v) learns (v, u).
"""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from tqdm import tqdm

from common.data import normal_keys, record_writer
from common.data.records import BLOCKS, RecordSet
from common.data.tuples import FLOATS, Tuples

_JUDGING = ('valid', 'test', 'test_mismatched')


def judging_sets(data: str) -> dict[str, RecordSet]:
  """The record sets that judge what is trained, by name, in a folder of labelled sets."""
  paths = {name: os.path.join(data, name) for name in _JUDGING}
  return {name: RecordSet(path) for name, path in paths.items() if os.path.exists(path)}


def learnt_sets(data: str, distilled: str) -> dict[str, RecordSet]:
  """The record sets that a run's models learn from, by name; some runs have no training set.

  Args:
    data: Folder of the labelled sets.
    distilled: Folder of the distillation set.
  """
  paths = {'train': os.path.join(data, 'train'), 'distillation': distilled}
  return {name: RecordSet(path) for name, path in paths.items() if os.path.exists(path)}


def leave_out(judging: Mapping[str, RecordSet], folder: str, named: str) -> int:
  """Removes from a record set the tuples that stand in a set that judges, and says how many.

  Blocks keep their size, so that batches stay aligned: tuples of a block's own fill its gaps.

  Args:
    judging: The sets that judge, by name.
    folder: The record set. Only its shards with such tuples are written anew.
    named: What the set is, for the line that is printed.

  Returns:
    How many were left out.
  """
  records = RecordSet(folder)
  of_items = [normal_keys.of_items(records.items(slot)) for slot in range(records.slots)]
  judged = {order for of_set in judging.values() for order in _in_either_order(of_set)}
  columns = np.array(sorted(judged), np.uint64).reshape([-1, records.slots]).T
  known = [np.isin(own, column) for own, column in zip(of_items, columns, strict=True)]
  shards, left_out = [], 0
  for number, shard in enumerate(
    tqdm(records.manifest.shards, f'{named}: held out', unit=' shards', delay=2)
  ):
    groups, found = [], 0
    for group in records.shard(shard):
      stands = np.all([of[column] for of, column in zip(known, group.items.T, strict=True)], 0)
      for row in np.flatnonzero(stands):
        own = tuple(of[item] for of, item in zip(of_items, group.items[row], strict=True))
        stands[row] = own in judged
      found += int(stands.sum())
      if not stands.all():
        groups.append(_without(group, stands, bool(records.manifest.info.get(BLOCKS))))
    written = record_writer.write_shard(folder, number, groups, shard.tables) if found else shard
    shards.append(written)
    left_out += found
  if left_out:
    manifest = records.manifest
    record_writer.finish(folder, shards, manifest.tables, manifest.info)
    print(
      f'{named}: {left_out:,} of {len(records):,} tuples stand in {" or ".join(judging)}; left out'
    )
  return left_out


def _in_either_order(records: RecordSet) -> set[tuple[int, ...]]:
  """Keys of a set's tuples, and of the reversed pairs if they are pairs."""
  found = set(map(tuple, normal_keys.of_tuples(records)))
  return found | {of[::-1] for of in found} if records.slots == 2 else found


def _without(group: Tuples, stands: np.ndarray, block: bool) -> Tuples:
  """A group without some of its tuples; a block's others take their places."""
  if not stands.any():
    return group
  kept = np.flatnonzero(~stands)
  rows = np.sort(np.resize(kept, len(group))) if block else kept
  values = {name: getattr(group, name) for name in ('items', *FLOATS)}
  taken: dict[str, Any] = {name: of[rows] for name, of in values.items() if of is not None}
  ids = [group.ids[row] for row in rows] if group.ids else ()
  return dataclasses.replace(group, **taken, ids=ids)
