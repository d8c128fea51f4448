"""Starting point of projections and transformer head: words attend to like words in the other text.

The paper leaves it open. From random weights, a head has to find out that the same word in two
texts is a match; here it starts from there (`docs/explanation/design.md` compares), unless
`--head_start=random` leaves all weights as they were drawn:

* every projection is the same one, the principal components of the encoder's own tokens, scaled to
  one on average: similar tokens stay similar, and the slots can be compared;
* tokens made of a vector in a text's place are the least-squares guess at the tokens of the texts
  that it goes with, by the teacher; further tokens come from a random kernel that gives each number
  of the vector, first brought to zero mean and unit variance, the same weight; they have zero mean
  and unit variance too;
* position embeddings take away what all tokens at a position have in common, so similar are those
  that say the same, not those that stand at the same place;
* segment embeddings are as large as tokens, so what a token attends to says which text it met;
* queries are identities; keys too, but with the segments' sign turned: attention looks at similar
  tokens, those of the other text before those of its own, which would outshine them.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from common.data.tuples import Tuples
from dipair.encoder import VectorTokens
from dipair.student import DiPair

_TOGETHER = 1024  # texts whose features become tokens at a time


def matched_slots(student: DiPair) -> list[int]:
  """Slots of the scored tuples that `start` takes: the first slot of texts, and all of vectors.

  None where all are texts or all vectors, and of a task of classes, whose scores name no matches.
  """
  vectors = [slot for slot, width in enumerate(student.widths) if width]
  if student.outputs > 1 or not vectors or 0 not in student.widths:
    return []
  return [student.widths.index(0), *vectors]


def start(
  student: DiPair,
  features: Sequence[np.ndarray],
  seed: int,
  matches: tuple[Mapping[int, np.ndarray], Tuples] | None = None,
) -> None:
  """Sets the starting point of a new student's projections and head.

  Args:
    student: Changed in place. A head says itself how it starts (`Head.start`).
    features: [U_i, k_i, H] a slot, of some texts; all-zero rows are padding. Or [U_i, w], vectors.
    seed: Seed of the head's random numbers.
    matches: Features of other items, likewise, by slot, and scored tuples of them: of
      `matched_slots`, where there are some.
  """
  set_units(student, features)
  texts = [x for x, width in zip(features, student.widths, strict=True) if not width]
  of_texts = _principal_components(texts, student.dim) if texts else ()
  for projection, given in zip(student.projections, features, strict=True):
    if isinstance(projection, VectorTokens):
      projection.dense.set_weights(
        _random(projection.standardized(given).numpy(), projection, seed)
      )
    elif projection.dense is not None:
      projection.dense.set_weights(of_texts)
  if matches is not None:
    _guess_matches(student, *matches)
  vectors = [
    student.vectors(tf.constant(x, tf.float32), slot).numpy() for slot, x in enumerate(features)
  ]
  student.head.start(vectors, seed)


def set_units(student: DiPair, features: Sequence[np.ndarray]) -> None:
  """Sets the units of vectors in a text's place; features as of `start`."""
  for projection, given in zip(student.projections, features, strict=True):
    if isinstance(projection, VectorTokens):
      mean, scale = _units(given)
      projection.mean.assign(mean)
      projection.scale.assign(scale)


def _units(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Mean [w] and scale [w] that bring each number of vectors [U, w] to zero mean and unit variance.

  The unit of a number that is the same in all of them is its own size, so that it counts where it
  varies in others.
  """
  exact = np.asarray(vectors, np.float64)
  spread, size = exact.std(0), np.abs(exact).max(0)
  unit = np.where(spread > 1e-6 * size, spread, size)
  return exact.mean(0), 1 / np.where(unit > 0, unit, 1.0)


def _random(
  standardized: np.ndarray, layer: VectorTokens, seed: int
) -> tuple[np.ndarray, np.ndarray]:
  """Random kernel [w, k D] and bias [k D] that map vectors to zero mean, on average unit variance.

  Each of a vector's numbers has an equal share in that; one that is constant has none.
  """
  shape = standardized.shape[1], layer.dense.units
  varies = standardized.std(0) > 0.5
  shares = varies / math.sqrt(max(1, varies.sum()))
  kernel = np.random.default_rng(seed).normal(size=shape) * shares[:, None]
  return kernel, -standardized.mean(0) @ kernel


def _guess_matches(student: DiPair, features: Mapping[int, np.ndarray], tuples: Tuples) -> None:
  """Makes of a vector the tokens that texts of the first slot have where the teacher sees a match.

  They come from a ridge regression of these tokens on the vector over all tuples, weighted by the
  teacher's score; at positions past those texts' ends, tokens stay.
  """
  of_text = student.widths.index(0)
  blocks = (
    features[of_text][i : i + _TOGETHER] for i in range(0, len(features[of_text]), _TOGETHER)
  )
  tokens = np.concatenate([student.vectors(tf.constant(b), of_text).numpy() for b in blocks])
  positions = int(tokens.any((0, 2)).sum())  # at which a text has a token: the first ones
  logits = np.asarray(tuples.teacher_logits, np.float64)
  if not logits.min() <= 0 <= logits.max():  # scores to compare, whose level is free
    logits = (logits - logits.mean()) / max(logits.std(), 1e-6)
  weight = tf.sigmoid(logits.astype(np.float32)).numpy()  # [n, 1]
  for slot, width in enumerate(student.widths):
    if width:
      own = student.projections[slot]
      kept = min(positions, own.tokens) * tokens.shape[2]
      standardized = own.standardized(features[slot]).numpy()
      mean = standardized.mean(0)
      x = (standardized - mean)[tuples.items[:, slot]]
      y = tokens.reshape([len(tokens), -1])[:, :kept][tuples.items[:, of_text]]
      y -= np.average(y, 0, weight[:, 0])
      weighted = (weight * x).T
      found = np.linalg.solve(weighted @ x + width * np.eye(width), weighted @ y)
      found /= max(1e-6, (x @ found).std(0).mean())
      kernel, bias = own.dense.get_weights()
      kernel[:, :kept], bias[:kept] = found, -mean @ found
      own.dense.set_weights([kernel, bias])


def _principal_components(tokens: Sequence[np.ndarray], dim: int) -> tuple[np.ndarray, np.ndarray]:
  """Kernel [H, dim] and bias [dim] that map tokens to zero mean and, on average, unit variance."""
  rows = np.concatenate([slot.reshape([-1, slot.shape[-1]]) for slot in tokens])
  rows = rows[np.any(rows != 0, axis=1)]
  mean = rows.mean(0)
  variances, components = np.linalg.eigh(np.cov(rows, rowvar=False))  # in rising order
  kept = components[:, ::-1][:, :dim]  # [H, min(H, dim)]
  kept = kept * np.sign(kept[np.abs(kept).argmax(0), range(kept.shape[1])])
  kept = kept / np.sqrt(variances[::-1][:dim].mean())
  kernel = np.pad(kept, [(0, 0), (0, dim - kept.shape[1])])
  return kernel, -mean @ kernel
