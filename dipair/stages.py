"""The two stages of training (§3.7): first what is new, on frozen encoders, then everything.

Training pays once per text. Stage 1's encoders are frozen, so their outputs are computed once per
distinct text and kept on disk, and only projections and head run per pair. In stage 2 each distinct
text of a batch is encoded once and gathered to its pairs.
"""

import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from common.data import input_pipeline, records
from common.data.tokenization import Tokenizer
from common.errors import InputError
from common.evaluation import metrics
from common.modeling.losses import cross_entropy
from common.training import loop, strategies
from common.training.optimization import PhaseConfig
from dipair import initialization
from dipair import model as models
from dipair.config import StudentConfig, TrainConfig
from dipair.inference import TupleScorer, distinct_texts
from dipair.model import DiPair

STAGES = ('stage1', 'stage2')
_START_TEXTS = 1000  # of a slot


def train(
  config: StudentConfig,
  phases: TrainConfig,
  folder: str,
  *,
  distill: str,
  valid: str,
  task: str,
  outputs: int,
  devices: strategies.DeviceConfig,
  strategy: tf.distribute.Strategy,
  seed: int,
) -> list[dict[str, Any]]:
  """Distils a student into `folder`; resumes what it finds there.

  Args:
    config: Architecture.
    phases: The two stages.
    folder: Of the student.
    distill: Record set with soft labels.
    valid: Labelled record set that judges.
    task: Of the labels.
    outputs: O.
    devices: Devices and arithmetic.
    strategy: Made from `devices`.
    seed: Of initial weights, dropout and shuffling.

  Returns:
    The stages' histories, as of `loop.fit`.
  """
  with strategy.scope():
    model, tokenizer = models.from_pretrained(config, outputs)
  trainer = _Trainer(model, tokenizer, distill, valid, task, devices, strategy, seed)
  histories = []
  for stage, phase in zip(STAGES, (phases.stage1, phases.stage2), strict=True):
    if phase.steps:
      path = os.path.join(folder, stage)
      if not histories and tf.train.latest_checkpoint(os.path.join(path, 'checkpoints')) is None:
        trainer.start()
      make = trainer.stage1 if stage == 'stage1' else trainer.stage2
      histories.append(make(phase, path, phases))
  if strategies.is_chief(strategy):
    models.save(folder, model, tokenizer)
  return histories


class _Trainer:
  """What the two stages share."""

  def __init__(
    self,
    model: DiPair,
    tokenizer: Tokenizer,
    distill: str,
    valid: str,
    task: str,
    devices: strategies.DeviceConfig,
    strategy: tf.distribute.Strategy,
    seed: int,
  ):
    self.model, self.tokenizer, self.distill = model, tokenizer, distill
    self.task, self.devices, self.strategy, self.seed = task, devices, strategy, seed
    self.scorer = TupleScorer(model, tokenizer, strategy)
    self.valid = list(records.read(valid))
    self.labels = np.array([example.label for example in self.valid])

  def start(self) -> None:
    """Sets the new weights' starting point, by the first texts of the distillation set."""
    slots: list[dict[str, None]] = [{} for _ in range(self.model.texts)]
    for example in itertools.islice(records.read(self.distill), 100 * _START_TEXTS):
      for slot, text in zip(slots, example.texts, strict=True):
        if len(slot) < _START_TEXTS:
          slot[text] = None
      if min(map(len, slots)) == _START_TEXTS:
        break
    tokens = [self.scorer.kept_tokens(list(slot), i) for i, slot in enumerate(slots)]
    initialization.start(self.model, tokens, self.seed)

  def stage1(self, phase: PhaseConfig, folder: str, phases: TrainConfig) -> dict[str, Any]:
    """Trains projections and head; the encoders are frozen, without dropout."""
    valid: list[np.ndarray] = []
    cache = os.path.join(folder, 'cache')
    if not strategies.is_chief(self.strategy):
      cache = tempfile.mkdtemp()
    texts, index = distinct_texts(self.valid)
    live = self._loss_by_text(frozen=True)

    def loss(batch: dict) -> tf.Tensor:
      return self._loss_of_cached(batch) if 'tokens' in batch else live(batch)

    def batches() -> tf.data.Dataset:
      slots = self._distillation_texts(phases.stage1_cache_gb)
      return self._cached_batches(phase, cache, slots) if slots else self._batches_by_text(phase)

    def valid_logits() -> np.ndarray:
      if not valid:
        valid.extend(self.scorer.kept_tokens(t, i) for i, t in enumerate(texts))
      return self.scorer.head_logits(valid, index)

    history = self._fit(
      'stage 1',
      self.model.new_variables,
      loss,
      batches,
      valid_logits,
      phase,
      folder,
    )
    shutil.rmtree(cache, ignore_errors=True)
    return history

  def stage2(self, phase: PhaseConfig, folder: str, phases: TrainConfig) -> dict[str, Any]:
    """Trains everything, from stage 1's best."""
    del phases
    return self._fit(
      'stage 2',
      self.model.used_variables,
      self._loss_by_text(frozen=False),
      lambda: self._batches_by_text(phase),
      lambda: self.scorer.logits(self.valid),
      phase,
      folder,
    )

  def _fit(
    self,
    name: str,
    variables: list[tf.Variable],
    loss: Callable[[Any], tf.Tensor],
    batches: Callable[[], tf.data.Dataset],
    valid_logits: Callable[[], np.ndarray],
    phase: PhaseConfig,
    folder: str,
  ) -> dict[str, Any]:
    task = loop.Task(
      name,
      self.model,
      variables,
      loss,
      batches,
      lambda: metrics.evaluate(self.task, self.labels, valid_logits()),
      metrics.primary_metric(self.task),
    )
    return loop.fit(
      task, phase, folder, strategy=self.strategy, jit_compile=self.devices.jit_compile
    )

  def _loss_of_cached(self, batch: dict) -> tf.Tensor:
    return cross_entropy(batch['targets'], self.model(batch['tokens'], training=True))

  def _loss_by_text(self, frozen: bool) -> Callable[[dict], tf.Tensor]:
    def loss(batch: dict) -> tf.Tensor:
      tokens = []
      for slot, (buckets, index) in enumerate(zip(batch['ids'], batch['index'], strict=True)):
        encoded = [self.model.encode(ids, slot, training=not frozen) for ids in buckets]
        tokens.append(tf.gather(tf.concat(encoded, 0), index))  # [U, k, D] to [B, k, D]
      return cross_entropy(batch['targets'], self.model.head(tokens, training=True))

    return loss

  def _batches_by_text(self, phase: PhaseConfig) -> tf.data.Dataset:
    replicas, config = self.strategy.num_replicas_in_sync, self.model.config
    tuples = input_pipeline.tuples(
      self.distill,
      outputs=self.model.outputs,
      target='soft_labels',
      seed=self.seed,
      batch_size=phase.batch_size,
    )
    rows = None
    if self.devices.static_shapes:
      rows = self._rows_of_a_batch(phase.batch_size // replicas)
    return input_pipeline.split(tuples, replicas).map(
      lambda batch: input_pipeline.by_text(batch, self.tokenizer, config.max_lengths, rows=rows),
      tf.data.AUTOTUNE,
      deterministic=True,
    )

  def _rows_of_a_batch(self, batch_size: int) -> list[int]:
    """The most distinct texts of each slot that a replica's batch can hold."""
    manifest = records.read_manifest(self.distill)
    texts = manifest.info.get('block_texts')
    if texts is None or batch_size % manifest.block:
      return [batch_size] * self.model.texts
    blocks = batch_size // manifest.block
    return [min(batch_size, blocks * t) for t in (texts[0], *[texts[1]] * (self.model.texts - 1))]

  def _distillation_texts(self, most_gb: float) -> list[dict[str, int]] | None:
    """Each slot's distinct texts, or None where their tokens would not fit in the cache."""
    slots: list[dict[str, int]] = [{} for _ in range(self.model.texts)]
    for example in records.read(self.distill):
      for slot, text in zip(slots, example.texts, strict=True):
        slot.setdefault(text, len(slot))
      if sum(map(len, slots)) % 10_000 == 0 and self._gigabytes(slots) > most_gb:
        return None
    return slots if self._gigabytes(slots) <= most_gb else None

  def _cached_batches(
    self, phase: PhaseConfig, folder: str, slots: list[dict[str, int]]
  ) -> tf.data.Dataset:
    """Batches of kept tokens that were computed once, on disk."""
    index, targets = [], []
    for example in records.read(self.distill):
      index.append([slot[text] for slot, text in zip(slots, example.texts, strict=True)])
      targets.append(example.soft_labels)
    if len(index) < phase.batch_size:
      raise InputError(
        f'--stage1_batch_size={phase.batch_size}: the distillation set has {len(index)} tuples'
      )
    tokens = [self._cache(list(slot), i, folder) for i, slot in enumerate(slots)]
    return input_pipeline.split(
      input_pipeline.gathered(
        tokens, np.array(index), np.array(targets, np.float32), phase.batch_size, self.seed
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
      self.scorer.kept_tokens(texts, slot, out=out, progress=f'encode texts {slot}')
      out.flush()
      os.replace(path + '.tmp', path)
    return np.load(path, mmap_mode='r')


def restore(folder: str, model: DiPair) -> None:
  """Puts the best weights of a stage, in its folder, into a model."""
  best = tf.train.latest_checkpoint(os.path.join(folder, 'best'))
  tf.train.Checkpoint(variables=model.variables).restore(best).assert_consumed()
