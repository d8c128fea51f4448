"""Calibration: scores of logits by a temperature, so that a score of 0.7 is right 7 times in 10.

  score = sigmoid(z / T), or softmax(z / T) of classes (Guo et al., 2017, §4.2)

It rises strictly, so the order of scores stays.

Dimensions: B tuples, O outputs.
"""

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
  import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Calibration:
  """A map from logits to scores; as it is made by default, it changes nothing.

  Attributes:
    temperature: T.
  """

  temperature: float = 1.0

  def scores(self, logits: 'tf.Tensor') -> 'tf.Tensor':
    """Scores [B, O] of logits [B, O], by operations that every runtime of a head has."""
    from common.modeling.losses import probabilities  # an evaluation needs no TensorFlow

    return probabilities(logits, self.temperature)

  def logits(self, logits: np.ndarray) -> np.ndarray:
    """Logits [n, O] whose sigmoids, or softmax, are the scores."""
    return logits / self.temperature
