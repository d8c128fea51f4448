"""Losses against loops over tuples and pairs; what they need, and refuse."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from common.data.task import Task
from common.errors import InputError
from common.modeling.losses import LOSSES, LossConfig

LEFT = np.array([7, 3, 7, 7, 9, 3, 5, 7, 5])  # lists of four, two, one and two
TEACHER = np.array([2.0, -1.0, 0.5, 2.0, 3.0, -1.0, 0.25, -4.0, 1.5])  # ties in the first two lists
STUDENT = np.array([0.1, 0.4, 1.5, -2.0, 0.7, 0.0, 2.0, 0.3, -0.6])
LISTS = [np.flatnonzero(left == LEFT) for left in (7, 3, 9, 5)]
PAIRS = [pair for rows in LISTS for pair in itertools.permutations(rows, 2)]


def batch(left, teacher, **targets):
  items = np.stack([left, np.arange(len(left))], 1).astype(np.int32)
  found = {'teacher_logits': np.reshape(teacher, [len(left), -1]), **targets}
  return {'items': tf.constant(items)} | {
    name: tf.constant(values, tf.float32) for name, values in found.items()
  }


def mean(loss, tuples, logits):
  """The loss as training has it, and its gradient, compiled by XLA; eager gives the same."""
  logits = tf.constant(np.reshape(logits, [len(tuples['items']), -1]), tf.float32)

  def both(logits):
    with tf.GradientTape() as tape:
      tape.watch(logits)
      value = tf.reduce_mean(loss(tuples, logits))
    return value, tape.gradient(value, logits)

  compiled, eager = tf.function(both, jit_compile=True, autograph=False)(logits), both(logits)
  for found, expected in zip(compiled, eager, strict=True):
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
  return float(eager[0]), eager[1].numpy()


def softmax(z):
  return np.exp(z) / np.exp(z).sum()


def slow_listwise_kl(t=2.0):
  found = []
  for rows in LISTS:
    if len(rows) > 1:
      p, q = softmax(TEACHER[rows] / t), softmax(STUDENT[rows] / t)
      found.append(t**2 * sum(p * np.log(p / q)))
  return np.mean(found)


SLOW = {
  'margin_mse': lambda: np.mean(
    [((STUDENT[i] - STUDENT[j]) - (TEACHER[i] - TEACHER[j])) ** 2 for i, j in PAIRS]
  ),
  'listwise_kl': slow_listwise_kl,
  'triplet': lambda: np.mean(
    [max(0, 1 - (STUDENT[i] - STUDENT[j])) for i, j in PAIRS if TEACHER[i] > TEACHER[j]]
  ),
}


@pytest.mark.parametrize('name', SLOW)
def test_a_loss_over_lists_is_the_slow_one(name):
  loss = LossConfig(name, loss_temperature=2.0).build()
  assert loss.needs == ('teacher_logits', 'items')
  value, gradient = mean(loss, batch(LEFT, TEACHER), STUDENT)
  assert value == pytest.approx(SLOW[name](), rel=1e-5)
  moves = np.abs(gradient[:, 0]) > 1e-6
  assert not moves[4] and moves[LEFT == 5].all()  # a list of one counts for nothing
  own = LEFT == 7  # a list's logits are as good on any level
  assert mean(loss, batch(LEFT, TEACHER), STUDENT + 3 * own)[0] == pytest.approx(value, rel=1e-4)
  alone, gradient = mean(loss, batch(np.arange(9), TEACHER), STUDENT)
  assert alone == 0 and np.abs(gradient).max() < 1e-6


@pytest.mark.parametrize('name', LOSSES)
@pytest.mark.parametrize('size', [1e-4, 1e4])
def test_gradients_are_finite_whatever_the_logits(name, size):
  teacher = size * np.array([1.0, -1, 0, 0, 1, 1])
  tuples = batch([1, 1, 1, 2, 2, 3], teacher, soft_labels=teacher[:, None] > 0)
  value, gradient = mean(LossConfig(name).build(), tuples, size * np.array([-1.0, 1, 0, 1, 0, -1]))
  assert np.isfinite(value) and np.isfinite(gradient).all() and gradient.any()


def sigmoid(z):
  return 1 / (1 + np.exp(-z))


@pytest.mark.parametrize('outputs', [1, 3])
def test_kd_is_softened_on_both_sides_beside_the_hard_labels(outputs):
  rng = np.random.default_rng(0)
  teacher, student = rng.normal(size=[2, 4, outputs])
  label, t = (np.eye(3)[[0, 2, 1, 1]] if outputs == 3 else np.array([[0.0], [1], [1], [0.25]])), 3.0

  def entropy(p, z):
    if outputs == 3:
      return -sum(p * np.log(softmax(z)))
    return -(p * np.log(sigmoid(z)) + (1 - p) * np.log(1 - sigmoid(z)))[0]

  soften = softmax if outputs == 3 else sigmoid
  expected = [
    0.75 * t**2 * entropy(soften(z / t), s / t) + 0.25 * entropy(y, s)
    for z, s, y in zip(teacher, student, label, strict=True)
  ]
  loss = LossConfig('kd', alpha=0.75, loss_temperature=t).build()
  assert loss.needs == ('teacher_logits', 'label')
  value, _ = mean(loss, batch(np.arange(4), teacher, label=label), student)
  assert value == pytest.approx(np.mean(expected), rel=1e-5)


@pytest.mark.parametrize(('name', 'outputs'), [('kd', 1), ('kd', 3), ('listwise_kl', 1)])
def test_a_tuple_without_a_label_has_the_teachers_part_alone(name, outputs):
  rng = np.random.default_rng(0)
  teacher, student = rng.normal(size=[2, 4, outputs])
  label = rng.dirichlet(np.ones(3), 4)[:, :outputs]
  some = np.where([[True], [False], [True], [False]], label, np.nan)
  mixed, alone, labels = (LossConfig(name, alpha=alpha).build() for alpha in (0.25, 1.0, 0.0))
  left = [1, 1, 2, 2]
  value, gradient = mean(mixed, batch(left, teacher, label=some), student)
  of_teacher, from_teacher = mean(alone, batch(left, teacher), student)
  of_labels, from_labels = mean(labels, batch([1, 2], teacher[::2], label=label[::2]), student[::2])
  assert value == pytest.approx(0.25 * of_teacher + 0.75 * of_labels / 2, rel=1e-5)
  from_all = np.zeros_like(from_teacher)
  from_all[::2] = from_labels / 2
  np.testing.assert_allclose(gradient, 0.25 * from_teacher + 0.75 * from_all, atol=1e-6)


@pytest.mark.parametrize(
  ('name', 'of_teacher'),
  [
    ('listwise_kl', 4 / 7 * np.log(8 / 7) + 3 / 7 * np.log(6 / 7)),  # softmax: 4, 2, 1; 3, 2, 1
    ('margin_mse', 2 / 3 * np.log(3 / 4) ** 2),  # margins: ln 2, ln 4, ln 2; ln 1.5, ln 3, ln 2
  ],
)
def test_a_list_of_graded_labels_by_hand(name, of_teacher):
  grades = np.array([3, 2, 0]) / 3  # --label_range=0,3
  teacher, student = np.log([4, 2, 1]), np.log([3, 2, 1])  # the student's scores: 3/4, 2/3, 1/2
  of_labels = np.log(4 / 3) + (np.log(3) - 2 / 3 * np.log(2)) + np.log(2)
  loss = LossConfig(name, alpha=0.75).build()
  assert loss.needs == ('teacher_logits', 'items', 'label')
  value, _ = mean(loss, batch([1, 1, 1], teacher, label=grades[:, None]), student)
  assert value == pytest.approx(0.75 * of_teacher + 0.25 * of_labels / 3, rel=1e-5)


@pytest.mark.parametrize(
  ('task', 'alpha', 'tuples', 'logits', 'expected'),
  [
    ('regression', 1.0, {'teacher_logits': [[2.0]]}, [[-1.0]], 9.0),
    ('regression', 0.0, {'label': [[0.25]]}, [[0.0]], 0.0625),
    ('regression', 0.5, {'teacher_logits': [[2.0]], 'label': [[0.25]]}, [[0.0]], 2.03125),
    ('binary', 0.0, {'label': [[1.0]]}, [[-np.log(3.0)]], np.log(4)),  # of two classes: 1/4
    (
      'multiclass',
      0.5,
      {'teacher_logits': [[1.0, 3.0]], 'label': [[0.0, 1.0]]},
      [[1.0, 1.0]],
      0.5 * 4 + 0.5 * np.log(2),
    ),
  ],
)
def test_equation_2_of_dse_by_hand(task, alpha, tuples, logits, expected):
  loss = LossConfig('squared_error', alpha).build(Task(task))
  assert loss.needs == tuple(tuples)
  value = loss({name: tf.constant(target) for name, target in tuples.items()}, tf.constant(logits))
  np.testing.assert_allclose(value, [expected], rtol=1e-6)


@pytest.mark.parametrize(
  ('teacher', 'label', 'student', 'alone', 'mean'),
  [
    ([[0.1]], [[0.0]], [[-np.log(3.0)]], np.log(4), np.log(16 / 3) / 2),  # a score of 1/4
    ([[0.0]], [[0.0]], [[-np.log(3.0)]], np.log(4 / 3), np.log(4 / 3)),
    # Scores of 1/2, 1/4 and 1/4.
    ([[1, 3, 2.9]], [[1.0, 0, 0]], [[np.log(2.0), 0, 0]], np.log(4), np.log(8) / 2),
  ],
)
def test_hard_labels_by_hand(teacher, label, student, alone, mean):
  tuples = batch([0], teacher, label=label)
  for alpha, expected in ((1.0, alone), (0.5, mean)):
    loss = LossConfig('hard_labels', alpha=alpha).build()
    value = loss(tuples, tf.constant(student, tf.float32))
    np.testing.assert_allclose(value, [expected], rtol=1e-6)


@pytest.mark.parametrize(
  ('make', 'message'),
  [
    (lambda: LossConfig('mse'), '--loss=mse: one of cross_entropy, kd, hard_labels, squared_error'),
    (
      lambda: LossConfig('triplet').check(Task('multiclass', ('a', 'b', 'c'))),
      '--loss=triplet compares tuples by one output, and --task=multiclass has 3: '
      '--loss=cross_entropy',
    ),
    (
      lambda: LossConfig('hard_labels').check(Task()),
      '^--loss=hard_labels: a regression has no classes; use --task=binary, or another --loss$',
    ),
    (
      LossConfig('squared_error', loss_temperature=4.0).check_settings,
      '^--loss_temperature=4 needs --loss=kd or listwise_kl; '
      '--loss=squared_error has no temperature$',
    ),
  ],
)
def test_what_cannot_be_a_loss_is_refused(make, message):
  with pytest.raises(InputError, match=message):
    make()
