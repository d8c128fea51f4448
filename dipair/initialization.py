"""Starting point of projections and transformer head: words attend to those like them in the other text.

The paper leaves it open. From random weights, a head needs millions of pairs to find out that the
same word in two texts is a match; here it starts from there (`docs/architecture.md` compares):

* every projection is the same one, the principal components of the encoder's own tokens, scaled to
  one on average: similar tokens stay similar, and the slots can be compared;
* tokens made of a vector in a text's place have zero mean and unit variance too, by a random kernel that
  gives each number of the vector the same weight;
* position embeddings take away what all tokens at a position have in common, so similar are those
  that say the same, not those that stand at the same place;
* segment embeddings are as large as tokens, so what a token attends to says which text it met;
* queries are identities; keys too, but with the segments' sign turned: attention looks at similar
  tokens, those of the other text before those of its own, which would outshine them.
"""

import math
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from dipair.encoder import VectorTokens
from dipair.student import DiPair


def start(student: DiPair, features: Sequence[np.ndarray], seed: int) -> None:
  """Sets the starting point of a new student's projections and head.

  Args:
    student: Changed in place. A head says itself how it starts (`Head.start`).
    features: [U_i, k_i, H] a slot, of some texts; all-zero rows are padding. Or [U_i, w], vectors.
    seed: Seed of the head's random numbers.
  """
  texts = [x for x, width in zip(features, student.widths, strict=True) if not width]
  kernel, bias = _principal_components(texts, student.dim)
  for projection, given in zip(student.projections, features, strict=True):
    if isinstance(projection, VectorTokens):
      projection.dense.set_weights(_standardized(given, projection.dense.units, seed))
    elif projection.dense is not None:
      projection.dense.set_weights([kernel, bias])
  vectors = [
    student.vectors(tf.constant(x, tf.float32), slot).numpy() for slot, x in enumerate(features)
  ]
  student.head.start(vectors, seed)


def _standardized(vectors: np.ndarray, units: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
  """Random kernel [w, units] and bias [units] that map vectors to zero mean, on average unit variance.

  Each of a vector's numbers has an equal share in that, whatever its unit; one that is constant has none.
  """
  random = np.random.default_rng(seed).normal(size=(vectors.shape[1], units))
  spread = vectors.std(0)
  varies = spread > 1e-6 * spread.max(initial=1e-6)
  shares = varies / np.where(varies, spread, 1.0) / math.sqrt(max(1, varies.sum()))
  kernel = random * shares[:, None]
  return kernel, -vectors.mean(0) @ kernel


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
