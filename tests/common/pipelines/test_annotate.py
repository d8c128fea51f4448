"""Tuples annotated on Beam: the record set of one call on everything."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from common.data.records import RecordSet
from common.data.tokenization import Tokenizer
from common.data.tokens import TokenizedTuples
from common.distillation.teacher import Teacher
from common.errors import InputError
from common.modeling import checkpoints
from common.pipelines import annotate
from common.pipelines.jobs import OutputConfig

TERMS = [('t0', 'red'), ('t1', 'wide footwear'), ('t2', 'nike shoes')]
PRODUCTS = [(f'p{i}', f'{text} {i // 3}') for i, text in enumerate(['red throw', 'boots', 'x'] * 3)]


@pytest.fixture(name='saved', scope='module')
def _saved():
  """A function of a folder to a random teacher, which it saves there."""
  pretrained = checkpoints.read('random-tiny')
  tokenizer = Tokenizer(pretrained.vocabulary, pretrained.lower_case)

  def save(folder):
    teacher = Teacher(pretrained.config, tokenizer, 32, 1)
    teacher.save(str(folder))
    return teacher

  return save


def test_annotation_is_the_teachers_mean(tmp_path, tsv, saved):
  folders = [tmp_path / f'teacher{number}' for number in range(2)]
  teachers = [saved(folder) for folder in folders]
  rows = [(t, p) for _, t in TERMS for _, p in PRODUCTS]
  files = tsv(tmp_path / 'pairs.tsv', ('left', 'right'), rows)
  out = OutputConfig(output=str(tmp_path / 'distill'))
  annotate.main(annotate.AnnotateConfig(tuple(map(str, folders)), files, out=out), [])
  found = RecordSet(out.output)
  assert found.texts() == rows
  assert [len(found.items(slot)) for slot in range(2)] == [
    len(set(c)) for c in zip(*rows, strict=True)
  ]
  assert len(found.manifest.shards) > 1  # each with tables of its own
  strategy = tf.distribute.get_strategy()
  tuples = TokenizedTuples.of_texts(rows, teachers[0].tokenizer)
  logits = np.mean([teacher.logits(tuples, strategy=strategy) for teacher in teachers], 0)
  np.testing.assert_allclose(found.tuples().teacher_logits, logits, atol=1e-5)
  soft = 1 / (1 + np.exp(-logits))
  np.testing.assert_allclose(found.tuples().soft_labels, soft, atol=1e-5)


def test_an_id_that_comes_twice_makes_no_record_set(tmp_path, tsv, saved):
  saved(tmp_path / 'teacher')
  rows = [(f'{i % 7}', 'red', f'boots {i}') for i in range(8)]
  files = tsv(tmp_path / 'pairs.tsv', ('id', 'left', 'right'), rows)
  out = OutputConfig(output=str(tmp_path / 'distill'))
  config = annotate.AnnotateConfig((str(tmp_path / 'teacher'),), files, id_column='id', out=out)
  with pytest.raises(InputError, match=r"distill: id '0' came twice \(in .*; each may once"):
    annotate.main(config, [])
  with pytest.raises(InputError, match='no manifest.json'):
    RecordSet(out.output)
  for name, value in (('teacher_max_length', 64), ('classes', ('no', 'yes'))):
    with pytest.raises(InputError, match=f'begun with other {name}; go on with those'):
      annotate.main(dataclasses.replace(config, **{name: value}), [])
  saved(tmp_path / 'teacher')  # another one
  with pytest.raises(InputError, match='begun with other contents of the teachers'):
    annotate.main(config, [])
