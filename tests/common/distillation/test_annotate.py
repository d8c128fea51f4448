"""Soft labels by hand, and an annotation that goes on where it was interrupted."""

import math

import numpy as np
import pytest

from common.data import records
from common.data.examples import Example
from common.distillation.annotate import annotate

ROWS = [Example(f'r{i}', (f'left {i}', f'right {i}'), i / 10) for i in range(5)]


class Teacher:
  """Logits worked out from the id: row i has i (one output) or i, 0, -i (three)."""

  def __init__(self, outputs: int = 1, fail_at: int = -1):
    self.outputs, self.fail_at, self.calls = outputs, fail_at, []

  def __call__(self, examples, advance) -> np.ndarray:
    if len(self.calls) == self.fail_at:
      raise KeyboardInterrupt
    self.calls.append([example.id for example in examples])
    advance(len(examples))
    numbers = [float(example.id[1:]) for example in examples]
    return np.array([[i, 0, -i][: self.outputs] for i in numbers], np.float32)


@pytest.fixture
def source(tmp_path) -> str:
  folder = str(tmp_path / 'source')
  records.write(folder, ROWS, shard_size=2, info={'source': 'a.tsv'})
  return folder


@pytest.mark.parametrize('temperature', [1.0, 2.0])
def test_one_output_is_the_sigmoid(temperature, source, tmp_path):
  teacher = Teacher()
  annotate(source, str(tmp_path / 'out'), teacher, temperature=temperature, info={})
  found = list(records.read(str(tmp_path / 'out')))
  assert [(e.id, e.texts) for e in found] == [(e.id, e.texts) for e in ROWS]
  assert [e.label for e in found] == pytest.approx([e.label for e in ROWS])
  assert [e.teacher_logits for e in found] == [(0,), (1,), (2,), (3,), (4,)]
  expected = [1 / (1 + math.exp(-i / temperature)) for i in range(5)]
  assert [e.soft_labels[0] for e in found] == pytest.approx(expected, rel=1e-6)
  assert teacher.calls == [['r0', 'r1'], ['r2', 'r3'], ['r4']]


def test_classes_are_the_softmax(source, tmp_path):
  annotate(source, str(tmp_path / 'out'), Teacher(outputs=3), temperature=2.0, info={})
  found = list(records.read(str(tmp_path / 'out')))
  assert found[4].teacher_logits == (4, 0, -4)
  parts = [math.exp(2), 1, math.exp(-2)]  # of 4 / T, 0 / T, -4 / T
  assert found[4].soft_labels == pytest.approx([p / sum(parts) for p in parts], rel=1e-6)
  assert found[0].soft_labels == pytest.approx([1 / 3] * 3)


def test_goes_on_at_the_first_missing_shard(source, tmp_path):
  out, whole = str(tmp_path / 'out'), str(tmp_path / 'whole')
  annotate(source, whole, Teacher(), temperature=2.0, info={})
  with pytest.raises(KeyboardInterrupt):
    annotate(source, out, Teacher(fail_at=1), temperature=2.0, info={})
  assert not (tmp_path / 'out/manifest.json').exists()
  teacher = Teacher()
  annotate(source, out, teacher, temperature=2.0, info={})
  assert teacher.calls == [['r2', 'r3'], ['r4']]
  assert list(records.read(out)) == list(records.read(whole))
  assert records.read_manifest(out) == records.read_manifest(whole)


def test_the_manifest_says_how(tmp_path):
  source, out = str(tmp_path / 'source'), str(tmp_path / 'out')
  records.write(source, ROWS[:4], shard_size=2, block=2, info={'block_texts': [1, 2]})
  manifest = annotate(source, out, Teacher(), temperature=2.0, info={'teacher': 'T'})
  assert manifest == records.read_manifest(out)
  assert manifest.info == {'block_texts': [1, 2], 'teacher': 'T', 'temperature': 2.0}
  assert (manifest.count, manifest.block, [s.count for s in manifest.shards]) == (4, 2, [2, 2])
