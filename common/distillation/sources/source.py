"""Contract of a source of a run's items and tuples."""

import abc
import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, TypeVar

from tqdm import tqdm

from common import files
from common.data import record_writer
from common.data.examples import Example, Labels
from common.data.records import Manifest
from common.digests import FILE
from common.errors import InputError

Row = TypeVar('Row')


@dataclasses.dataclass(frozen=True)
class UnlabelledSet:
  """The tuples that the teacher will score.

  Attributes:
    count: How many.
    mined: The datasheet of a mined task.
    left_out: How many more it had, which stand in a set that judges.
  """

  count: int
  mined: dict[str, Any] | None = None
  left_out: int = 0


class Source(abc.ABC):
  """A source of labelled sets and, if `brings_tuples`, of unlabelled tuples for the teacher.

  Attributes:
    named: The flags that ask for it, as a refusal names them.
    pairs: Whether its tuples are of two texts, whatever --text_columns names.
    language: Language of all its texts, as Hugging Face's hub names it; empty: not known.
  """

  named: ClassVar[str]
  pairs: ClassVar[bool] = False
  language: ClassVar[str] = ''

  @property
  def on_hub(self) -> list[str]:
    """Data sets of it on Hugging Face's hub, by id."""
    return []

  @property
  def brings_tuples(self) -> bool:
    """Whether it has unlabelled tuples of its own; if not, they are made of the training texts."""
    return False

  @property
  def brings_logits(self) -> bool:
    """Whether these hold the teacher's logits."""
    return False

  @property
  def brings_labels(self) -> bool:
    """Whether these may have labels."""
    return False

  def check(self) -> None:  # noqa: B027  # most have nothing to refuse
    """Refuses flags that do not fit one another."""

  @abc.abstractmethod
  def labelled_inputs(self) -> dict[str, Any]:
    """Inputs of the labelled sets: this source's flags, and each file's sha256."""

  def unlabelled_inputs(self) -> dict[str, Any]:
    """Inputs of the unlabelled set beside the labelled sets'."""
    return {}

  @abc.abstractmethod
  def write_labelled(self, folder: str, seed: int) -> dict[str, Manifest]:
    """Writes `train`, `valid`, `test` and what other sets there are into `folder`."""

  def write_unlabelled(self, data: str, folder: str, seed: int, labels: Labels) -> UnlabelledSet:
    """Writes the source's own unlabelled tuples.

    Args:
      data: The folder that `write_labelled` filled.
      folder: The record set's folder.
      seed: Seed of whatever is drawn.
      labels: What is asked of them, where they may have some.
    """
    raise NotImplementedError


def write_examples(
  folder: str,
  sets: Mapping[str, Iterable[Example]],
  slots: int,
  *,
  group: int = 64,
  info: dict[str, Any] | None = None,
) -> dict[str, Manifest]:
  """Writes rows of texts as record sets that share one item table a slot.

  Args:
    folder: Gets a folder a set.
    sets: Rows by set; '' is `folder` itself.
    slots: Texts of a row.
    group: So many rows that follow one another stay together, so that a sorted file costs fewer
      encodings.
    info: Goes into the manifests.

  Returns:
    Their manifests.
  """
  name_of = os.path.basename(folder).removesuffix('.part')
  numbered = {
    name: record_writer.of_examples(counted(rows, name or name_of, 'tuples'), group)
    for name, rows in sets.items()
  }
  return record_writer.write_sets(folder, numbered, slots, info=info)


def counted(rows: Iterable[Row], name: str, unit: str) -> Iterator[Row]:
  """Streams rows under a progress bar, which is made with the first of them.

  A bar that is made before would print its last line after the error that ends the set before.
  """
  yield from tqdm(rows, desc=name, unit=f' {unit}')


def digests(paths: Iterable[str]) -> dict[str, str]:
  """SHA-256 of each file; a run with changed files is another run."""
  found = {}
  for path in filter(None, paths):
    try:
      found[f'{FILE}{path}'] = files.sha256(path)[:16]
    except FileNotFoundError as error:
      raise InputError(f'{path}: no such file') from error
  return found
