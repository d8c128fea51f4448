"""Batches by item: each distinct text is encoded once, and the gradients are the plain form's."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from common.data import record_writer
from common.data.records import RecordSet
from common.data.tuples import Tuples
from common.distillation.trainer import Trainer, Training, most_items
from common.errors import InputError
from common.modeling.losses import LOSSES, CrossEntropy, LossConfig, cross_entropy
from common.training import strategies
from common.training.optimization import PhaseConfig

PHASE = PhaseConfig(learning_rate=1e-2, batch_size=20, steps=3, warmup_steps=1, eval_every=1)


def trainer(model, tokenizer, distill, loss=None, **devices):
  devices = strategies.DeviceConfig(**devices)
  strategy = tf.distribute.get_strategy()
  training = Training(distill, distill, 'regression', 1, devices, strategy, seed=1)
  return Trainer(model, tokenizer, training, loss or CrossEntropy())


def first_batch(one):
  return next(iter(one.batches_by_item(PHASE, one.distill.tuples())))


@pytest.mark.parametrize(
  ('kind', 'shared', 'static'),
  [
    *(('dipair', shared, static) for shared in (False, True) for static in (False, True)),
    ('dse', True, False),
    ('dse', False, True),
  ],
)
def test_encoding_each_text_once_gives_the_plain_forms_gradients(
  build, distill, kind, shared, static
):
  model, tokenizer = build(kind, shared_encoder=shared)
  one = trainer(model, tokenizer, distill, jit_compile=static)
  by_item = first_batch(one)
  texts = [list(one.distill.items(slot).texts()) for slot in range(2)]

  def plain_loss():
    tokens = []
    for slot, items in enumerate(by_item['items'].numpy().T):
      own = [texts[slot][item] for item in items]
      ids = tokenizer.encode(own, model.config.max_lengths[slot]).to_tensor(tokenizer.pad_id)
      tokens.append(model.encode(ids, slot, training=True))
    return cross_entropy(by_item['soft_labels'], model.score_vectors(tokens, training=True))

  results = []
  for loss in (plain_loss, lambda: one.loss_of(by_item, frozen=False)):
    with tf.GradientTape() as tape:
      value = tf.reduce_mean(loss())
    gradients = tape.gradient(value, model.used_variables)
    results.append((value, [tf.convert_to_tensor(g) for g in gradients]))
  (plain, plain_gradients), (fast, fast_gradients) = results
  assert float(plain) == pytest.approx(float(fast), abs=1e-6)
  assert any(np.abs(g).max() > 1e-4 for g in plain_gradients)
  for expected, found in zip(plain_gradients, fast_gradients, strict=True):
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize('kind', ['dipair', 'dse'])
def test_each_distinct_text_is_encoded_once(build, distill, kind):
  batch = first_batch(trainer(*build(kind), distill))
  assert [sum(len(ids) for ids in slot) for slot in batch['ids']] == [5, 4]  # of 20 pairs


def test_the_most_items_that_a_static_batch_can_hold():
  items = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [3, 1]], np.int32)
  tuples = Tuples(items, groups=np.array([0, 2, 4, 6]))  # one, one and two lefts; two rights each
  assert most_items(tuples, 2) == [2, 2]
  assert most_items(tuples, 4) == [4, 4]
  assert most_items(tuples, 3) == [3, 3]  # may touch three groups
  aligned = Tuples(items[:4], groups=np.array([0, 2, 4]))
  assert most_items(aligned, 4) == [2, 4]


@pytest.mark.parametrize('loss', LOSSES)
@pytest.mark.parametrize('kind', ['dipair', 'dse'])
def test_both_students_learn_by_every_loss(build, distill, tmp_path, kind, loss):
  one = trainer(*build(kind), distill, LossConfig(loss, 0.75, loss_temperature=2.0).build())
  phase, folder = dataclasses.replace(PHASE, learning_rate=1e-3), str(tmp_path / 'phase')
  trained = one.fit('phase', phase, folder, frozen=True, cache_gb=1.0)
  losses = [entry['loss'] for entry in trained['history'][1:]]
  assert len(losses) == 3 and losses[-1] < losses[0]


@pytest.fixture(name='by_term')
def _by_term(distill, tmp_path):
  """The same tuples in a group a term."""
  whole, folder = RecordSet(distill), str(tmp_path / 'by_term')
  tuples = whole.tuples()
  groups = [
    Tuples(*(x[i : i + 4] for x in (tuples.items, tuples.label, tuples.teacher_logits)))
    for i in range(0, 20, 4)
  ]
  record_writer.write(folder, groups, record_writer.tables_from(whole, folder))
  return folder


def test_what_a_loss_over_lists_compares_comes_together(build, by_term, tmp_path):
  phase, lefts = dataclasses.replace(PHASE, batch_size=4), {}
  for name in ('margin_mse', 'squared_error'):
    one = trainer(*build('dse'), by_term, LossConfig(name).build())
    tuples = one.distill.tuples()
    folder = str(tmp_path / name)
    cached = one.cached_batches(phase, tuples, one.used_items(tuples), folder)
    lefts[name] = [len(set(batch['items'][:, 0].numpy())) for batch in cached.take(5)]
  assert lefts['margin_mse'] == [1] * 5
  assert sum(lefts['squared_error']) > 10
  one.loss = LossConfig('triplet').build()
  alone = dataclasses.replace(tuples, items=tuples.items[::4])
  with pytest.raises(InputError, match='by_term: each left text stands in one tuple alone'):
    one.batches_by_item(phase, alone)
