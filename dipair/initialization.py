"""Starting point of projections and transformer head: words attend to those like them in the other text.

The paper leaves it open. From random weights, a head needs millions of pairs to find out that the
same word in two texts is a match; here it starts from there (`docs/architecture.md` compares):

* every projection is the same one, the principal components of the encoder's own tokens, scaled to
  one on average: similar tokens stay similar, and the slots can be compared;
* position embeddings take away what all tokens at a position have in common, so similar are those
  that say the same, not those that stand at the same place;
* segment embeddings are as large as tokens, so what a token attends to says which text it met;
* queries are identities; keys too, but with the segments' sign turned: attention looks at similar
  tokens, those of the other text before those of its own, which would outshine them.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from dipair.student import DiPair


def start(student: DiPair, features: Sequence[np.ndarray], seed: int) -> None:
  """Sets the starting point of a new student's projections and head.

  Args:
    student: Changed in place. A head says itself how it starts (`Head.start`).
    features: [U_i, k_i, H] a slot, of some texts; all-zero rows are padding.
    seed: Seed of the head's random numbers.
  """
  kernel, bias = _principal_components(features, student.dim)
  for projection in student.projections:
    if projection.dense is not None:
      projection.dense.kernel.assign(kernel)
      projection.dense.bias.assign(bias)
  vectors = [
    student.vectors(tf.constant(x, tf.float32), slot).numpy() for slot, x in enumerate(features)
  ]
  student.head.start(vectors, seed)


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
