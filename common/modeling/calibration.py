"""Calibration: what an exported head makes of its logits, so that a score of 0.7 is right 7 times in 10.

  p = sigmoid(z / T), or softmax(z / T) of classes;   score = p, or the line through knots at p

Each rises strictly, so the order of scores stays.

Dimensions: B tuples, O outputs, K knots.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from scipy.special import expit, logit

from common.modeling.losses import probabilities

_LARGEST = 30.0  # of logits, whose sigmoid is not yet 1
_ENDS = (expit(-_LARGEST), expit(_LARGEST))


@dataclasses.dataclass(frozen=True)
class Calibration:
  """A map from logits to scores; as it is made by default, it changes nothing.

  Attributes:
    temperature: T.
    knots: [K, 2], p and its score, both rising, p from 0 to 1; for one output. None: p is the score.
  """

  temperature: float = 1.0
  knots: Sequence[Sequence[float]] = ()

  def scores(self, logits: tf.Tensor) -> tf.Tensor:
    """Scores [B, O] of logits [B, O], by operations that every runtime of a head has."""
    scores = probabilities(logits, self.temperature)
    if not len(self.knots):
      return scores
    places, values = np.array(self.knots, np.float32).T
    # How much of each line lies below: sums of terms that rise do not lose digits to each other.
    shares = tf.clip_by_value((scores - places[:-1]) / np.diff(places), 0.0, 1.0)  # [B, K - 1]
    return values[0] + tf.reduce_sum(np.diff(values) * shares, axis=-1, keepdims=True)

  def logits(self, logits: np.ndarray) -> np.ndarray:
    """Logits [n, O] whose sigmoids, or softmax, are the scores."""
    if not len(self.knots):
      return logits / self.temperature
    scaled = logits.astype(np.float64) / self.temperature  # float32 has one score for many
    places, values = np.array(self.knots, np.float64).T
    found = np.interp(expit(np.clip(scaled, -_LARGEST, _LARGEST)), places, values)
    return logit(np.clip(found, *_ENDS))  # on a flat line rounding comes to 1
