"""The export: encoder and head apart."""

import dataclasses
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from common import flags
from common.data.examples import TableConfig
from common.data.records import RecordSet
from common.data.task import Task
from common.distillation.inference import TupleScorer
from common.distillation.student import TrainedStudent
from common.evaluation import calibration
from common.export import student_export
from common.training import strategies

_SAMPLES = 8  # test tuples whose texts the export is compared on
_TEXTS = 100_000  # of each set and slot, whose word pieces are compared
_HARD = (
  '',
  ' \t\n',
  'a\x00b\x07\x85c',
  'ΣΑΣ İı',
  '½ ™ ß ﬁ ²',
  '中文 한국 カナ',
  '👩\u200d👩😀',
  'é e\u0301 [CLS] ##a',
)


@dataclasses.dataclass(frozen=True)
class Exported:
  """Sizes of the export, and how far it is from the live model.

  Attributes:
    max_difference: Of the SavedModels' outputs from the live model's, the largest.
    unlike_texts: Texts, of `compared_texts`, whose word pieces are others without TensorFlow.
  """

  max_difference: float
  compared_texts: int
  unlike_texts: int
  encoder_bytes: int
  head_bytes: int
  vector_bytes: dict[str, int]
  online_bytes: int | None = None


@dataclasses.dataclass(frozen=True)
class ExportConfig:
  """Calibration of the exported head."""

  calibration: str = flags.option(
    calibration.NONE,
    'calibration of the exported scores; temperature: divide the logits by a number fitted on '
    'valid; the order of scores stays',
    calibration.METHODS,
  )


def write(
  config: ExportConfig,
  table: TableConfig,
  task: Task,
  models: Callable[[], Mapping[str, TrainedStudent]],
  data: str,
  folder: str,
) -> Exported:
  """Writes SavedModels and other forms of the last of a student's models.

  Args:
    config: Calibration.
    table: Columns of a tuple.
    task: Kind of the labels.
    models: Loads the trained models, by name, in the precision that holds then.
    data: Folder of the labelled sets.
    folder: Gets the export.
  """
  with strategies.precision():
    trained, tokenizer = list(models().values())[-1]
    paths = [os.path.join(data, name) for name in ('test', 'train')]
    sets = [RecordSet(path) for path in paths if os.path.isdir(path)]  # brought logits: no train
    temperature = 1.0
    if config.calibration == calibration.TEMPERATURE:
      valid = RecordSet(os.path.join(data, 'valid'))
      logits = TupleScorer(trained, tokenizer, tf.distribute.get_strategy()).of_set(valid)
      temperature = calibration.fit(task.kind, valid.tuples().labels, logits)
    written = student_export.write(
      folder,
      trained,
      tokenizer,
      slots=student_export.slot_names(table.text_columns),
      task=task.kind,
      samples=samples(sets[0]),
      temperature=temperature,
    )
  own = sorted({text for records in sets for text in _texts(records)}.union(_HARD))
  unlike = list(tokenizer.unlike(own))
  for text in unlike[:10]:
    print(f'without TensorFlow other word pieces: {text!r}', file=sys.stderr)
  return Exported(**written, compared_texts=len(own), unlike_texts=len(unlike))


def samples(test: RecordSet) -> list[tuple[Any, ...]]:
  """A few texts (or vectors) a slot of a test set, for `student_export.write` to compare on."""
  return list(zip(*test.texts(slice(_SAMPLES)), strict=True))


def _texts(records: RecordSet) -> Iterator[str]:
  """The first texts of each slot of its tuples."""
  for slot in (slot for slot, width in enumerate(records.widths) if not width):
    rows = np.unique(records.tuples().items[:, slot])[:_TEXTS]
    yield from records.items(slot).texts(rows)
