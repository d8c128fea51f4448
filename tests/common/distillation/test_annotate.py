"""Soft labels by hand, and an annotation that goes on where it was interrupted."""

import math
import os

import numpy as np
import pytest

from common.data import record_writer
from common.data.examples import Example
from common.data.records import RecordSet
from common.distillation.annotate import annotate

ROWS = [Example(f'r{i}', (f'left {i}', f'right {i}'), i / 10) for i in range(5)]


class Teacher:
  """Logits worked out from the item: number i has i (one output) or i, 0, -i (three)."""

  def __init__(self, outputs: int = 1, fail_at: int = -1, piece: int = 9):
    self.outputs, self.fail_at, self.piece, self.calls = outputs, fail_at, piece, []

  def __call__(self, items, advance):
    for start in range(0, len(items), self.piece):
      if len(self.calls) == self.fail_at:
        raise KeyboardInterrupt
      some = items[start : start + self.piece, 0]
      self.calls.append(some.tolist())
      advance(len(some))
      yield np.array([[i, 0, -i][: self.outputs] for i in some], np.float32)


@pytest.fixture
def source(tmp_path, monkeypatch) -> str:
  monkeypatch.setattr(record_writer, 'SHARD_TUPLES', 2)
  rows, info = record_writer.of_examples(ROWS, 2), {'source': 'a.tsv'}
  record_writer.write_sets(str(tmp_path / 'source'), {'': rows}, 2, info=info)
  return str(tmp_path / 'source')


@pytest.mark.parametrize('temperature', [1.0, 2.0])
def test_one_output_is_the_sigmoid(temperature, source, tmp_path):
  teacher = Teacher()
  annotate(source, str(tmp_path / 'out'), teacher, temperature=temperature, info={})
  found = RecordSet(str(tmp_path / 'out'))
  tuples = found.tuples()
  assert found.texts() == [row.texts for row in ROWS]
  assert [key for group in found.groups() for key in group.ids] == [row.id for row in ROWS]
  assert tuples.label[:, 0].tolist() == pytest.approx([row.label for row in ROWS])
  assert tuples.teacher_logits[:, 0].tolist() == [0, 1, 2, 3, 4]
  expected = [1 / (1 + math.exp(-i / temperature)) for i in range(5)]
  assert tuples.soft_labels[:, 0].tolist() == pytest.approx(expected, rel=1e-6)
  assert tuples.groups.tolist() == [0, 2, 4, 5]
  assert teacher.calls == [[0, 1], [2, 3], [4]]


def test_items_stay_where_they_are(source, tmp_path):
  annotate(source, str(tmp_path / 'out'), Teacher(), temperature=1.0, info={})
  assert sorted(os.listdir(tmp_path / 'out')) == [
    '00000.tfrecord',
    '00001.tfrecord',
    '00002.tfrecord',
    'manifest.json',
  ]
  tables = RecordSet(str(tmp_path / 'out')).manifest.tables
  assert [table.name for (table,) in tables] == [f'../source/items/{i}.tfrecord' for i in (0, 1)]


def test_classes_are_the_softmax(source, tmp_path):
  annotate(source, str(tmp_path / 'out'), Teacher(outputs=3), temperature=2.0, info={})
  tuples = RecordSet(str(tmp_path / 'out')).tuples()
  assert tuples.teacher_logits[4].tolist() == [4, 0, -4]
  parts = [math.exp(2), 1, math.exp(-2)]  # of 4 / T, 0 / T, -4 / T
  assert tuples.soft_labels[4].tolist() == pytest.approx([p / sum(parts) for p in parts], rel=1e-6)
  assert tuples.soft_labels[0].tolist() == pytest.approx([1 / 3] * 3)


def test_goes_on_at_the_first_missing_shard(source, tmp_path):
  out, whole = str(tmp_path / 'out'), str(tmp_path / 'whole')
  annotate(source, whole, Teacher(), temperature=2.0, info={})
  with pytest.raises(KeyboardInterrupt):
    annotate(source, out, Teacher(fail_at=1), temperature=2.0, info={})
  assert not (tmp_path / 'out/manifest.json').exists()
  teacher = Teacher()
  manifest = annotate(source, out, teacher, temperature=2.0, info={})
  assert teacher.calls == [[2, 3], [4]]
  assert manifest == RecordSet(whole).manifest == RecordSet(out).manifest


@pytest.mark.parametrize('damage', ['', 'cut', 'of another shard'])
def test_goes_on_within_a_shard(source, tmp_path, damage):
  out, kept = tmp_path / 'out', tmp_path / 'out/00000.tfrecord.distinct.npy'
  with pytest.raises(KeyboardInterrupt):
    annotate(source, str(out), Teacher(fail_at=1, piece=1), temperature=2.0, info={})
  if damage:
    kept.write_bytes(kept.read_bytes()[:-1])
  if damage == 'of another shard':
    np.save(kept, np.zeros([2, 1], np.float32))
  teacher = Teacher(piece=1)
  annotate(source, str(out), teacher, temperature=2.0, info={})
  assert teacher.calls == [*([[0]] if damage else []), [1], [2], [3], [4]]
  assert RecordSet(str(out)).tuples().teacher_logits[:, 0].tolist() == [0, 1, 2, 3, 4]
  assert not list(out.glob('*.npy'))


def test_tuples_alike_are_scored_once_a_shard(tmp_path, monkeypatch, capsys):
  monkeypatch.setattr(record_writer, 'SHARD_TUPLES', 4)
  rows = [ROWS[i] for i in (2, 0, 2, 0, 0, 1, 3, 1)]  # items 0, 1, 0, 1 and 1, 2, 3, 2
  record_writer.write_sets(str(tmp_path / 'in'), {'': record_writer.of_examples(rows, 2)}, 2)
  teacher = Teacher()
  annotate(str(tmp_path / 'in'), str(tmp_path / 'out'), teacher, temperature=1.0, info={})
  assert teacher.calls == [[0, 1], [1, 2, 3]]
  assert RecordSet(str(tmp_path / 'out')).tuples().teacher_logits[:, 0].tolist() == [
    *(0, 1, 0, 1),
    *(1, 2, 3, 2),
  ]
  assert capsys.readouterr().out.startswith('8 tuples, 5 distinct')


def test_logits_that_the_source_holds_are_kept(source, tmp_path):
  once, again = str(tmp_path / 'once'), str(tmp_path / 'again')
  annotate(source, once, Teacher(), temperature=1.0, info={'teacher': 'T'})
  manifest = annotate(once, again, None, temperature=2.0, info={})
  assert manifest.info == {'source': 'a.tsv', 'teacher': 'T', 'temperature': 2.0}
  tuples = RecordSet(again).tuples()
  assert tuples.teacher_logits[:, 0].tolist() == [0, 1, 2, 3, 4]
  assert tuples.soft_labels[4, 0] == pytest.approx(1 / (1 + math.exp(-2)))
