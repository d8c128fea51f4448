"""A left encoder trained against a frozen right one: what is stored of right texts stays valid."""

import dataclasses
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf

from common.errors import InputError
from common.export import student_export
from dipair import frozen_right, training
from dipair.config import StudentConfig, TrainConfig
from dipair.scorer import Scorer
from dipair.student import DiPair
from tests.conftest import PRODUCTS, TERMS
from tests.dipair.two_stages import PHASE, train

SLOTS = {'slots': ('left', 'right'), 'task': 'regression', 'samples': (TERMS[:4], PRODUCTS)}


@pytest.fixture(name='old', scope='module')
def _old(tiny, tmp_path_factory):
  """A finished run's folder, of a student of one encoder, without its export; and the student."""
  folder, (model, tokenizer) = tmp_path_factory.mktemp('frozen') / 'old', tiny()
  model.save(str(folder / 'student'), tokenizer)
  return str(folder), model


@pytest.fixture(name='old_exported')
def _old_exported(old, exported, tmp_path):
  """A copy with its export, which is the tiny student's; and the student."""
  folder = shutil.copytree(old[0], tmp_path / 'old')
  shutil.copytree(exported.folder, folder / 'export')
  return str(folder), old[1]


def right(model):
  """All numbers that vectors of right texts are computed with."""
  return [*model.encoder(1).get_weights(), *model.projections[1].get_weights()]


def differ(some, others):
  return any(np.any(one != other) for one, other in zip(some, others, strict=True))


def test_training_moves_the_left_side_and_the_head_alone(old, distill, tmp_path):
  folder, before = old
  config = dataclasses.replace(
    before.config, freeze_right=folder, left_encoder_layers=1, dropout=0.5
  )
  phase = dataclasses.replace(PHASE, steps=2)
  phases = TrainConfig(stage1=phase, stage2=dataclasses.replace(phase, patience=0))
  train(config, tmp_path / 'student', distill, phases)
  model, _ = DiPair.load(str(tmp_path / 'student'))
  lefts = []
  for stage in training.STAGES:  # as each ended, not at its best
    last = tf.train.latest_checkpoint(str(tmp_path / 'student' / stage / 'checkpoints'))
    tf.train.Checkpoint(variables=model.variables).restore(last).expect_partial()
    for was, now in zip(right(before), right(model), strict=True):
      np.testing.assert_array_equal(was, now)
    lefts.append(model.encoder(0).get_weights())
  assert differ(*lefts)
  assert differ(before.head.get_weights(), model.head.get_weights())
  assert differ(before.projections[0].get_weights(), model.projections[0].get_weights())
  ids = tf.constant([[2, 7, 8, 3]])
  for live in (False, True):  # no dropout in what is stored
    np.testing.assert_array_equal(model.encode(ids, 1, live), before.encode(ids, 1, False))


@pytest.mark.usefixtures('tensorflow_alone')
def test_the_old_exports_store_is_the_new_ones_too(old_exported, tmp_path):
  folder, before = old_exported
  config = dataclasses.replace(before.config, freeze_right=folder, left_encoder_layers=1)
  model, tokenizer = DiPair.from_pretrained(config, 1)
  frozen_right.start(model, frozen_right.read(config, 1))
  student_export.write(str(tmp_path / 'export'), model, tokenizer, **SLOTS)
  there = Scorer.load(f'{folder}/export')
  rows = [(f'p{i}', text) for i, text in enumerate(PRODUCTS)]
  store = there.encode_to(str(tmp_path / 'store'), rows, 'right')
  scorer = Scorer.load(str(tmp_path / 'export'))
  assert scorer.fingerprints == {'left': scorer.fingerprint, 'right': there.fingerprint}
  assert scorer.fingerprint != there.fingerprint
  stored, own = (scorer.rank('red', of) for of in (store, scorer.encode(PRODUCTS, 'right')))
  np.testing.assert_allclose([s for _, s in stored], [s for _, s in own], atol=1e-5)
  more = scorer.encode_to(store.folder, [*rows, ('p4', 'red')], 'right')
  assert more.ids([3, 4]) == ['p3', 'p4']
  assert more.fingerprint == there.fingerprint
  queries = there.encode_to(str(tmp_path / 'queries'), [('t', 'red')], 'left')
  with pytest.raises(InputError, match='a store of fingerprint'):
    scorer.encode_to(queries.folder, [('u', 'red')], 'left')


@pytest.mark.parametrize(
  ('changes', 'message'),
  [
    ({'head': 'ffnn'}, 'old: --head is transformer, not ffnn$'),
    ({'output_tokens': (3, 5)}, r'old: --output_tokens is \(3, 4\), not \(3, 5\)$'),
    ({'right_encoder_layers': 1}, 'old: depth of its right encoder is 2, not 1$'),
    ({'max_lengths': (16, 20)}, 'old: length of its right texts is 32, not 20$'),
  ],
)
def test_a_student_that_could_not_read_the_frozen_vectors_is_refused(old, changes, message):
  config = dataclasses.replace(old[1].config, freeze_right=old[0], **changes)
  with pytest.raises(InputError, match=f'^--freeze_right=.*{message}'):
    frozen_right.read(config, 1)


def test_other_words_other_outputs_and_other_tuples_are_refused(old, tmp_path):
  config = dataclasses.replace(old[1].config, freeze_right=old[0])
  with pytest.raises(InputError, match='old: outputs is 1, not 3$'):
    frozen_right.read(config, 3)
  other = dataclasses.replace(config, pretrained=os.path.join(old[0], 'words'))
  with pytest.raises(InputError, match='words: no such folder'):
    frozen_right.read(other, 1)
  with pytest.raises(InputError, match='--freeze_right needs pairs; --output_tokens names 3 texts'):
    StudentConfig(freeze_right='x', max_lengths=(8, 8, 8), output_tokens=(1, 1, 1))
