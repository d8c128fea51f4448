"""How near a tuple's texts are, as a part of a teacher's logit.

A cross-encoder that learnt from few labels lacks some of what its start, an embedder, knew of two
texts, and the embedder learns from few labels well (`learnt_similarity`). The sum of a logit and a
cosine, with weights fitted on valid, ranks better than either.

Dimensions: n tuples, s slots.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import optimize
from tqdm import tqdm

from common.data.tuple_set import TupleSet
from common.distillation.embedders import MeanPooledEncoder
from common.evaluation import metrics
from common.evaluation.judged_set import JudgedSet

_QUIET = 10  # seconds without a progress bar: a Beam job's worker comes here with each batch


@dataclasses.dataclass(frozen=True)
class Similarity:
  """A weight times the cosine of a tuple's first text and the mean of its others.

  Attributes:
    pretrained: Checkpoint of the embedder (`embedders.MeanPooledEncoder`).
    weight: Logits a unit of cosine.
  """

  pretrained: str
  weight: float = 1.0

  @functools.cached_property
  def _encoder(self) -> MeanPooledEncoder:
    return MeanPooledEncoder(self.pretrained)

  @functools.lru_cache(maxsize=2)  # noqa: B019 (the sets of an annotation and of its check)
  def on(self, records: TupleSet) -> Callable[[np.ndarray], np.ndarray]:
    """Encodes a set's texts; a function of items [n, s] of the set to logits [n, 1]."""
    used = [np.unique(of) for of in records.tuples().items.T]
    count = sum(map(len, used))
    with tqdm(total=count, desc='similarity', unit=' texts', delay=_QUIET) as bar:
      vectors = [
        self._encoder.encode(list(records.items(slot).contents(numbers)), advance=bar.update)
        for slot, numbers in enumerate(used)
      ]
    vectors = [of.astype(np.float16) for of in vectors]

    def logits(items: np.ndarray) -> np.ndarray:
      left, *others = (
        of[np.searchsorted(numbers, own)].astype(np.float32)
        for of, numbers, own in zip(vectors, used, items.T, strict=True)
      )
      right = np.mean(others, axis=0)
      right /= np.maximum(np.linalg.norm(right, axis=1, keepdims=True), 1e-9)
      return self.weight * (left * right).sum(1, keepdims=True)

    return logits


def fitted(
  pretrained: str, logits: np.ndarray, valid: TupleSet, judged: JudgedSet
) -> tuple[Similarity, float, float] | None:
  """The similarity that a cross-encoder's logits gain by, and what they are scaled and moved by.

  Logistic regression on valid's labels: scale · logit + weight · cosine + bias.

  Args:
    pretrained: Checkpoint of the embedder.
    logits: The cross-encoder's on valid, [n, 1].
    valid: The labelled set.
    judged: The same set, as a judge.

  Returns:
    Similarity, scale and bias; None where valid's metric does not rise with them.
  """
  cosines = Similarity(pretrained).on(valid)(valid.tuples().items)
  features = np.concatenate([logits, cosines], 1).astype(np.float64)
  labels = judged.labels.astype(np.float64)
  if judged.kind == 'binary':
    labels = metrics.positives(labels).astype(np.float64)
  loss = metrics.METRICS[judged.kind]['log_loss']
  scale, weight, bias = optimize.minimize(
    lambda of: loss(labels, features @ of[:2] + of[2]), [1.0, 0.0, 0.0]
  ).x
  mixed = scale * logits + weight * cosines + bias
  without, added = (judged.evaluate(of)[judged.primary] for of in (logits, mixed))
  sign = -1 if judged.primary in metrics.LESS_IS_BETTER else 1
  kept = bool(sign * added > sign * without and scale > 0 and weight > 0)
  print(
    f'similarity of {pretrained}: valid {judged.primary} {without:.4f} without it, '
    f'{added:.4f} with it: {"added" if kept else "left out"}'
  )
  return (Similarity(pretrained, float(weight)), float(scale), float(bias)) if kept else None


def mean(teachers: Any, records: TupleSet) -> Callable[[np.ndarray], np.ndarray | float]:
  """The part of similarities in teachers' mean logits; a function as of `Similarity.on`."""
  near = [one.similarity.on(records) for one in teachers if one.similarity]
  return lambda items: sum(of(items) for of in near) / len(teachers)
