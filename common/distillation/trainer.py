"""Training of students on a distillation set; it pays once per item.

Features of frozen encoders are computed once per distinct item and kept on disk; only the layers
above run per tuple. Trained encoders encode each distinct item of a batch once and gather it to its
tuples.
"""

import dataclasses
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from common.data import orders
from common.data.batches import TupleBatches
from common.data.orders import Order, ShuffledGroups, ShuffledTuples
from common.data.records import BLOCKS, RecordSet
from common.data.task import Task
from common.data.tokenization import Tokenizer
from common.data.tokens import TokenizedTuples, tables_of
from common.data.tuples import Tuples, most_items
from common.distillation.inference import TupleScorer
from common.errors import InputError
from common.evaluation.judged_set import JudgedSet
from common.modeling.losses import Loss
from common.modeling.student import Student
from common.training import loop, strategies
from common.training.optimization import PhaseConfig

_READ = 1 << 22  # tuples looked at at a time
_FIRST_TUPLES = 100  # in how many tuples, for each item wanted, a slot's first items are looked for


@dataclasses.dataclass(frozen=True)
class Training:
  """Data, devices and seed of a student's training.

  Attributes:
    distill: Record set with the targets.
    valid: Labelled record set that judges.
    task: Kind of the labels, and the metric that decides.
    devices: Devices and arithmetic.
    strategy: Made from `devices`; the model's.
    seed: Seed of initial weights, dropout and shuffling.
    callbacks: Called at each evaluation.
    starts: Checkpoints that encoders start from, by the --pretrained whose place they take.
  """

  distill: str
  valid: str
  task: Task
  devices: strategies.DeviceConfig
  strategy: tf.distribute.Strategy
  seed: int
  callbacks: tuple[loop.Callback, ...] = ()
  starts: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Trained:
  """Histories of a training's phases, as from `loop.fit`."""

  phases: list[dict[str, Any]]

  def counted(self, unit: str) -> list[dict[str, Any]]:
    """The histories, their rate named for what a report counts: 'pairs' as 'pairs_per_second'."""
    renamed = {'tuples_per_second': f'{unit}_per_second'}
    return [{renamed.get(name, name): of for name, of in phase.items()} for phase in self.phases]


class Trainer:
  """Trains a student, phase by phase.

  Args:
    model: The student.
    tokenizer: The student's own.
    training: Data, devices and seed.
    loss: Takes a batch's targets and logits.

  Attributes:
    scorer: Scores tuples with the student as it is.
  """

  def __init__(self, model: Student, tokenizer: Tokenizer, training: Training, loss: Loss):
    self.model, self.tokenizer, self.training, self.loss = model, tokenizer, training, loss
    self.strategy, self.seed = training.strategy, training.seed
    self.scorer = TupleScorer(model, tokenizer, training.strategy)
    self.distill = RecordSet(training.distill)
    self._encode = {
      (slot, on): self._encoder(slot, on) for slot in range(model.slots) for on in (False, True)
    }
    valid = RecordSet(training.valid)
    if {self.distill.widths, valid.widths} != {model.widths}:
      raise InputError(
        f'{training.valid}: vectors of widths {valid.widths}; {training.distill} has '
        f'{self.distill.widths}'
      )
    self.valid = TokenizedTuples.of_set(valid, tokenizer)
    self.judged = JudgedSet(valid, training.task)
    for slot, share in enumerate(self.valid.cut(model.max_lengths)):
      if share:
        most = model.max_lengths[slot]
        print(f'valid: text {slot + 1} is cut at {most} tokens in {share:.1%} (--max_lengths)')

  def fit(
    self,
    name: str,
    phase: PhaseConfig,
    folder: str,
    *,
    frozen: bool,
    cache_gb: float = 0.0,
  ) -> dict[str, Any]:
    """Trains a phase, or goes on with it.

    Args:
      name: The phase's name.
      phase: Rates and lengths.
      folder: The phase's folder.
      frozen: Whether the pretrained encoders stay as they are, without dropout.
      cache_gb: Most disk for frozen encoders' features; beyond, items are encoded batch by batch.

    Returns:
      The history, as of `loop.fit`.
    """
    cache = os.path.join(folder, 'cache')
    valid: list[Any] = []  # features and index of frozen encoders

    def batches(start: int) -> tf.data.Dataset:
      tuples = self.distill.tuples(cache)
      self._say_labels(tuples)
      used = self.used_items(tuples)
      if frozen and self._gigabytes(used) <= cache_gb:
        return self.cached_batches(phase, tuples, used, cache, start)
      return self.batches_by_item(phase, tuples, start)

    def valid_logits() -> np.ndarray:
      if not frozen:
        return self.scorer.logits(self.valid)
      if not valid:
        valid.extend(self.scorer.gather(self.valid))
      return self.scorer.head_logits(*valid)

    trained = loop.Phase(
      name,
      self.model,
      self.model.new_variables if frozen else self.model.used_variables,
      lambda batch: self.loss_of(batch, frozen),
      batches,
      lambda: self.judged.evaluate(valid_logits()),
      self.judged.watched,
      self.training.callbacks,
    )
    jit_compile = self.training.devices.jit_compile
    history = loop.fit(trained, phase, folder, strategy=self.strategy, jit_compile=jit_compile)
    shutil.rmtree(cache, ignore_errors=True)  # an interruption leaves it for the next start
    return history

  def _say_labels(self, tuples: Tuples) -> None:
    if 'label' in self.loss.needs and (count := int(tuples.labelled.sum())) < len(tuples):
      print(
        f'labels: of {count:,} of {len(tuples):,} tuples; the others learn from the teacher alone'
      )

  def loss_of(self, batch: dict, frozen: bool) -> tf.Tensor:
    """The loss of each tuple of a batch, of cached features or by item: [B]."""
    if 'features' in batch:
      return self.loss(batch, self.model(batch['features'], training=True))
    parts, vectors = [], []
    encoded = self._encoded(batch['ids'], training=not frozen)
    for slot, (of_slot, index) in enumerate(zip(encoded, batch['index'], strict=True)):
      parts.append(tf.gather(self.model.part(of_slot, slot), index))  # [U, ...] to [B, ...]
      vectors.append(tf.gather(of_slot, index))
    return self.loss(batch, self.model.logits(parts, vectors, training=True))

  def _encoder(self, slot: int, training: bool) -> Callable[[tf.Tensor], tf.Tensor]:
    """A function from a slot's items to vectors, traced once: a step of many buckets builds fast.

    With static shapes there is one bucket and no such function: its gradient would bring a batch's
    ids to XLA as constants, and XLA would compile each step anew.
    """

    def encode(ids: tf.Tensor) -> tf.Tensor:
      return self.model.encode(ids, slot, training=training)

    if self.training.devices.static_shapes:
      return encode
    return tf.function(
      encode,
      input_signature=[self.model.encoder_input(slot)],
      autograph=False,
      experimental_attributes={'_noinline': True},
    )

  def _encoded(self, ids: Sequence[Sequence[tf.Tensor]], training: bool) -> list[tf.Tensor]:
    """Vectors [U, ...] of each slot's buckets; buckets of one length and encoder go together."""
    together: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for slot, buckets in enumerate(ids):
      for number, bucket in enumerate(buckets):
        alike = self.model.encoded_as(slot), bucket.shape[1]
        together.setdefault(alike, []).append((slot, number))
    found = [list(buckets) for buckets in ids]
    for (slot, _), places in together.items():
      buckets = [ids[own][number] for own, number in places]
      encoded = self._encode[slot, training](tf.concat(buckets, 0))
      parts = tf.split(encoded, [tf.shape(bucket)[0] for bucket in buckets])
      for (own, number), part in zip(places, parts, strict=True):
        found[own][number] = part
    return [tf.concat(of_slot, 0) for of_slot in found]

  def batches_by_item(self, phase: PhaseConfig, tuples: Tuples, start: int = 0) -> tf.data.Dataset:
    """Endless batches of each slot's distinct items and the tuples' indices into them."""
    rows_of, order = None, self._order(tuples, phase.batch_size)
    if self.training.devices.static_shapes:
      share = phase.batch_size // self.strategy.num_replicas_in_sync
      groups = isinstance(order, ShuffledGroups)
      rows_of = most_items(tuples, share) if groups else [share] * self.model.slots
    batches = self._batches(tuples, order)
    tables = tables_of(self.distill, self.tokenizer)
    return batches.by_item(start, tables, self.model.max_lengths, rows_of)

  def cached_batches(
    self,
    phase: PhaseConfig,
    tuples: Tuples,
    used: list[np.ndarray],
    folder: str,
    start: int = 0,
  ) -> tf.data.Dataset:
    """Endless batches of features that are computed once, in `folder`."""
    tables = tables_of(self.distill, self.tokenizer)
    features, places = [], []
    for slot, (table, items) in enumerate(zip(tables, used, strict=True)):
      path = os.path.join(folder, f'{slot}.npy')
      features.append(self.scorer.kept(path, table, items, slot))
      place = np.zeros(len(table), np.int32)
      place[items] = np.arange(len(items), dtype=np.int32)
      places.append(place)
    order: Order = ShuffledTuples(len(tuples), phase.batch_size, self.seed)
    if 'items' in self.loss.needs:  # tuples of an item come together
      order = self._order(tuples, phase.batch_size)
    return self._batches(tuples, order).gathered(start, features, places)

  def _order(self, tuples: Tuples, batch_size: int) -> Order:
    """Batch order; groups an item's tuples for list losses or fewer encodings."""
    compared, blocks = 'items' in self.loss.needs, self.distill.manifest.info.get(BLOCKS, False)
    encoded = [slot for slot, width in enumerate(self.distill.widths) if not width]
    return orders.of_items(
      tuples, batch_size, self.seed, encoded=encoded, compared=compared, blocks=blocks
    )

  def used_items(self, tuples: Tuples) -> list[np.ndarray]:
    """The items of each slot that occur in the distillation set, in rising order."""
    found = []
    for slot in range(self.distill.slots):
      occurs = np.zeros(len(self.distill.items(slot)), bool)
      for start in range(0, len(tuples), _READ):
        occurs[tuples.items[start : start + _READ, slot]] = True
      found.append(np.flatnonzero(occurs))
    return found

  def first_features(self, count: int) -> list[np.ndarray]:
    """Features of the first `count` items of each slot that the distillation set begins with."""
    start = self.distill.head(_FIRST_TUPLES * count).items
    found = []
    for slot, table in enumerate(tables_of(self.distill, self.tokenizer)):
      items, firsts = np.unique(start[:, slot], return_index=True)
      found.append(self.scorer.features(table, items[np.argsort(firsts)][:count], slot))
    return found

  def first_tuples(self, count: int, slots: list[int]) -> tuple[dict[int, np.ndarray], Tuples]:
    """The first `count` tuples, and features of some slots' items, which the tuples then number."""
    tuples, tables, found = self.distill.head(count), tables_of(self.distill, self.tokenizer), {}
    items = tuples.items.copy()
    for slot in slots:
      occur, items[:, slot] = np.unique(items[:, slot], return_inverse=True)
      found[slot] = self.scorer.features(tables[slot], occur, slot)
    return found, dataclasses.replace(tuples, items=items)

  def _batches(self, tuples: Tuples, order: Order) -> TupleBatches:
    targets = [name for name in self.loss.needs if name != 'items']
    replicas = self.strategy.num_replicas_in_sync
    return TupleBatches(tuples, order, targets, self.model.outputs, replicas)

  def _gigabytes(self, used: list[np.ndarray]) -> float:
    shapes = [self.scorer.shape(len(items), slot) for slot, items in enumerate(used)]
    return sum(4 * np.prod(shape, dtype=float) for shape in shapes) / 1e9
