"""Soft labels: the teacher's scores of a distillation set, as a record set of its own (§4.3)."""

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from common.data import record_writer, records
from common.data.records import Manifest, RecordSet
from common.data.tuples import Tuples, concatenated
from common.errors import InputError
from common.modeling.losses import probabilities
from common.training.forecast import Forecast

Advance = Callable[[int], Any]  # as a progress bar's `update`
Labeller = Callable[[np.ndarray, Advance], np.ndarray]  # items [n, slots] to logits [n, outputs]


def annotate(
  source: str, folder: str, logits_of: Labeller | None, *, temperature: float, info: dict[str, Any]
) -> Manifest:
  """Copies a record set's tuples with `teacher_logits` and `soft_labels` sigmoid(z / T) added.

  The items stay where they are: the new set names the source's tables. Shards correspond one to
  one, so that an interrupted annotation goes on at the first missing one.

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
  with Forecast(total=len(given), desc='annotate', unit=' tuples') as bar:
    for number, shard in enumerate(given.manifest.shards):
      if _is_whole(os.path.join(folder, record_writer.shard_name(number)), shard.count):
        shards.append(record_writer.shard_entry(folder, number, shard.count, shard.tables))
        bar.skip(shard.count)
        continue
      groups = list(given.shard(shard))
      whole = concatenated(groups)
      if logits_of:
        logits = logits_of(whole.items, bar.update)
      else:
        logits = whole.targets('teacher_logits', slice(None), 0)
        bar.update(shard.count)
      labelled = with_logits(groups, logits, temperature)
      shards.append(record_writer.write_shard(folder, number, labelled, shard.tables))
  tables = record_writer.tables_from(given, folder)
  info = {**given.manifest.info, **info, 'temperature': temperature}
  return record_writer.finish(folder, shards, tables, info)


def _is_whole(path: str, count: int) -> bool:
  """Whether a shard of so many annotated tuples is there; one that cannot be read is written anew."""
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
