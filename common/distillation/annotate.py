"""Soft labels: the teacher's scores of a distillation set, as records with a manifest (§4.3)."""

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from common.data import records
from common.data.examples import Example
from common.modeling.losses import probabilities

Advance = Callable[[int], Any]  # as a progress bar's `update`


def annotate(
  source: str,
  folder: str,
  logits_of: Callable[[Sequence[Example], Advance], np.ndarray],
  *,
  temperature: float,
  info: dict[str, Any],
) -> records.Manifest:
  """Copies a record set with `teacher_logits` and `soft_labels` sigmoid(z / T) added.

  Shards correspond one to one, so that an interrupted annotation goes on at the first missing one.

  Args:
    source: A record set.
    folder: Of the annotated one.
    logits_of: The teacher: examples to logits [n, outputs]; it tells how many more are done.
    temperature: T of the soft labels.
    info: Goes into the manifest, beside T.

  Returns:
    The manifest.
  """
  tf.io.gfile.makedirs(folder)
  manifest = records.read_manifest(source)
  shards = []
  with tqdm(total=manifest.count, desc='annotate', unit=' tuples') as bar:
    for index, shard in enumerate(manifest.shards):
      done = records.find_shard(folder, index, shard.count)
      if done is None:
        examples = list(records.read_shard(os.path.join(source, shard.name)))
        logits = logits_of(examples, bar.update)
        done = records.write_shard(folder, index, labelled(examples, logits, temperature))
      else:
        bar.update(shard.count)
      shards.append(done)
  annotated = dataclasses.replace(
    manifest, shards=tuple(shards), info={**manifest.info, **info, 'temperature': temperature}
  )
  records.write_manifest(folder, annotated)
  return annotated


def labelled(examples: Sequence[Example], logits: np.ndarray, temperature: float) -> list[Example]:
  """Examples with their logits [n, outputs] and the soft labels that those give."""
  soft_labels = probabilities(tf.constant(logits), temperature).numpy()
  return [
    dataclasses.replace(example, teacher_logits=tuple(z), soft_labels=tuple(p))
    for example, z, p in zip(examples, logits.tolist(), soft_labels.tolist(), strict=True)
  ]
