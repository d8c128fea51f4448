"""Soft labels: the teacher's scores of a distillation set, as a record set of its own (§4.3)."""

import dataclasses
import io
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from common import files
from common.data import record_writer, records
from common.data.records import Manifest, RecordSet
from common.data.tuples import Tuples, concatenated, distinct
from common.errors import InputError
from common.modeling.losses import probabilities

Advance = Callable[[int], Any]  # as a progress bar's `update`
# Items [n, slots] to logits [some, outputs] of one run of tuples after another.
Labeller = Callable[[np.ndarray, Advance], Iterable[np.ndarray]]


def annotate(
  source: str, folder: str, logits_of: Labeller | None, *, temperature: float, info: dict[str, Any]
) -> Manifest:
  """Copies a record set's tuples with `teacher_logits` and `soft_labels` sigmoid(z / T) added.

  The items stay where they are: the new set names the source's tables. Shards correspond one to
  one, and a shard's logits are kept as they come, so that an interrupted annotation goes on.
  Tuples of a shard that are alike are scored once.

  Args:
    source: The record set's folder; one table a slot, as a run writes them.
    folder: The annotated set's folder.
    logits_of: The teacher; it tells how many more tuples are done. None: the source's tuples hold
      their logits already.
    temperature: T of the soft labels.
    info: Goes into the manifest, beside T.

  Returns:
    The manifest.
  """
  tf.io.gfile.makedirs(folder)
  given, shards = RecordSet(source), []
  counts = _distinct(given) if logits_of else [shard.count for shard in given.manifest.shards]
  if (total := sum(counts)) < len(given):
    print(f'{len(given):,} tuples, {total:,} distinct: in a shard the teacher scores each once')
  with tqdm(total=total, desc='annotate', unit=' tuples') as bar:
    for number, (shard, count) in enumerate(zip(given.manifest.shards, counts, strict=True)):
      if _is_whole(os.path.join(folder, record_writer.shard_name(number)), shard.count):
        shards.append(record_writer.shard_entry(folder, number, shard.count, shard.tables))
        bar.update(count)
        continue
      groups = list(given.shard(shard))
      whole = concatenated(groups)
      scored = os.path.join(folder, f'{record_writer.shard_name(number)}.distinct.npy')
      if logits_of:
        items, index = distinct(whole.items)
        logits = _scored(scored, items, logits_of, bar)[index]
      else:
        logits = whole.targets('teacher_logits', slice(None), 0)
        bar.update(shard.count)
      labelled = with_logits(groups, logits, temperature)
      shards.append(record_writer.write_shard(folder, number, labelled, shard.tables))
      if tf.io.gfile.exists(scored):
        tf.io.gfile.remove(scored)
  tables = record_writer.tables_from(given, folder)
  info = {**given.manifest.info, **info, 'temperature': temperature}
  return record_writer.finish(folder, shards, tables, info)


def _distinct(records: RecordSet) -> list[int]:
  """Distinct tuples of each shard."""
  return [
    len(distinct(np.concatenate([group.items for group in records.shard(shard)]))[0])
    for shard in records.manifest.shards
  ]


def _scored(path: str, items: np.ndarray, logits_of: Labeller, bar: tqdm) -> np.ndarray:
  """Logits of a shard's items, kept in a file as they come, so that a killed annotation resumes."""
  logits = _kept(path, len(items))
  bar.update(len(logits))
  for found in logits_of(items[len(logits) :], bar.update):
    logits = np.concatenate([logits, found]) if len(logits) else found
    if len(logits) < len(items):
      with files.whole(path) as temporary, files.opened(temporary, 'wb') as file:
        np.save(file, logits)
  return logits


def _kept(path: str, count: int) -> np.ndarray:
  """The logits that are there; none where the file is not one of a part of so many."""
  none = np.zeros([0, 1], np.float32)
  if not tf.io.gfile.exists(path):
    return none
  try:
    with files.opened(path, 'rb') as file:
      found = np.load(io.BytesIO(file.read()))
  except (OSError, ValueError, EOFError):  # damaged
    return none
  return found if found.ndim == 2 and 0 < len(found) < count else none


def _is_whole(path: str, count: int) -> bool:
  """Whether a shard holds so many annotated tuples; False for one that cannot be read."""
  try:
    return tf.io.gfile.exists(path) and count == sum(map(len, records.groups_of(path)))
  except InputError:
    return False


def with_logits(
  groups: Iterable[Tuples], logits: np.ndarray, temperature: float
) -> Iterator[Tuples]:
  """The groups with their logits [all tuples, outputs] and the soft labels that those give."""
  soft_labels = probabilities(tf.constant(logits), temperature).numpy()
  start = 0
  for group in groups:
    own = slice(start, start + len(group))
    start += len(group)
    yield dataclasses.replace(group, teacher_logits=logits[own], soft_labels=soft_labels[own])
