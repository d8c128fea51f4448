"""The teacher: a cross-attention BERT, fine-tuned on labelled tuples, kept as a folder of its own.

The folder holds the model (see `saving`), so `--teacher=DIR` takes it to another run without the
flags that made it. `--teachers=A,B` takes several: their mean logits are the teacher's.
"""

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from common import flags
from common.data import batching, input_pipeline, records
from common.data.examples import Example
from common.data.tokenization import Tokenizer
from common.errors import InputError
from common.evaluation import metrics
from common.modeling import checkpoints, saving
from common.modeling.cross_encoder import CrossEncoder
from common.modeling.encoders import EncoderConfig
from common.modeling.losses import cross_entropy
from common.training import loop, strategies
from common.training.optimization import PhaseConfig


@dataclasses.dataclass(frozen=True)
class TeacherConfig:
  """How the teacher is had: fine-tuned here, or taken from a folder; several are averaged."""

  teachers: tuple[str, ...] = flags.option(
    (),
    "teachers' folders from other runs, whose mean logits are the teacher's; empty: fine-tune one",
    alias='teacher',
  )
  teacher_pretrained: str = flags.option(
    'minilm', 'checkpoint the teacher starts from: a folder, gs://, a hub id, minilm, random-tiny'
  )
  teacher_max_length: int = flags.option(128, 'most tokens of a packed tuple')


class Teacher:
  """A cross-encoder with its tokenizer: texts in, logits out.

  Args:
    encoder: Architecture.
    tokenizer: Of the encoder's vocabulary.
    max_length: Most tokens of a packed tuple.
    outputs: Logits a tuple.
  """

  def __init__(self, encoder: EncoderConfig, tokenizer: Tokenizer, max_length: int, outputs: int):
    self.encoder_config, self.max_length, self.outputs = encoder, max_length, outputs
    self.tokenizer = tokenizer
    self.model = CrossEncoder(encoder, outputs, tokenizer.pad_id)
    self._pack = tf.function(
      lambda *texts: tokenizer.pack(texts, max_length), reduce_retracing=True
    )

  def save(self, folder: str) -> None:
    """Writes the teacher's folder."""
    fields = {
      'kind': 'cross_encoder',
      'encoder': dataclasses.asdict(self.encoder_config),
      'max_length': self.max_length,
      'outputs': self.outputs,
    }
    saving.save(folder, self.model, self.tokenizer, fields)

  @classmethod
  def load(cls, folder: str) -> 'Teacher':
    """Reads a folder that `save` wrote."""
    fields, tokenizer = saving.read(folder)
    if fields.pop('kind', None) != 'cross_encoder':
      raise InputError(f'{folder}: not a teacher')
    teacher = cls(EncoderConfig(**fields.pop('encoder')), tokenizer, **fields)
    saving.restore(folder, teacher.model)
    return teacher

  def logits(
    self,
    examples: Sequence[Example],
    *,
    strategy: tf.distribute.Strategy,
    batch_size: int = 64,
    advance: Callable[[int], Any] = lambda tuples: None,
  ) -> np.ndarray:
    """Scores tuples, batched by length.

    Args:
      examples: Their texts are scored.
      strategy: Its replicas share the work.
      batch_size: Tuples a replica's batch.
      advance: Told how many more tuples are scored, as a progress bar's `update`.

    Returns:
      [len(examples), outputs] float32, in the order of `examples`.
    """
    columns = [np.array(c, object) for c in zip(*(e.texts for e in examples), strict=True)]
    lengths = batching.bucket_lengths(self.max_length)

    def batches():
      for rows, texts in batching.length_sorted(columns, batch_size):
        ids, segment_ids = self._pack(*map(tf.constant, texts))
        ids = batching.pad_to_bucket(ids, lengths, self.tokenizer.pad_id)
        yield rows, (ids, segment_ids.to_tensor(0, shape=ids.shape))

    logits = np.zeros([len(examples), self.outputs], np.float32)
    for rows, values in strategies.map_batches(strategy, self._forward, batches()):
      logits[rows] = values
      advance(len(rows))
    return logits

  @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)] * 2)
  def _forward(self, ids: tf.Tensor, segment_ids: tf.Tensor) -> tf.Tensor:
    return self.model(ids, segment_ids, training=False)


def mean_logits(
  teachers: Sequence[Teacher],
  examples: Sequence[Example],
  *,
  strategy: tf.distribute.Strategy,
  advance: Callable[[int], Any] = lambda tuples: None,
) -> np.ndarray:
  """The mean of several teachers' logits, as of `Teacher.logits`; told when the last is through."""
  *others, last = teachers
  logits = last.logits(examples, strategy=strategy, advance=advance)
  for teacher in others:
    logits += teacher.logits(examples, strategy=strategy)
  return logits / len(teachers)


def scorer_of(
  teachers: Sequence[Teacher], strategy: tf.distribute.Strategy
) -> Callable[[Sequence[Example]], np.ndarray]:
  """A function of tuples to mean logits, with a progress bar."""

  def score(examples: Sequence[Example]) -> np.ndarray:
    with tqdm(total=len(examples), desc='teacher', unit=' tuples') as bar:
      return mean_logits(teachers, examples, strategy=strategy, advance=bar.update)

  return score


def fine_tune(
  config: TeacherConfig,
  phase: PhaseConfig,
  data: str,
  folder: str,
  *,
  task: str,
  outputs: int,
  devices: strategies.DeviceConfig,
  strategy: tf.distribute.Strategy,
  seed: int,
) -> dict[str, Any]:
  """Fine-tunes a pretrained encoder on `data`/train into a teacher's `folder`.

  The loss is the cross-entropy of Eq. 1 (softmax cross-entropy for more classes than two).

  Args:
    config: Where it starts from.
    phase: Rates and lengths.
    data: Folder of the record sets `train` and `valid`.
    folder: Of the teacher; training resumes from it.
    task: Of the labels.
    outputs: Logits a tuple.
    devices: Devices and arithmetic.
    strategy: Made from `devices`.
    seed: Of initial weights, dropout and shuffling.

  Returns:
    The phase's history, as of `loop.fit`.
  """
  pretrained = checkpoints.read(config.teacher_pretrained)
  tokenizer = Tokenizer(pretrained.vocabulary, pretrained.lower_case)
  with strategy.scope():
    teacher = Teacher(pretrained.config, tokenizer, config.teacher_max_length, outputs)
    teacher.model.encoder.restore(pretrained)
  valid = list(records.read(os.path.join(data, 'valid')))
  labels = np.array([example.label for example in valid])

  def batches() -> tf.data.Dataset:
    packed = input_pipeline.packed(
      os.path.join(data, 'train'),
      tokenizer,
      max_length=config.teacher_max_length,
      bucketed=not devices.static_shapes,
      outputs=outputs,
      targets=('label',),
      seed=seed,
      batch_size=phase.batch_size,
    )
    return input_pipeline.split(packed, strategy.num_replicas_in_sync)

  def loss(batch: input_pipeline.Batch) -> tf.Tensor:
    logits = teacher.model(batch['ids'], batch['segment_ids'], training=True)
    return cross_entropy(batch['targets'], logits)

  def evaluate() -> dict[str, float]:
    return metrics.evaluate(task, labels, teacher.logits(valid, strategy=strategy))

  history = loop.fit(
    loop.Task(
      'teacher',
      teacher.model,
      teacher.model.trainable_variables,
      loss,
      batches,
      evaluate,
      metrics.primary_metric(task),
    ),
    phase,
    folder,
    strategy=strategy,
    jit_compile=devices.jit_compile,
  )
  if strategies.is_chief(strategy):
    teacher.save(folder)
  return history
