"""Sentence vectors and their similarity with a DSE export. No training code.

One text against many is scored split (Eq. 3): W1 u and W2 v once per text, the rest per pair.
"""

import functools
import os
from collections.abc import Iterator

import numpy as np
from tqdm import tqdm

from common import files
from common.errors import InputError, check_parent, check_whole, local_path
from common.scoring.best import top
from common.scoring.runtime import Vectors
from common.scoring.scorer import PairScorer, Texts

_SCORES_HELD = 16_000_000  # of a block of rows of `score_all_pairs`, whose parts are held


class Embedder(PairScorer):
  """An exported DSE student; a text's vector is [d], whichever its side.

  >>> embedder = Embedder.load('runs/stsb/export')
  >>> vectors = embedder.encode(sentences)  # once per text
  >>> embedder.score_all_pairs(vectors)  # [n, n]
  """

  kind = 'dse'

  def encode(
    self, texts: Texts, side: str = '', *, batch_size: int = 128, progress: bool = False
  ) -> np.ndarray:
    """`PairScorer.encode`; a model whose sides encode alike takes texts without a `side`."""
    if not side and not self._alike:
      raise InputError(
        f'side: {self.slots[0]!r} or {self.slots[1]!r} is needed; '
        'each side of this model has an encoder or a text length of its own'
      )
    return super().encode(texts, side or self.slots[0], batch_size=batch_size, progress=progress)

  def score_all_pairs(
    self,
    left: Texts,
    right: Texts | None = None,
    *,
    top_k: int = 0,
    out: str | os.PathLike[str] = '',
    progress: bool = False,
  ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
    """Scores every left text with every right one, block by block.

    Args:
      left: n vectors from `encode`, or texts.
      right: m of them; the left ones where absent, but not for vectors of sides that encode
        differently.
      top_k: Keep so many for each left text; 0: all.
      out: A `.npy` file for the scores, written as they come, whole or not at all, and returned
        memory-mapped; without it all scores are held in memory.
      progress: Whether a progress bar is shown.

    Returns:
      [n, m] float32 probabilities, [n, m, C] for C classes; with `top_k`, best first, right
      numbers [n, k] and their scores [n, k].

    Raises:
      InputError: If an argument does not fit.
    """
    check_whole('top_k', top_k, 0)
    out = local_path(out, 'out') if out else ''
    if top_k and (out or self.outputs != 1):
      raise InputError('top_k takes a model of one output, and no out')
    if out:
      check_parent(out, 'out')
    of_left = self._checked(left, 'left')
    if right is None and of_left.encoded and not self._alike:
      raise InputError(
        "each side has an encoder or a text length of its own: right, of encode(texts, 'right')"
      )
    as_left = right is None and self._alike
    of_right = of_left if right is None else self._checked(right, 'right')
    u = self._vectors(of_left, 'left')
    v = u if as_left else self._vectors(of_right, 'right')
    rows, k = self._rows(u, v, progress), min(top_k, len(v))
    shape = (len(u), len(v), *((self.outputs,) if self.outputs > 1 else ()))
    if top_k:
      found, best = np.zeros([len(u), k], np.int64), np.zeros([len(u), k], np.float32)
      for row, asked in rows:
        logits, of_row = self.one_to_many(*asked)
        found[row] = top(logits, k)
        best[row] = of_row[found[row]]
      return found, best
    if not out:
      scores = np.zeros(shape, np.float32)
      for row, asked in rows:
        scores[row] = self.one_to_many(*asked)[1]
      return scores
    with files.whole(out) as path:
      mapped = np.lib.format.open_memmap(path, mode='w+', dtype=np.float32, shape=shape)
      files.reserve(path)
      for row, asked in rows:
        mapped[row] = self.one_to_many(*asked)[1]
      del mapped  # writes what is left
    return np.load(out, mmap_mode='r')

  def _rows(
    self, u: Vectors, v: Vectors, progress: bool
  ) -> Iterator[tuple[int, tuple[np.ndarray, np.ndarray, Vectors, np.ndarray]]]:
    """Each row of u by its number, with all of v for `one_to_many`; parts are held by blocks."""
    parts = self._parts(v, 'right')
    height = max(1, _SCORES_HELD // max(1, len(v) * self.outputs))
    with tqdm(total=len(u) * len(v), disable=not progress, unit=' pairs', unit_scale=True) as bar:
      for start in range(0, len(u), height):
        block = u[start : start + height]
        of_block = zip(block, self._parts(block, 'left'), strict=True)
        for row, (one, part) in enumerate(of_block, start):
          yield row, (one[None], part[None], v, parts)
          bar.update(len(v))

  @functools.cached_property
  def _alike(self) -> bool:
    """Whether both sides encode a text alike: by one encoder, cut at one length."""
    description = self._export.description
    return all(len(set(description[name])) == 1 for name in ('encoded_as', 'max_lengths'))
