"""A student's package, as a run sees it, and what it asks of its distillation set."""

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from common.data.records import RecordSet
from common.data.tokenization import Tokenizer
from common.data.tuples import check_lists
from common.distillation.trainer import Training
from common.errors import InputError
from common.scoring.scorer import PairScorer

TrainedStudent = tuple[Any, Tokenizer]  # a model that can be exported, and its tokenizer


class StudentPackage(Protocol):
  """A student's package, as a run sees it."""

  name: str  # of its package: 'dipair'
  title: str  # as people write it: 'DiPair'
  depends_on: dict[str, Any]  # flags of its stage
  batch_sizes: dict[str, int]  # tuples of a step, by flag, of what is trained

  @property
  def needs(self) -> Collection[str]:
    """Targets that its losses read, as of `Loss`."""

  @property
  def scorer(self) -> type[PairScorer]:
    """Class that loads this student's exports."""

  def check(self) -> None:
    """Refuses flags and checkpoints that could only fail later, after hours."""

  def train(self, folder: str, training: Training) -> list[dict[str, Any]]:
    """Distils into `folder`; returns the phases' histories."""

  def models(self, folder: str) -> dict[str, TrainedStudent]:
    """Models to evaluate, by name; the last one is exported."""


def check_set(records: RecordSet, needs: Collection[str], batch_sizes: Mapping[str, int]) -> None:
  """Refuses a distillation set that is of no use to a student, before its training.

  Args:
    records: The set, scored or not yet.
    needs: Targets that the student's losses read, as of `Loss`.
    batch_sizes: Tuples of a step, by flag, of what is trained.

  Raises:
    InputError: If a step takes more tuples than there are, a loss compares a left text's tuples and each
      stands in one alone, or a loss takes labels and a tuple has none.
  """
  for flag, size in batch_sizes.items():
    if size > len(records):
      raise InputError(f'--{flag}={size}: the distillation set has {len(records)} tuples')
  if 'items' in needs:
    check_lists(records.tuples())
  if 'label' in needs and not all(group.labelled.all() for group in records.groups()):
    raise InputError(
      f'{records.folder}: holds tuples without a label, and the loss takes labels: give each one, or '
      '--alpha=1'
    )
