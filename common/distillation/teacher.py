"""The teacher: a cross-attention BERT, fine-tuned on labelled tuples, kept as a folder of its own.

A cross-attention student is the same, trained on soft labels.

The folder holds the model (see `saving`), so `--teacher=DIR` takes it to another run without the
flags that made it; a Hugging Face folder of a sequence classifier is a teacher as it is.
`--teachers=A,B` takes several: their mean logits are the teacher's.
"""

import dataclasses
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from common import flags, schema
from common.data import batches, batching, tokens
from common.data.examples import Example
from common.data.orders import ShuffledByLength
from common.data.records import RecordSet
from common.data.task import Task
from common.data.tokenization import Tokenizer
from common.data.tokens import TokenizedTuples
from common.data.tuple_set import MemorySet, TupleSet
from common.distillation import learnt_similarity, similarity
from common.distillation.annotate import Labeller
from common.distillation.similarity import Similarity
from common.distillation.trainer import Training
from common.errors import InputError
from common.evaluation.evaluation import SetScorer
from common.evaluation.judged_set import JudgedSet
from common.modeling import checkpoints, classifiers, saving
from common.modeling.bert_network import EncoderConfig
from common.modeling.checkpoints import Pretrained
from common.modeling.classifiers import Classifier
from common.modeling.cross_encoder import CrossEncoder
from common.modeling.losses import CrossEntropy, Loss
from common.training import loop, strategies
from common.training.optimization import PhaseConfig

MAX_LENGTH = 128  # most tokens of a packed tuple
_BINARY = Task('binary')
_PIECE = 4096  # tuples that are scored, and in an annotation kept, at a time


@dataclasses.dataclass(frozen=True)
class TeacherConfig:
  """A teacher that the run fine-tunes."""

  pretrained: str = flags.option(
    'minilm',
    'checkpoint that the teacher starts from: a folder, gs://, a hub id, minilm or random-tiny',
  )
  max_length: int = flags.option(MAX_LENGTH, 'most tokens of a packed tuple', bounds=(4, 8192))
  similarity: str = flags.option(
    'minilm',
    'checkpoint of an embedder that learns the labels too; its cosine of the texts is added to the '
    'logits, with a weight fitted on valid, and a student of the same --pretrained starts from it; '
    'empty: none',
  )


class Teacher:
  """A cross-encoder with its tokenizer: tokenized tuples in, logits out.

  Args:
    encoder: Architecture.
    tokenizer: Tokenizer of the encoder's vocabulary.
    max_length: Most tokens of a packed tuple.
    outputs: Logits a tuple.

  Attributes:
    similarity: What is added to the logits, by `labeller`.
  """

  def __init__(self, encoder: EncoderConfig, tokenizer: Tokenizer, max_length: int, outputs: int):
    self.encoder_config, self.max_length, self.outputs = encoder, max_length, outputs
    self.tokenizer = tokenizer
    self.similarity: Similarity | None = None
    self.model = CrossEncoder(encoder, outputs, tokenizer.pad_id)

  def save(self, folder: str) -> None:
    """Writes the teacher's folder."""
    fields = {
      'kind': 'cross_encoder',
      'encoder': dataclasses.asdict(self.encoder_config),
      'max_length': self.max_length,
      'outputs': self.outputs,
    }
    if self.similarity:  # its embedder is a folder beside
      fields['similarity'] = {'weight': self.similarity.weight}
    saving.save(folder, self.model, self.tokenizer, fields)

  @classmethod
  def load(
    cls,
    folder: str,
    max_length: int = MAX_LENGTH,
    task: Task = _BINARY,
  ) -> 'Teacher':
    """Reads a folder that `save` wrote, or a classifier (see `classifiers`).

    Args:
      folder: The folder; of a classifier a hub id too.
      max_length: Most tokens of a packed tuple, for a classifier; a saved teacher has its own.
      task: As for `classifiers.read`.
    """
    if not saving.is_there(folder):
      ready = read_ready(folder, max_length, task)
      tokenizer = Tokenizer(ready.pretrained.vocabulary, ready.pretrained.lower_case)
      teacher = cls(ready.pretrained.config, tokenizer, max_length, ready.outputs)
      classifiers.restore(teacher.model, ready)
      return teacher
    fields, tokenizer = saving.read(folder)
    if fields.get('kind') != 'cross_encoder':
      raise InputError(f'{folder}: not a teacher')
    with saving.described(folder):
      schema.check(fields, {'outputs': int, 'max_length': int})
      encoder = EncoderConfig(**fields['encoder'])
      teacher = cls(encoder, tokenizer, fields['max_length'], fields['outputs'])
      if kept := fields.get('similarity'):
        teacher.similarity = Similarity(os.path.join(folder, learnt_similarity.NAME), **kept)
    saving.restore(folder, teacher.model)
    return teacher

  def logits(
    self,
    tuples: TokenizedTuples,
    *,
    strategy: tf.distribute.Strategy,
    batch_size: int = 64,
    advance: Callable[[int], Any] = lambda tuples: None,
  ) -> np.ndarray:
    """Scores tuples by the cross-encoder alone, batched by length, the longest first.

    Args:
      tuples: Tuples to score, tokenized by this teacher's tokenizer.
      strategy: Its replicas share the work.
      batch_size: Tuples a replica's batch.
      advance: Told how many more tuples are scored, as a progress bar's `update`.

    Returns:
      [len(tuples), outputs] float32, in their order.
    """
    lengths = batching.bucket_lengths(self.max_length)
    sizes = tokens.packed_sizes(tuples.tables, tuples.items, self.max_length)
    whole = tokens.packed_lengths(sizes)

    def packed():
      for rows in batching.longest_first(whole, batch_size):
        length = batching.bucket_of(lengths, whole[rows[0]])
        ids, segments = tokens.pack(tuples.tables, tuples.items[rows], sizes[rows], length)
        yield rows, (tf.constant(ids), tf.constant(segments))

    logits = np.zeros([len(tuples), self.outputs], np.float32)
    for rows, values in strategies.map_batches(strategy, self._forward, packed()):
      logits[rows] = values
      advance(len(rows))
    return logits

  @tf.function(autograph=False, input_signature=[tf.TensorSpec([None, None], tf.int32)] * 2)
  def _forward(self, ids: tf.Tensor, segment_ids: tf.Tensor) -> tf.Tensor:
    return self.model(ids, segment_ids, training=False)


def read_ready(folder: str, max_length: int, task: Task) -> Classifier:
  """A classifier that is a teacher as it is; arguments as for `Teacher.load`."""
  found = classifiers.read(folder, task)
  checkpoints.check_length(found.pretrained, '--teacher_max_length', max_length)
  return found


class Scores(Protocol):
  """Interface shared by Teacher and ConvertedTeacher."""

  tokenizer: Tokenizer
  similarity: Similarity | None

  def logits(
    self,
    tuples: TokenizedTuples,
    *,
    strategy: tf.distribute.Strategy,
    advance: Callable[[int], Any] = lambda tuples: None,
  ) -> np.ndarray:
    """Logits of tuples, [n, outputs], like `Teacher.logits`."""


def mean_logits(
  teachers: Sequence[Scores],
  tuples: Sequence[TokenizedTuples],
  *,
  strategy: tf.distribute.Strategy,
  advance: Callable[[int], Any] = lambda tuples: None,
) -> np.ndarray:
  """The mean of several cross-encoders' logits; `advance` is told when the last one is through.

  Args:
    teachers: One or more.
    tuples: The same tuples, tokenized for each teacher.
    strategy: Its replicas share the work.
    advance: As in `Teacher.logits`.
  """
  last = len(teachers) - 1
  logits = [
    teacher.logits(own, strategy=strategy, advance=advance if number == last else lambda _: None)
    for number, (teacher, own) in enumerate(zip(teachers, tuples, strict=True))
  ]
  return np.mean(logits, axis=0)


def labeller(
  teachers: Sequence[Scores], records: TupleSet, strategy: tf.distribute.Strategy
) -> Labeller:
  """A function from tuples of a set, [n, slots] item numbers, to mean logits, in batches."""
  tables = [tokens.tables_of(records, teacher.tokenizer) for teacher in teachers]
  near = similarity.mean(teachers, records)

  def label(items: np.ndarray, advance: Callable[[int], Any]) -> Iterator[np.ndarray]:
    for start in range(0, len(items), _PIECE):
      some = items[start : start + _PIECE]
      tuples = [TokenizedTuples(of_teacher, some) for of_teacher in tables]
      yield mean_logits(teachers, tuples, strategy=strategy, advance=advance) + near(some)

  return label


def of_texts(teachers: Sequence[Scores], texts: Sequence[tuple[str, ...]]) -> np.ndarray:
  """Mean logits [n, outputs] of n tuples of texts in memory."""
  records = MemorySet('', [Example('', of, 0.0) for of in texts])
  label = labeller(teachers, records, tf.distribute.get_strategy())
  return np.concatenate(list(label(records.tuples().items, lambda tuples: None)))


def scorer_of(teachers: Sequence[Teacher], strategy: tf.distribute.Strategy) -> SetScorer:
  """A function of sets to mean logits, with a progress bar."""
  return with_bar(lambda records: labeller(teachers, records, strategy))


def with_bar(labellers: Callable[[Any], Labeller]) -> SetScorer:
  """A function of sets to logits by a teacher's labeller of each, with a progress bar."""

  def score(records: TupleSet) -> np.ndarray:
    items = records.tuples().items
    with tqdm(total=len(items), desc='teacher', unit=' tuples') as bar:
      return np.concatenate(list(labellers(records)(items, bar.update)))

  return score


def fine_tune(
  pretrained: Pretrained,
  max_length: int,
  phase: PhaseConfig,
  training: Training,
  folder: str,
  *,
  criterion: Loss = CrossEntropy('label'),  # noqa: B008 (a frozen dataclass)
  name: str = 'teacher',
  near: str = '',
) -> list[dict[str, Any]]:
  """Fine-tunes a pretrained encoder on a record set into a teacher's `folder`.

  Args:
    pretrained: Checkpoint that it starts from; of fewer layers in its config, the first ones.
    max_length: Most tokens of a packed tuple.
    phase: Rates and lengths.
    training: Record sets with targets and to judge by, devices and seed.
    folder: The teacher's folder; training resumes from it.
    criterion: The loss: Eq. 1 with the labels (of classes, their softmax), or with soft labels.
    name: Name of the phase.
    near: Checkpoint of an embedder that learns the labels too; its cosine is added where valid
      gains by it (`similarity.fitted`).

  Returns:
    The histories of the phases, as of `loop.fit`.
  """
  outputs, strategy = training.task.outputs, training.strategy
  tokenizer = Tokenizer(pretrained.vocabulary, pretrained.lower_case)
  with strategy.scope():
    teacher = Teacher(pretrained.config, tokenizer, max_length, outputs)
    teacher.model.encoder.restore(pretrained)
  valid = RecordSet(training.valid)
  valid_tuples = TokenizedTuples.of_set(valid, tokenizer)
  if share := valid_tuples.cut_packed(max_length):
    print(f'valid: tuples are cut at {max_length} tokens in {share:.1%} (--teacher_max_length)')
  judged = JudgedSet(valid, training.task)

  def training_batches(start: int) -> tf.data.Dataset:
    train = RecordSet(training.distill)
    tuples, tables = train.tuples(), tokens.tables_of(train, tokenizer)
    bucketed = not training.devices.static_shapes
    buckets, lengths = batches.by_length(tuples, tables, max_length, bucketed)
    order = ShuffledByLength(buckets, phase.batch_size, training.seed)
    replicas = strategy.num_replicas_in_sync
    made = batches.TupleBatches(tuples, order, criterion.needs, outputs, replicas)
    return made.packed(start, tables, max_length, lengths)

  def loss(batch: batches.Batch) -> tf.Tensor:
    logits = teacher.model(batch['ids'], batch['segment_ids'], training=True)
    return criterion(batch, logits)

  def evaluate() -> dict[str, float]:
    return judged.evaluate(teacher.logits(valid_tuples, strategy=strategy))

  histories = [
    loop.fit(
      loop.Phase(
        name,
        teacher.model,
        teacher.model.trainable_variables,
        loss,
        training_batches,
        evaluate,
        judged.watched,
        training.callbacks,
      ),
      phase,
      folder,
      strategy=strategy,
      jit_compile=training.devices.jit_compile,
    )
  ]
  if near and outputs == 1:
    embedder = os.path.join(folder, learnt_similarity.NAME)
    histories.append(learnt_similarity.fine_tune(near, training, embedder, phase.steps))
    scored = teacher.logits(valid_tuples, strategy=strategy)
    if found := similarity.fitted(embedder, scored, valid, judged):
      teacher.similarity, scale, bias = found
      kernel, own = teacher.model.classifier.weights
      kernel.assign(kernel * scale)
      own.assign(own * scale + bias)
  teacher.save(folder)
  return histories
