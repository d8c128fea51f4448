"""An embedder that learns labels: its cosine of two texts comes near their label.

That is SBERT's regression objective (Reimers and Gurevych, 2019, §3): the squared error of cosine
and label. With few labels it learns more than a cross-encoder does.

Dimensions: U distinct texts, L tokens, H width of a token, B tuples.
"""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from common.data.records import RecordSet
from common.distillation import embedders
from common.distillation.trainer import Trainer, Training
from common.modeling import encoders
from common.modeling.list_losses import Tuples
from common.modeling.similarity_head import unit
from common.modeling.student import Student
from common.training.optimization import PhaseConfig

NAME = 'similarity'  # of its phase, and its folder in a teacher's
_EPOCHS = 3
_STEPS = (150, 1500)  # the least and the most, where the teacher takes as many


@dataclasses.dataclass(frozen=True)
class _Config:
  """Flags of a student that an embedder has too."""

  pretrained: str
  max_lengths: tuple[int, ...]
  encoder_layers: int = 0
  dropout: float = 0.1


class _Pooled(tf_keras.layers.Layer):
  """The mean of an encoder's tokens, of length one: [U, L] word ids to [U, H]."""

  def __init__(self, config: Any, pad_id: int):
    super().__init__(name='pooled')
    self.encoder = encoders.build(config, pad_id)

  def call(self, ids: tf.Tensor, training: bool | None = None) -> tf.Tensor:
    return unit(embedders.summed(self.encoder(ids, training=training)))


class _Embedder(Student):
  """An encoder of all texts; the logit is the cosine of the first text and the others' mean."""

  kind, config_class = 'embedder', _Config

  def __init__(self, config: _Config, encoder: Any, outputs: int, pad_id: int):
    super().__init__(config, encoder, outputs, pad_id)
    self.encoders = [_Pooled(encoder, pad_id)]

  def feature_shape(self, slot: int) -> tuple[int, ...]:
    del slot
    return (self.encoder_config.hidden_size,)

  def features(self, ids: tf.Tensor, slot: int, training: bool | None = None) -> tf.Tensor:
    del slot
    return self.encoders[0](ids, training=training)

  def part(self, vectors: tf.Tensor, slot: int) -> tf.Tensor:
    del slot
    return vectors

  def logits(
    self, parts: Sequence[tf.Tensor], vectors: Sequence[tf.Tensor], training: bool | None = None
  ) -> tf.Tensor:
    del vectors, training
    left, *others = parts
    return tf.reduce_sum(left * unit(tf.add_n(others)), axis=1, keepdims=True)

  def encoded_as(self, slot: int) -> int:
    del slot
    return 0


class _CosineError:
  """The squared error of the cosine and the label."""

  needs = ('label',)

  def __call__(self, tuples: Tuples, logits: tf.Tensor) -> tf.Tensor:
    """[B]."""
    return tf.square(logits - tuples['label'])[:, 0]


def fine_tune(pretrained: str, training: Training, folder: str, most: int) -> dict[str, Any]:
  """Fine-tunes an embedder on labels.

  Args:
    pretrained: Checkpoint that it starts from.
    training: Record sets with labels, to learn from and to judge by; devices and seed.
    folder: Gets the embedder, a checkpoint as `checkpoints.read` takes it; training resumes there.
    most: Steps that it may take.

  Returns:
    The phase's history, as of `loop.fit`.
  """
  train = RecordSet(training.distill)
  longest = embedders.longest(encoders.read(pretrained).config)
  config = _Config(pretrained, (longest,) * train.slots)
  tf_keras.utils.set_random_seed(training.seed)  # whatever has run before: a resumed run has less
  with training.strategy.scope():
    model, tokenizer = _Embedder.from_pretrained(config, 1)
  trainer = Trainer(model, tokenizer, training, _CosineError())
  replicas = training.strategy.num_replicas_in_sync
  batch = min(PhaseConfig.batch_size, len(train) // replicas * replicas)
  least, enough = _STEPS
  steps = min(most, enough, max(least, _EPOCHS * len(train) // batch))
  phase = PhaseConfig(batch_size=batch, steps=steps, eval_every=-(-steps // 4), patience=0)
  history = trainer.fit(NAME, phase, folder, frozen=False)
  model.save(folder, tokenizer)
  return history


def starts(teacher: str, pretrained: str) -> dict[str, str]:
  """The embedder of a teacher's folder, by the checkpoint it started from; empty without one."""
  folder = os.path.join(teacher, NAME)
  return {pretrained: folder} if os.path.isdir(folder) else {}
