"""Training of students on a distillation set; it pays once per text.

Where the encoders are frozen, their features are computed once per distinct text and kept on disk,
and only what is made of them runs per tuple. Elsewhere each distinct text of a batch is encoded once
and gathered to its tuples.
"""

import itertools
import os
import shutil
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from common.data import input_pipeline, records
from common.data.tokenization import Tokenizer
from common.distillation.inference import TupleScorer
from common.errors import InputError
from common.evaluation import metrics
from common.modeling.losses import Loss, Tuples
from common.modeling.student import Student
from common.training import loop, strategies
from common.training.optimization import PhaseConfig


class Trainer:
  """What the phases of a student's training share.

  Args:
    model: The student.
    tokenizer: Its own.
    distill: Record set with the targets.
    valid: Labelled record set that judges.
    task: Kind of the labels.
    loss: What is minimized; it says which targets it needs.
    devices: Devices and arithmetic.
    strategy: Made from `devices`; the model's.
    seed: Of shuffling.
  """

  def __init__(
    self,
    model: Student,
    tokenizer: Tokenizer,
    distill: str,
    valid: str,
    task: str,
    *,
    loss: Loss,
    devices: strategies.DeviceConfig,
    strategy: tf.distribute.Strategy,
    seed: int,
  ):
    self.model, self.tokenizer, self.distill = model, tokenizer, distill
    self.task, self.targets, self.loss = task, loss.needs, loss
    self.devices, self.strategy, self.seed = devices, strategy, seed
    self.scorer = TupleScorer(model, tokenizer, strategy)
    ids = [tf.TensorSpec([None, None], tf.int32)]
    self._encode = {  # functions of their own, so that a step of many buckets is built quickly
      (slot, training): tf.function(
        lambda ids, slot=slot, training=training: model.encode(ids, slot, training=training),
        input_signature=ids,
        experimental_attributes={'_noinline': True},
      )
      for slot in range(model.slots)
      for training in (False, True)
    }
    self.valid = list(records.read(valid))
    self.labels = np.array([example.label for example in self.valid])

  def fit(
    self, name: str, phase: PhaseConfig, folder: str, *, frozen: bool, cache_gb: float = 0.0
  ) -> dict[str, Any]:
    """Trains a phase, or goes on with it.

    Args:
      name: Of the phase.
      phase: Rates and lengths.
      folder: Of the phase.
      frozen: Whether the pretrained encoders stay as they are, without dropout.
      cache_gb: Most disk for frozen encoders' features; beyond, texts are encoded batch by batch.

    Returns:
      The history, as of `loop.fit`.

    Raises:
      InputError: If a batch is larger than the distillation set.
    """
    count = records.read_manifest(self.distill).count
    if count < phase.batch_size:
      raise InputError(
        f'{name}: batch_size={phase.batch_size}, and the distillation set has {count} tuples'
      )
    cache = os.path.join(folder, 'cache')
    if not strategies.is_chief(self.strategy):
      cache = tempfile.mkdtemp()
    valid: list[Any] = []  # features and index of frozen encoders

    def batches() -> tf.data.Dataset:
      slots = self.distinct_texts(cache_gb) if frozen else None
      return self.cached_batches(phase, cache, slots) if slots else self.batches_by_text(phase)

    def valid_logits() -> np.ndarray:
      if not frozen:
        return self.scorer.logits(self.valid)
      if not valid:
        valid.extend(self.scorer.gather(self.valid))
      return self.scorer.head_logits(*valid)

    task = loop.Task(
      name,
      self.model,
      self.model.new_variables if frozen else self.model.used_variables,
      lambda batch: self.loss_of(batch, frozen),
      batches,
      lambda: metrics.evaluate(self.task, self.labels, valid_logits()),
      metrics.primary_metric(self.task),
    )
    history = loop.fit(
      task, phase, folder, strategy=self.strategy, jit_compile=self.devices.jit_compile
    )
    shutil.rmtree(cache, ignore_errors=True)
    return history

  def loss_of(self, batch: dict, frozen: bool) -> tf.Tensor:
    """The loss of each tuple of a batch, of cached features or by text: [B]."""
    tuples = self._tuples(batch)
    if 'features' in batch:
      return self.loss(tuples, self.model(batch['features'], training=True))
    parts, vectors = [], []
    for slot, (buckets, index) in enumerate(zip(batch['ids'], batch['index'], strict=True)):
      encoded = tf.concat([self._encode[slot, not frozen](ids) for ids in buckets], 0)  # [U, ...]
      parts.append(tf.gather(self.model.part(encoded, slot), index))  # [U, ...] to [B, ...]
      vectors.append(tf.gather(encoded, index))
    return self.loss(tuples, self.model.logits(parts, vectors, training=True))

  def _tuples(self, batch: dict) -> Tuples:
    """What the loss takes of a batch."""
    targets = tf.split(batch['targets'], len(self.targets), axis=1)
    tuples = dict(zip(self.targets, targets, strict=True))
    if 'index' in batch:
      tuples['items'] = tf.stack(batch['index'], axis=1)
    return tuples

  def batches_by_text(self, phase: PhaseConfig) -> tf.data.Dataset:
    """Endless batches of each slot's distinct texts and the tuples' indices into them."""
    replicas, lengths = self.strategy.num_replicas_in_sync, self.model.max_lengths
    tuples = input_pipeline.tuples(
      self.distill,
      outputs=self.model.outputs,
      targets=self.targets,
      seed=self.seed,
      batch_size=phase.batch_size,
    )
    rows = None
    if self.devices.static_shapes:
      rows = self._rows_of_a_batch(phase.batch_size // replicas)
    return input_pipeline.split(tuples, replicas).map(
      lambda batch: input_pipeline.by_text(batch, self.tokenizer, lengths, rows=rows),
      tf.data.AUTOTUNE,
      deterministic=True,
    )

  def _rows_of_a_batch(self, batch_size: int) -> list[int]:
    """The most distinct texts of each slot that a replica's batch can hold."""
    manifest = records.read_manifest(self.distill)
    texts = manifest.info.get('block_texts')
    if texts is None or batch_size % manifest.block:
      return [batch_size] * self.model.slots
    blocks = batch_size // manifest.block
    return [min(batch_size, blocks * t) for t in (texts[0], *[texts[1]] * (self.model.slots - 1))]

  def distinct_texts(self, most_gb: float) -> list[dict[str, int]] | None:
    """Each slot's distinct texts, or None where their features would not fit in the cache."""
    slots: list[dict[str, int]] = [{} for _ in range(self.model.slots)]
    for example in records.read(self.distill):
      for slot, text in zip(slots, example.texts, strict=True):
        slot.setdefault(text, len(slot))
      if sum(map(len, slots)) % 10_000 == 0 and self._gigabytes(slots) > most_gb:
        return None
    return slots if self._gigabytes(slots) <= most_gb else None

  def first_texts(self, count: int) -> list[list[str]]:
    """The first texts of each slot of the distillation set, up to `count`."""
    slots: list[dict[str, None]] = [{} for _ in range(self.model.slots)]
    for example in itertools.islice(records.read(self.distill), 100 * count):
      for slot, text in zip(slots, example.texts, strict=True):
        if len(slot) < count:
          slot[text] = None
      if min(map(len, slots)) == count:
        break
    return [list(slot) for slot in slots]

  def cached_batches(
    self, phase: PhaseConfig, folder: str, slots: Sequence[dict[str, int]]
  ) -> tf.data.Dataset:
    """Endless batches of features that were computed once, on disk."""
    index, targets = [], []
    for example in records.read(self.distill):
      index.append([slot[text] for slot, text in zip(slots, example.texts, strict=True)])
      targets.append(input_pipeline.target_row(example, self.targets, self.model.outputs))
    features = [self._cache(list(slot), i, folder) for i, slot in enumerate(slots)]
    return input_pipeline.split(
      input_pipeline.gathered(
        features, np.array(index), np.array(targets, np.float32), phase.batch_size, self.seed
      ),
      self.strategy.num_replicas_in_sync,
    )

  def _gigabytes(self, slots: Sequence[dict]) -> float:
    shapes = [self.scorer.shape(len(slot), i) for i, slot in enumerate(slots)]
    return sum(4 * np.prod(shape, dtype=float) for shape in shapes) / 1e9

  def _cache(self, texts: list[str], slot: int, folder: str) -> np.ndarray:
    path = os.path.join(folder, f'{slot}.npy')
    if not os.path.exists(path):
      os.makedirs(folder, exist_ok=True)
      out = np.lib.format.open_memmap(
        path + '.tmp', mode='w+', dtype=np.float32, shape=self.scorer.shape(len(texts), slot)
      )
      self.scorer.features(texts, slot, out=out, progress=f'encode texts {slot}')
      out.flush()
      os.replace(path + '.tmp', path)
    return np.load(path, mmap_mode='r')
