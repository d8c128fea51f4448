"""A head on vectors: one left row with many right ones, whose parts may be there."""

from typing import Any

import numpy as np

from common.errors import InputError
from common.scoring import best
from common.scoring.runtime import HeadRuntime, Inputs, Vectors
from common.vectors.store import VectorStore


class HeadScorer:
  """An export's head.

  Args:
    description: The export's.
    head: The head.

  Attributes:
    slots: Names of the slots: ('left', 'right') for pairs.
    vector_shapes: Shape of a text's vectors, by slot.
    widths: Of slots that take vectors (an image's, a user's) in place of texts, the vectors' width.
    outputs: Logits a pair.
    attends: Whether `attention` can be asked for: of a transformer head.
    calibration: Fields of its `Calibration`.
  """

  def __init__(self, description: dict[str, Any], head: HeadRuntime):
    self._head = head
    self.slots = tuple(description['slots'])
    self.vector_shapes = {
      slot: tuple(shape)
      for slot, shape in zip(self.slots, description['vector_shapes'], strict=True)
    }
    self.widths: dict[str, int] = description['widths']
    self.outputs, self.attends = description['outputs'], description['attends']
    self.calibration: dict[str, Any] = description['calibration']

  def check_ranks(self) -> None:
    """Refuses a model that does not rank: of a tuple of more than two, or of classes, which have no order."""
    if len(self.slots) != 2 or self.outputs != 1:
      raise InputError('rank takes a model of two sides and one output')

  def one_to_many(
    self, left: np.ndarray, left_part: np.ndarray, right: Vectors, parts: np.ndarray | None
  ) -> np.ndarray:
    """Scores of one left row with every right one, given their parts: [rights], or [rights, C]."""
    if not len(right):
      return self._none()
    return self._head.run(*self._one_to_many(left, left_part, right, parts))

  def one_to_many_scored(
    self, left: np.ndarray, left_part: np.ndarray, right: Vectors, parts: np.ndarray | None
  ) -> tuple[np.ndarray, np.ndarray]:
    """The same of a model of one output: logits, which rank, and scores, [rights] each."""
    if not len(right):
      return self._none(), self._none()
    return self._head.scored(*self._one_to_many(left, left_part, right, parts))

  def ranked(
    self,
    left: np.ndarray,
    left_parts: np.ndarray,
    right: Vectors | VectorStore,
    top_k: int,
    parts: np.ndarray | None,
    rows: np.ndarray | None,
  ) -> list[list[tuple[int, float]]]:
    """`best.ranked` of left rows [q, ...] and their parts; no right vectors are read that the head does not take."""

    def score(query: int, block: Vectors, block_parts: np.ndarray | None) -> Any:
      one = slice(query, query + 1)
      return self.one_to_many_scored(left[one], left_parts[one], block, block_parts)

    read = parts is None or self.slots[1] in self._head.inputs('of_parts')
    return best.ranked(score, len(left), right, top_k, parts, rows, read)

  def _one_to_many(
    self, left: np.ndarray, left_part: np.ndarray, right: Vectors, parts: np.ndarray | None
  ) -> tuple[str, Inputs]:
    """The signature that takes them, and its inputs."""
    signature = 'one_to_many' if parts is None else 'of_parts'
    one, other = self.slots
    inputs: Any = {one: left, f'{one}_part': left_part, other: right, f'{other}_part': parts}
    return signature, {name: inputs[name] for name in self._head.inputs(signature)}

  def _none(self) -> np.ndarray:
    """Scores of no pairs."""
    return np.zeros([0] if self.outputs == 1 else [0, self.outputs], np.float32)
