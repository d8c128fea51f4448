"""The one contract of a student: a chain of four links, each per slot, a text's place in a tuple.

word ids → features(ids, slot, training)    the pretrained encoder's output; cached while frozen
features → vectors(features, slot)          what is stored of a text
vectors  → part(vectors, slot)              per-text computation; the head combines it per tuple
parts    → logits(parts, vectors, training) logits of tuples

Training, export and scoring follow from these four. A slot of vectors in place of texts (an image's
embedding, a user's) has no encoder: its features are those vectors.

Dimensions: U distinct texts, L tokens, w a given vector's width, B tuples, O outputs.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import tensorflow as tf
import tf_keras

from common import flags, schema
from common.data.tokenization import Tokenizer
from common.errors import InputError
from common.modeling import checkpoints, encoders, saving
from common.modeling.checkpoints import Pretrained
from common.modeling.encoder import without
from common.modeling.head import ExportedHead, Head


class Student(tf_keras.layers.Layer):
  """A layer made of its config, its encoder's config, its outputs and the word id of padding.

  A subclass has a `kind` and a `config_class`. It makes `encoders` (one for all slots of texts, or
  one a slot of texts; each a layer with an `encoder`), maybe `projections` (one a slot), and
  `head`, in this order, which is that of its saved weights; then it calls `make_head`. It defines
  the shapes of features and vectors, `features` and, where there are projections, `vectors`.

  Args:
    config: An instance of `config_class`, with `pretrained`, `max_lengths`, `encoder_layers` (0:
      all) and `dropout`, each a flag.
    encoder: Config of the pretrained encoder.
    outputs: O.
    pad_id: Word id of padding.
    widths: w a slot, 0 where it holds texts; empty: all do.

  Attributes:
    name: Its kind.
    slots: Number of texts in a tuple.
    outputs: O.
    max_lengths: Most tokens of a text, a slot.
    config: The student's configuration.
    encoder_config: Config of the pretrained encoder.
    encoders: Encoders by slot.
    projections: Layers from features to vectors, by slot; none where features are the vectors.
    head: The head.
  """

  kind: ClassVar[str]
  config_class: ClassVar[type]
  encoders: list[Any]
  head: Head

  def __init__(
    self, config: Any, encoder: Any, outputs: int, pad_id: int, widths: Sequence[int] = ()
  ):
    super().__init__(name=self.kind, dtype=tf.float32)
    self.config, self.encoder_config = config, encoder
    self.outputs, self.pad_id = outputs, pad_id
    self.max_lengths, self.slots = tuple(config.max_lengths), len(config.max_lengths)
    self.widths = tuple(widths) or (0,) * self.slots
    self.projections: list[Any] = []

  def feature_shape(self, slot: int) -> tuple[int, ...]:
    """Shape of one text's features."""
    raise NotImplementedError

  def features(self, ids: tf.Tensor, slot: int, training: bool | None = None) -> tf.Tensor:
    """The pretrained encoder's output: [U, L] word ids to [U, *feature_shape] float32."""
    raise NotImplementedError

  def vector_shape(self, slot: int) -> tuple[int, ...]:
    """Shape of what is stored of one text."""
    return self.feature_shape(slot)

  def vectors(self, features: tf.Tensor, slot: int) -> tf.Tensor:
    """Vectors of texts, as stored: [U, *feature_shape] to [U, *vector_shape] float32."""
    del slot
    return features

  def part(self, vectors: tf.Tensor, slot: int) -> tf.Tensor:
    """Per-text computation of the head: [U, *vector_shape] to [U, *part_shape]."""
    return self.head.part(vectors, slot)

  def logits(
    self,
    parts: Sequence[tf.Tensor],
    vectors: Sequence[tf.Tensor],
    training: bool | None = None,
  ) -> tf.Tensor:
    """Logits [B, O] float32 of parts and vectors, [B, ...] a slot each."""
    return self.head.logits(parts, vectors, training)

  def encode(self, ids: tf.Tensor, slot: int, training: bool | None = None) -> tf.Tensor:
    """Word ids to vectors: [U, L] to [U, *vector_shape]."""
    return self.vectors(self.features(ids, slot, training), slot)

  def score_vectors(self, vectors: Sequence[tf.Tensor], training: bool | None = None) -> tf.Tensor:
    """Logits [B, O] of vectors, [B, *vector_shape] a slot."""
    parts = [self.part(x, slot) for slot, x in enumerate(vectors)]
    return self.logits(parts, vectors, training)

  def call(self, features: Sequence[tf.Tensor], training: bool | None = None) -> tf.Tensor:
    """Logits [B, O] of features, [B, *feature_shape] a slot."""
    vectors = [self.vectors(x, slot) for slot, x in enumerate(features)]
    return self.score_vectors(vectors, training)

  def exported_head(self) -> ExportedHead:
    """The head as it is exported."""
    return self.head.exported()

  def encoder_input(self, slot: int) -> tf.TensorSpec:
    """Spec of the input of `encode`: [U, L] word ids, or [U, w] vectors."""
    if width := self.widths[slot]:
      return tf.TensorSpec([None, width], tf.float32, name='vector')
    return tf.TensorSpec([None, None], tf.int32, name='ids')

  def encoder(self, slot: int) -> Any:
    """The one of `encoders` that a slot's texts go through."""
    return self.encoders[self.widths[:slot].count(0) if len(self.encoders) > 1 else 0]

  def encoded_as(self, slot: int) -> int:
    """The first slot with the same `encode`, so that their texts may be encoded together."""
    return slot

  def encoder_layers(self, slot: int) -> list[tf.Module]:
    """Layers that `encode` computes with."""
    own = [] if self.widths[slot] else [self.encoder(slot)]
    return [*own, *self.projections[slot : slot + 1]]

  def stored_under(self, slot: int) -> str:
    """Fingerprint of the other export that a slot shares vectors with; empty: none."""
    del slot
    return ''

  @property
  def new_variables(self) -> list[tf.Variable]:
    """Variables that are not pretrained, which train while the encoders are frozen."""
    return without(self.trainable_variables, (e.trainable_variables for e in self.encoders))

  @property
  def used_variables(self) -> list[tf.Variable]:
    """Variables that the logits depend on."""
    return without(self.trainable_variables, (e.encoder.unused_variables for e in self.encoders))

  def make_head(self, head: Head) -> None:
    """Sets the head and makes its variables."""
    self.head = head
    head([tf.zeros([1, *self.vector_shape(slot)]) for slot in range(self.slots)])

  @classmethod
  def needed_layers(cls, config: Any) -> dict[str, int]:
    """{flag: layers that the checkpoint must have for it}."""
    return {'encoder_layers': config.encoder_layers}

  @classmethod
  def read_pretrained(cls, config: Any) -> Pretrained:
    """The checkpoint that the encoders start from.

    Raises:
      InputError: If it is not there, or too short or too shallow; names the flag.
    """
    pretrained = encoders.read(config.pretrained)
    checkpoints.check_length(pretrained, '--max_lengths', max(config.max_lengths, default=0))
    there = pretrained.config.num_layers
    for flag, needed in cls.needed_layers(config).items():
      if needed > there:
        raise InputError(f'--{flag}={needed}: {config.pretrained} has {there}')
    return pretrained

  @classmethod
  def from_pretrained(
    cls,
    config: Any,
    outputs: int,
    widths: Sequence[int] = (),
    starts: Mapping[str, str] | None = None,
  ) -> tuple[Self, Tokenizer]:
    """A new student, of the checkpoint's first layers and what is random, and its tokenizer.

    `starts` has checkpoints of the same shape and words, whose weights take a checkpoint's place.
    """
    pretrained = cls.read_pretrained(config)
    layers = config.encoder_layers or pretrained.config.num_layers
    encoder = dataclasses.replace(pretrained.config, num_layers=layers, dropout=config.dropout)
    tokenizer = Tokenizer(pretrained.vocabulary, pretrained.lower_case)
    student = cls(config, encoder, outputs, tokenizer.pad_id, *_given(widths))
    start = (starts or {}).get(config.pretrained)
    weights = encoders.read(start) if start else pretrained
    for one in student.encoders:
      one.encoder.restore(weights)
    return student, tokenizer

  def save(self, folder: str, tokenizer: Tokenizer) -> None:
    """Writes the student's folder."""
    encoder = self.encoder_config  # of the depth that all texts have, where they have one
    if len(self.encoders) == 1:
      encoder = self.encoders[0].encoder.config
    fields = {
      'kind': self.kind,
      'config': flags.flat(self.config),
      'encoder_kind': encoders.kind_of(encoder),
      'encoder': dataclasses.asdict(encoder),
      'outputs': self.outputs,
      'widths': self.widths,
    }
    saving.save(folder, self, tokenizer, fields)

  @classmethod
  def load(cls, folder: str) -> tuple[Self, Tokenizer]:
    """Reads a folder that `save` wrote.

    Raises:
      InputError: If it holds something else.
    """
    fields, tokenizer = saving.read(folder)
    if (kind := fields['kind']) != cls.kind:
      raise InputError(f'{folder}: holds a {kind}, not a {cls.kind} student')
    with saving.described(folder):
      schema.check(fields, {'outputs': int, 'widths': list[int]})
      config = flags.build(cls.config_class, fields['config'])
      encoder_class = encoders.ENCODERS[fields['encoder_kind']]
      encoder = encoder_class.config_class(**fields['encoder'])
    widths = _given(fields['widths'])
    student = cls(config, encoder, fields['outputs'], tokenizer.pad_id, *widths)
    saving.restore(folder, student)
    return student, tokenizer


def _given(widths: Sequence[int]) -> list[Sequence[int]]:
  """The last argument of a student that takes vectors; a student of texts alone has none."""
  return [widths] if any(widths) else []
