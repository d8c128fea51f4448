"""Quality by seen and unseen texts: each judging set in parts, by the texts learnt from."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from common.data import normal_keys
from common.data.task import Task
from common.data.tuple_set import TupleSet
from common.errors import InputError
from common.evaluation import significance
from common.evaluation.judged_set import JudgedSet

if TYPE_CHECKING:
  from common.data.records import RecordSet  # which imports TensorFlow

LEAST = 200  # tuples of a part that has metrics


def parts(
  judging: Mapping[str, TupleSet],
  learnt: Mapping[str, 'RecordSet'],
  logits: Mapping[str, Mapping[str, np.ndarray]],
  task: Task,
) -> list[dict[str, Any]]:
  """Each judging set's tuples whose left text, right text, both, or none, a learnt set lacks.

  A text is seen if any slot of a tuple that is learnt from holds it, in the same normal form. Of
  tuples of more texts, 'right' are all but the first.

  Args:
    judging: Sets by name.
    learnt: Record sets that are learnt from, by name.
    logits: Models' logits [n, outputs], by model and judging set; 'teacher' is compared with.
    task: As for `JudgedSet`.

  Returns:
    For each judging set, learnt set and 'left', 'right', 'both' and 'none': {'set', 'learnt',
    'unseen', 'tuples'}; with `LEAST` tuples or more, and where the metric can be computed, also
    'models': by model {'value', 'interval'}, and of all but the teacher 'delta',
    'delta_interval' and 'p_value'.
  """
  seen = {name: _seen(records) for name, records in learnt.items()}
  found: list[dict[str, Any]] = []
  measured: dict[tuple[str, bytes], dict[str, Any]] = {}  # of parts alike, once
  for set_name, records in judging.items():
    of_tuples = normal_keys.of_tuples(records)
    for learnt_name, known in seen.items():
      new = ~np.isin(of_tuples, known)
      left, right = new[:, 0], new[:, 1:].any(1)
      texts = {'left': left, 'right': right, 'both': left & right, 'none': ~(left | right)}
      for text, part in texts.items():
        rows, key = np.flatnonzero(part), (set_name, part.tobytes())
        if key not in measured:
          of_set = {name: of[set_name][rows] for name, of in logits.items()}
          measured[key] = _measured(records, rows, of_set, task)
        named = {'set': set_name, 'learnt': learnt_name, 'unseen': text, 'tuples': len(rows)}
        found.append({**named, **measured[key]})
  return found


def standing(records: TupleSet, learnt: 'RecordSet') -> np.ndarray:
  """Whether each tuple of a set is one that is learnt from, pairs in either order: [n] bool."""
  asked = _combined(normal_keys.of_tuples(records))
  found = np.zeros(len(asked), bool)
  of_items = [normal_keys.of_items(learnt.items(slot)) for slot in range(learnt.slots)]
  for shard in learnt.manifest.shards:
    items = np.concatenate([group.items for group in learnt.shard(shard)])
    keys = [of_slot[column] for of_slot, column in zip(of_items, items.T, strict=True)]
    found |= np.isin(asked, _combined(np.stack(keys, 1)))
  return found


def _combined(keys: np.ndarray) -> np.ndarray:
  """A key of each tuple [n], of its items' keys [n, slots]; of a pair whatever their order."""
  found = np.zeros(len(keys), np.uint64)
  for column in (np.sort(keys, 1) if keys.shape[1] == 2 else keys).T:
    found = found * np.uint64(0x9E3779B97F4A7C15) + column  # modulo 2 ** 64
  return found


def _seen(records: 'RecordSet') -> np.ndarray:
  """The keys of all items that a set's tuples have."""
  used = [np.zeros(len(records.items(slot)), bool) for slot in range(records.slots)]
  for group in records.groups():
    for of_slot, column in zip(used, group.items.T, strict=True):
      of_slot[column] = True
  return np.unique(
    np.concatenate(
      [normal_keys.of_items(records.items(slot))[of_slot] for slot, of_slot in enumerate(used)]
    )
  )


def _measured(
  records: TupleSet, rows: np.ndarray, logits: dict[str, np.ndarray], task: Task
) -> dict[str, Any]:
  """The metric that decides on some rows of a set; nothing where they are too few or all alike."""
  if len(rows) < LEAST:
    return {}
  try:
    resampled = JudgedSet(records, task, rows=rows).resampled(list(logits.values()))
  except InputError:
    return {}
  return {'models': significance.compared(dict(zip(logits, resampled, strict=True)))}
