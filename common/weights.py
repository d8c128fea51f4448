"""A model's variables as checkpoints hold them: by their place among all, those that are not trained last."""

import re
from collections.abc import Sequence

import tensorflow as tf

_NAME = re.compile(r'variables/\d+/\.ATTRIBUTES/VARIABLE_VALUE')


def in_checkpoint(variables: Sequence[tf.Variable], path: str) -> Sequence[tf.Variable]:
  """The first variables, without the last ones that a checkpoint lacks, where none of these is trained.

  Students of vectors whose checkpoint has no unit of the vectors' numbers are read so: mean 0, scale 1,
  which their layer was made with.
  """
  there = sum(_NAME.fullmatch(name) is not None for name, _ in tf.train.list_variables(path))
  lacking = variables[there:]
  return variables if any(v.trainable for v in lacking) else variables[:there]
