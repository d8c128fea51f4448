"""A teacher as a SavedModel of texts, to be served beside its students.

  python -m common.distillation.export_teacher \\
    --teacher=runs/p2t/teacher --output=runs/p2t/teacher_export
"""

import dataclasses
import os

from common import extras

with extras.needed('train'):
  import tensorflow as tf

from common import digests, files, flags
from common.data import task
from common.distillation.teacher import MAX_LENGTH, Teacher
from common.errors import InputError, check_pattern_free
from common.export import saved_models
from common.modeling.losses import probabilities
from common.training import strategies


@dataclasses.dataclass(frozen=True)
class ExportConfig:
  """The teacher to export, and the folder for it."""

  teacher: str = flags.option('', "the teacher's folder")
  output: str = flags.option('', 'new folder, which gets the version folder 1/')
  texts: int = flags.option(2, 'texts of a tuple', bounds=(2, 64))
  teacher_max_length: int = flags.option(
    MAX_LENGTH, 'most tokens of a packed tuple, for a Hugging Face classifier', bounds=(4, 8192)
  )
  classes: tuple[str, ...] = flags.option(
    (), 'labels in the order of the outputs, for a Hugging Face classifier with classes'
  )


@strategies.precision()
def write(folder: str, teacher: Teacher, texts: int = 2) -> float:
  """Writes `folder`/1 with the signature `serving_default`: texts to 'logits' and 'score'.

  Its inputs are `left` and `right` for two texts, else `text_0`, `text_1`, …: [B] strings each.

  Args:
    folder: Folder that gets the version folder `1`.
    teacher: Its weights are copied.
    texts: Texts of a tuple.

  Returns:
    The largest difference of the reloaded model's outputs from the live one's.
  """
  names = ('left', 'right') if texts == 2 else tuple(f'text_{i}' for i in range(texts))
  tokenizer = teacher.tokenizer

  @tf.function(autograph=False)
  def score(**columns: tf.Tensor) -> dict[str, tf.Tensor]:
    ids, segment_ids = tokenizer.pack([columns[name] for name in names], teacher.max_length)
    ids = ids.to_tensor(tokenizer.pad_id)
    segments = segment_ids.to_tensor(0, shape=tf.shape(ids))
    logits = tf.cast(teacher.model(ids, segments, training=False), tf.float32)
    scores = probabilities(logits)
    return {'logits': logits, 'score': scores[:, 0] if teacher.outputs == 1 else scores}

  function = score.get_concrete_function(
    **{name: tf.TensorSpec([None], tf.string, name=name) for name in names}
  )
  samples = {name: ['a red shoe', 'b'] for name in names}
  signatures = {'serving_default': function}
  saved = saved_models.save(
    folder, signatures, teacher.model.variables, {'serving_default': samples}
  )
  difference = saved_models.verify(saved).result()
  digests.write(folder)
  return difference


def main(config: ExportConfig) -> None:
  """Exports, unless it is there."""
  if not config.teacher or not config.output:
    raise InputError("--teacher and --output: a teacher's folder, and a new one")
  check_pattern_free(config.output, '--output')
  if os.path.exists(config.output):
    raise InputError(f'--output={config.output}: there already; name another')
  with strategies.precision():
    teacher = Teacher.load(
      config.teacher, config.teacher_max_length, task.of_classes(config.classes)
    )
  if teacher.similarity:
    print(f'the cross-encoder alone, without the similarity of {teacher.similarity.pretrained}')
  with files.whole_folder(config.output) as part:
    difference = write(part, teacher, config.texts)
  print(f'{config.output}: the largest difference from the teacher is {difference:.1e}')


if __name__ == '__main__':
  flags.command(main, ExportConfig)
