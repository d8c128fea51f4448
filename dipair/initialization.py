"""Where projections and head start: with words of one text attending to those like them in the other.

The paper leaves it open. From random weights, a head needs millions of pairs to find out that the
same word on two sides is a match; here it starts from there (`docs/architecture.md` compares):

* every projection is the same one, the principal components of the encoder's own tokens, scaled to
  one on average: similar tokens stay similar, and the sides can be compared;
* position embeddings take away what all tokens at a position have in common, so similar are those
  that say the same, not those that stand at the same place;
* segment embeddings are as large as tokens, so what a token attends to says which text it met;
* queries are identities; keys too, but with the segments' sign turned: attention looks at similar
  tokens, those of the other text before those of its own, which would outshine them.
"""

from collections.abc import Sequence

import numpy as np

from dipair.heads import TransformerHead
from dipair.model import DiPair


def start(model: DiPair, tokens: Sequence[np.ndarray], seed: int) -> None:
  """Sets the starting point of a new student's projections and head.

  Args:
    model: Changed in place. A feed-forward head keeps its random weights.
    tokens: [U_i, k_i, H] a text slot, unprojected, of some texts; all-zero rows are padding.
    seed: Of the segment embeddings.
  """
  kernel, bias = _principal_components(tokens, model.dim)
  common = np.concatenate([_mean_by_position(slot) for slot in tokens])  # [S, H]
  for projection in model.projections:
    if projection.dense is not None:
      projection.dense.kernel.assign(kernel)
      projection.dense.bias.assign(bias)
  if not isinstance(model.head, TransformerHead):
    return
  projected = model.projections[0].dense is not None
  model.head.positions.assign(-(common @ kernel + bias if projected else common))
  segments = np.random.default_rng(seed).normal(size=model.head.segments.shape)
  model.head.segments.assign(segments)
  span, _ = np.linalg.qr(segments.T)
  turned = np.eye(model.dim) - 2 * span @ span.T
  for variable in model.head.attention_kernels():
    dim, heads, width = variable.shape
    looked_for = turned if variable.name.split(':')[0].endswith('key/kernel') else np.eye(dim)
    variable.assign((looked_for @ np.eye(dim, heads * width)).reshape([dim, heads, width]))


def _mean_by_position(tokens: np.ndarray) -> np.ndarray:
  """Of tokens [U, k, H] that are no padding: [k, H]."""
  present = np.any(tokens != 0, axis=-1).sum(0)  # [k]
  return tokens.sum(0) / np.maximum(1, present)[:, None]


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
