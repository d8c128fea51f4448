"""The best of many scores."""

import numpy as np


def top(scores: np.ndarray, top_k: int) -> np.ndarray:
  """Indices of the top scores, best first; ties stay in input order."""
  numbers = np.arange(len(scores))
  if 0 < top_k < len(scores):  # what ties with the last one stays, so that order decides
    numbers = np.flatnonzero(scores >= np.partition(scores, -top_k)[-top_k])
  return numbers[np.argsort(-scores[numbers], kind='stable')][:top_k]
