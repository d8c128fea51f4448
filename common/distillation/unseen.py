"""Quality by unseen texts: each judging set in parts, by which texts nothing learnt from has."""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from common.data.records import RecordSet
from common.data.task import Task
from common.distillation.held_out import keys, keys_of_tuples
from common.distillation.judged_set import JudgedSet
from common.errors import InputError
from common.evaluation import significance

LEAST = 200  # tuples of a part that has metrics


def parts(
  judging: Mapping[str, RecordSet],
  learnt: Mapping[str, str],
  logits: Mapping[str, Mapping[str, np.ndarray]],
  task: Task,
) -> list[dict[str, Any]]:
  """Each judging set's tuples whose left text, right text, or both, a learnt set lacks.

  A text is seen if any slot of a tuple that is learnt from holds it, in the same normal form. Of
  tuples of more texts, 'right' are all but the first.

  Args:
    judging: Record sets by name.
    learnt: Folders of record sets that are learnt from, by name; one that is missing is skipped.
    logits: Models' logits [n, outputs], by model and judging set; 'teacher' is compared with.
    task: As for `JudgedSet`.

  Returns:
    For each judging set, learnt set and 'left', 'right' and 'both': {'set', 'learnt', 'unseen',
    'tuples'}; with `LEAST` tuples or more, and where the metric can be computed, also 'models': by
    model {'value', 'interval'}, and of all but the teacher 'delta', 'delta_interval', 'p_value'.
  """
  seen = {name: _seen(RecordSet(path)) for name, path in learnt.items() if os.path.exists(path)}
  found: list[dict[str, Any]] = []
  measured: dict[tuple[str, bytes], dict[str, Any]] = {}  # of parts alike, once
  for set_name, records in judging.items():
    of_tuples = keys_of_tuples(records)
    for learnt_name, known in seen.items():
      new = ~np.isin(of_tuples, known)
      left, right = new[:, 0], new[:, 1:].any(1)
      for text, part in (('left', left), ('right', right), ('both', left & right)):
        rows, key = np.flatnonzero(part), (set_name, part.tobytes())
        if key not in measured:
          of_set = {name: of[set_name][rows] for name, of in logits.items()}
          measured[key] = _measured(records, rows, of_set, task)
        named = {'set': set_name, 'learnt': learnt_name, 'unseen': text, 'tuples': len(rows)}
        found.append({**named, **measured[key]})
  return found


def _seen(records: RecordSet) -> np.ndarray:
  """The keys of all items that a set's tuples have."""
  used = [np.zeros(len(records.items(slot)), bool) for slot in range(records.slots)]
  for group in records.groups():
    for of_slot, column in zip(used, group.items.T, strict=True):
      of_slot[column] = True
  return np.unique(
    np.concatenate([keys(records.items(slot))[of_slot] for slot, of_slot in enumerate(used)])
  )


def _measured(
  records: RecordSet, rows: np.ndarray, logits: dict[str, np.ndarray], task: Task
) -> dict[str, Any]:
  """The metric that decides on some rows of a set; nothing where they are too few or all alike."""
  if len(rows) < LEAST:
    return {}
  try:
    resampled = JudgedSet(records, task, rows=rows).resampled(list(logits.values()))
  except InputError:
    return {}
  return {'models': significance.compared(dict(zip(logits, resampled, strict=True)))}
