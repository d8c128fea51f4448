"""A student's package, as a run sees it, and checks of its distillation set."""

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from common.data.examples import Labels
from common.data.records import RecordSet
from common.data.tokenization import Tokenizer
from common.data.tuples import check_lists
from common.distillation.trainer import Training
from common.errors import InputError
from common.modeling.losses import Loss
from common.scoring.scorer import PairScorer

LABELS_ALONE = '--alpha=0 (DSE: --variants=labels)'
TrainedStudent = tuple[Any, Tokenizer]  # a model that can be exported, and its tokenizer


class StudentPackage(Protocol):
  """A student's package, as a run sees it."""

  name: str  # of its package: 'dipair'
  title: str  # as people write it: 'DiPair'
  depends_on: dict[str, Any]  # flags of its stage
  batch_sizes: dict[str, int]  # tuples of a step, by flag, of what is trained

  def __init__(self, config: Any):
    """The student of a run's config."""

  @property
  def losses(self) -> Collection[Loss]:
    """Losses used in training."""

  @property
  def scorer(self) -> type[PairScorer]:
    """Class that loads this student's exports."""

  def check(self) -> None:
    """Refuses flags and checkpoints that could only fail later, after hours."""

  def train(self, folder: str, training: Training) -> list[dict[str, Any]]:
    """Distils into `folder`; returns the phases' histories."""

  def models(self, folder: str) -> dict[str, TrainedStudent]:
    """Models to evaluate, by name; the last one is exported."""


def labels_of(losses: Collection[Loss]) -> Labels:
  """Labels that the losses need: on 'all' tuples if a loss reads nothing else, 'some' or 'none'."""
  if any(loss.needs == ('label',) for loss in losses):
    return 'all'
  return 'some' if any('label' in loss.needs for loss in losses) else 'none'


def check_set(records: RecordSet, losses: Collection[Loss], batch_sizes: Mapping[str, int]) -> None:
  """Refuses a distillation set that is of no use to a student, before its training.

  Args:
    records: The set, scored or not yet; without a teacher, the training set.
    losses: The student's.
    batch_sizes: Tuples of a step, by flag, of what is trained.

  Raises:
    InputError: If a step takes more tuples than there are; a loss compares a left text's tuples and
      each left text has only one; a loss takes labels and there are none; or a loss takes labels
      alone and a tuple has none.
  """
  for flag, size in batch_sizes.items():
    if size > len(records):
      raise InputError(f'--{flag}={size}: there are {len(records)} tuples to learn from')
  if any('items' in loss.needs for loss in losses):
    check_lists(records.tuples())
  labels = labels_of(losses)
  if labels == 'all' and not all(group.labelled.all() for group in records.groups()):
    raise InputError(
      f'{records.folder}: holds tuples without a label, and {LABELS_ALONE} takes labels alone; '
      'give each tuple a label, or remove the tuple'
    )
  if labels == 'some' and not any(group.labelled.any() for group in records.groups()):
    raise InputError(
      f'{records.folder}: holds no tuple with a label, and this loss needs labels; add labels, or '
      'use --alpha=1'
    )
