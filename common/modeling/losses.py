"""Losses: the tuples of a whole batch and their logits in, a loss a tuple out.

Dimensions: B tuples, O outputs.
"""

import dataclasses
from collections.abc import Callable
from typing import Protocol

import tensorflow as tf

from common import flags
from common.data.task import Task
from common.errors import InputError
from common.modeling.list_losses import ListwiseKL, MarginMSE, Triplet, Tuples


class Loss(Protocol):
  """A loss over a batch; one tuple's may depend on the others' (pairwise, listwise).

  Attributes:
    needs: Targets that it reads: 'label', 'soft_labels' or 'teacher_logits'. Also 'items' where it
      compares the tuples of a left item, which then come in the same batch and have one output.
      'label' beside others may be NaN, for a tuple without one; alone it may not.
  """

  @property
  def needs(self) -> tuple[str, ...]:
    """Targets that it reads; see above."""

  def __call__(self, tuples: Tuples, logits: tf.Tensor) -> tf.Tensor:
    """The loss of each tuple: [B].

    Args:
      tuples: Each target of `needs`, [B, O] float32 (labels one-hot where O > 1), and 'items',
        [B, slots] int32: the number of each slot's item, the same for the same item in a batch.
      logits: [B, O] float32.
    """


@dataclasses.dataclass(frozen=True)
class CrossEntropy:
  """Eq. 1 (DiPair): `cross_entropy` of a target.

  Args:
    target: 'soft_labels' or 'label'.
  """

  target: str = 'soft_labels'

  @property
  def needs(self) -> tuple[str, ...]:
    """The target alone."""
    return (self.target,)

  def __call__(self, tuples: Tuples, logits: tf.Tensor) -> tf.Tensor:
    """[B], in nats."""
    return cross_entropy(tuples[self.target], logits)


@dataclasses.dataclass(frozen=True)
class SoftenedCrossEntropy:
  """T^2 `cross_entropy` of softmax(t / T) and s / T (Hinton et al., 2015, §2); sigmoid for O = 1.

  Args:
    temperature: T > 0, of both sides; T^2 keeps the gradients' size.
  """

  temperature: float = 1.0
  needs = ('teacher_logits',)

  def __call__(self, tuples: Tuples, logits: tf.Tensor) -> tf.Tensor:
    """[B], in nats."""
    soft_labels = probabilities(tuples['teacher_logits'], self.temperature)
    return self.temperature**2 * cross_entropy(soft_labels, logits / self.temperature)


@dataclasses.dataclass(frozen=True)
class HardLabels:
  """Hard distillation: `cross_entropy` of the label that the teacher would give.

  That is its likeliest class, or 1 where the one output t > 0. With `alpha` 0.5 it is
  hard-label distillation (Touvron et al., 2021, Eq. 3).
  """

  needs = ('teacher_logits',)

  def __call__(self, tuples: Tuples, logits: tf.Tensor) -> tf.Tensor:
    """[B], in nats."""
    z = tuples['teacher_logits']
    one = tf.cast(z > 0, tf.float32)
    labels = one if z.shape[-1] == 1 else tf.one_hot(tf.argmax(z, axis=1), z.shape[-1])
    return cross_entropy(labels, logits)


@dataclasses.dataclass(frozen=True)
class SquaredError:
  """||s - t||^2, of the logits of student and teacher (DSE, §3.5)."""

  needs = ('teacher_logits',)

  def __call__(self, tuples: Tuples, logits: tf.Tensor) -> tf.Tensor:
    """[B], summed over outputs."""
    return tf.reduce_sum(tf.square(logits - tuples['teacher_logits']), axis=1)


@dataclasses.dataclass(frozen=True)
class ScoreError:
  """DSE's label loss of a regression (§3.5): the squared error of the score, which is one output.

  That score is sigmoid(s): the teacher's logits here are before a sigmoid, the labels after it.
  """

  needs = ('label',)

  def __call__(self, tuples: Tuples, logits: tf.Tensor) -> tf.Tensor:
    """[B]."""
    return tf.square(tf.sigmoid(logits) - tuples['label'])[:, 0]


@dataclasses.dataclass(frozen=True)
class WithLabels:
  """alpha l_teacher + (1 - alpha) l_labels (DSE, Eq. 2; Hinton et al., 2015, §2).

  A tuple without a label has the first part alone: l_teacher weighs the same in all, as in a list.

  Args:
    teacher: Loss of the teacher's scores.
    labels: Loss of the labels.
    alpha: From 0 to 1; what has no weight is not needed.
  """

  teacher: Loss
  labels: Loss
  alpha: float

  @property
  def needs(self) -> tuple[str, ...]:
    """Targets of both losses; a loss without weight adds none."""
    return tuple(dict.fromkeys(name for _, loss in self._weighed for name in loss.needs))

  def __call__(self, tuples: Tuples, logits: tf.Tensor) -> tf.Tensor:
    """[B]."""
    if len(self._weighed) == 1:
      return self._weighed[0][1](tuples, logits)
    known = ~tf.math.is_nan(tuples['label'])
    label = tf.where(known, tuples['label'], 0.0)  # a NaN's gradient would be one
    of_labels = tf.where(known[:, 0], self.labels({**tuples, 'label': label}, logits), 0.0)
    return self.alpha * self.teacher(tuples, logits) + (1 - self.alpha) * of_labels

  @property
  def _weighed(self) -> list[tuple[float, Loss]]:
    both = ((self.alpha, self.teacher), (1 - self.alpha, self.labels))
    return [(weight, loss) for weight, loss in both if weight > 0]


# A loss of the teacher's scores, made of its settings.
LOSSES: dict[str, Callable[['LossConfig'], Loss]] = {
  'cross_entropy': lambda config: CrossEntropy(),
  'kd': lambda config: SoftenedCrossEntropy(config.loss_temperature),
  'hard_labels': lambda config: HardLabels(),
  'squared_error': lambda config: SquaredError(),
  'margin_mse': lambda config: MarginMSE(),
  'listwise_kl': lambda config: ListwiseKL(config.loss_temperature),
  'triplet': lambda config: Triplet(),
}


@dataclasses.dataclass(frozen=True)
class LossConfig:
  """A student's loss: one of `LOSSES`, weighed against the labels' own."""

  loss: str = flags.option(
    'cross_entropy',
    "loss against the teacher's scores; of probabilities: cross_entropy (DiPair's Eq. 1), kd "
    "(logits divided by --loss_temperature); of the teacher's likeliest class alone: hard_labels; "
    "of logits: squared_error (DSE's Eq. 2); over a batch's tuples with one left text: margin_mse, "
    'listwise_kl, triplet',
    tuple(LOSSES),
  )
  alpha: float = flags.option(
    1.0,
    "weight of the teacher's loss, alpha of DSE's Eq. 2: 1 uses the teacher alone, 0 the labels "
    "alone; between them, a tuple without a label has the teacher's part alone. Where a textbook's "
    'alpha weighs the labels, give 1 minus it; -1: 0.5 if training pairs are among the made ones '
    'and 20,000 or more (with --loss=cross_entropy), else 1',
    bounds=(-1, 1),
  )
  loss_temperature: float = flags.option(
    1.0, "T of kd and listwise_kl; divides both sides' logits", bounds=(0.001, 1000)
  )

  def __post_init__(self):
    if self.loss not in LOSSES:
      raise InputError(f'--loss={self.loss}: one of {", ".join(LOSSES)}')
    if -1 < self.alpha < 0:
      raise InputError(f'--alpha={self.alpha:g}: a number from 0 to 1 is needed, or -1')

  def check(self, task: Task) -> None:
    """Refuses a loss that the task does not have.

    Losses over lists compare one output; a regression has no hard labels.
    """
    if self.loss == 'hard_labels' and task.kind == 'regression':
      raise InputError(
        '--loss=hard_labels: a regression has no classes; use --task=binary, or another --loss'
      )
    if task.outputs > 1 and 'items' in LOSSES[self.loss](self).needs:
      raise InputError(
        f'--loss={self.loss} compares tuples by one output, and --task={task.kind} has '
        f'{task.outputs}: '
        '--loss=cross_entropy, kd or squared_error'
      )

  def check_settings(self) -> None:
    """Refuses a temperature that the loss does not have."""
    losses = [name for name, make in LOSSES.items() if hasattr(make(self), 'temperature')]
    if self.loss_temperature != LossConfig.loss_temperature and self.loss not in losses:
      raise InputError(
        f'--loss_temperature={self.loss_temperature:g} needs --loss={" or ".join(losses)}; '
        f'--loss={self.loss} has no temperature'
      )

  def build(self, task: Task = Task()) -> Loss:  # noqa: B008 (a frozen dataclass)
    """The loss; squared_error goes with DSE's own of labels, the others with cross-entropy.

    Args:
      task: Kind of the labels. DSE's own loss is a regression's; classes have cross-entropy.
    """
    squared = self.loss == 'squared_error' and task.kind == 'regression'
    labels: Loss = ScoreError() if squared else CrossEntropy('label')
    alpha = 0.5 if self.alpha < 0 else self.alpha  # open: it may become 1, or need some labels
    return WithLabels(LOSSES[self.loss](self), labels, alpha)


def cross_entropy(targets: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
  """Cross-entropy with labels, soft or hard (DiPair, Eq. 1).

  One output: -(y log p + (1 - y) log(1 - p)), p = sigmoid(z), for regression on [0, 1], binary
  classes and soft labels sigmoid(z_teacher / T) alike. More outputs: -Σ_c y_c log softmax(z)_c.

  Args:
    targets: [batch, outputs] in [0, 1]; rows sum to one where outputs > 1.
    logits: [batch, outputs], before the activation.

  Returns:
    [batch], in nats.
  """
  logits = tf.cast(logits, tf.float32)
  if logits.shape[-1] == 1:
    losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=targets, logits=logits)
    return tf.squeeze(losses, -1)
  return tf.nn.softmax_cross_entropy_with_logits(labels=targets, logits=logits)


def probabilities(logits: tf.Tensor, temperature: float = 1.0) -> tf.Tensor:
  """Soft labels (§4.3): sigmoid(z / T) for one output, softmax(z / T) for more.

  Args:
    logits: [batch, outputs].
    temperature: T > 0; higher is softer.

  Returns:
    [batch, outputs] in [0, 1].
  """
  scaled = tf.cast(logits, tf.float32) / temperature
  return tf.sigmoid(scaled) if logits.shape[-1] == 1 else tf.nn.softmax(scaled)
