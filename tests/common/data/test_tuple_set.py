"""Tuples in memory, against the same in a record set."""

import numpy as np

from common.data import normal_keys, record_writer
from common.data.examples import Example
from common.data.records import RecordSet
from common.data.tuple_set import MemorySet


def test_a_set_in_memory_reads_as_a_record_set_does(tmp_path):
  vectors = np.arange(6, dtype=np.float32).reshape(2, 3)
  rows = [
    Example('', (text, vectors[n]), label, (z, -z))
    for text, n, label, z in [('Red', 0, 0.5, 1.0), ('blue', 1, 1.0, 2.0), ('Red', 1, 0.0, 3.0)]
  ]
  record_writer.write_sets(str(tmp_path), {'': record_writer.of_examples(rows)}, 2)
  kept, held = RecordSet(str(tmp_path)), MemorySet('new.tsv', rows)
  for name in ('items', 'label', 'teacher_logits'):
    np.testing.assert_array_equal(getattr(held.tuples(), name), getattr(kept.tuples(), name))
  for slot in (0, 1):
    assert held.items(slot).keys() == kept.items(slot).keys()
    numbers = np.array([1, 0, 1])
    for own, other in zip(held.texts(numbers), kept.texts(numbers), strict=True):
      np.testing.assert_array_equal(own[slot], other[slot])
  np.testing.assert_array_equal(normal_keys.of_tuples(held), normal_keys.of_tuples(kept))
  assert (held.slots, held.folder, len(held.items(0))) == (2, 'new.tsv', 2)
