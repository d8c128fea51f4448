"""What all students do alike: start from a checkpoint's first layers, and their folder.

A student is a layer made of its config, its encoder's config, its number of outputs and the word id
of padding. It keeps them as `config`, `encoder_config` and `outputs`; its `encoders` hold a `bert`.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

from common.data.tokenization import Tokenizer
from common.errors import InputError
from common.modeling import checkpoints, saving
from common.modeling.checkpoints import Pretrained
from common.modeling.cross_encoder import CrossEncoder
from common.modeling.encoders import EncoderConfig

Make = Callable[..., Any]


def read_pretrained(config: Any, **layers: int) -> Pretrained:
  """The checkpoint that a student's encoders start from.

  Args:
    config: With `pretrained` and `max_lengths`.
    **layers: {flag: layers that the checkpoint must have}.

  Raises:
    InputError: If it is not there, or too short or too shallow; names the flag.
  """
  pretrained = checkpoints.read(config.pretrained)
  checkpoints.check_length(pretrained, '--max_lengths', max(config.max_lengths))
  there = pretrained.config.num_layers
  for flag, needed in layers.items():
    if needed > there:
      raise InputError(f'--{flag}={needed}: {config.pretrained} has {there}')
  return pretrained


def from_pretrained(
  student: Make, config: Any, outputs: int, pretrained: Pretrained
) -> tuple[Any, Tokenizer]:
  """A new student: the checkpoint's first `encoder_layers` (0: all), and what is random.

  Args:
    student: Its class.
    config: Its config, with `encoder_layers` and `dropout`.
    outputs: Logits a tuple.
    pretrained: As from `read_pretrained`.
  """
  layers = config.encoder_layers or pretrained.config.num_layers
  encoder = dataclasses.replace(pretrained.config, num_layers=layers, dropout=config.dropout)
  tokenizer = Tokenizer(pretrained.vocabulary, pretrained.lower_case)
  model = student(config, encoder, outputs, tokenizer.pad_id)
  for one in model.encoders:
    checkpoints.restore(one.bert, pretrained)
  return model, tokenizer


def start_from_teacher(model: Any, folder: str) -> None:
  """Starts a student's encoders from a teacher's fine-tuned one (DSE §3.4 tried it).

  Args:
    model: The student.
    folder: Of the teacher, from `Teacher.save`.

  Raises:
    InputError: If their architectures differ.
  """
  fields, _ = saving.read(folder)
  there = dataclasses.replace(EncoderConfig(**fields['encoder']), dropout=0.0)
  here = dataclasses.replace(model.encoder_config, dropout=0.0)
  if there != here:
    raise InputError(f'--from_teacher: {folder} has {there}, the student {here}')
  teacher = CrossEncoder(there, fields['outputs'])
  saving.restore(folder, teacher)
  for one in model.encoders:
    one.bert.set_weights(teacher.encoder.get_weights())


def save(folder: str, student: Any, tokenizer: Tokenizer) -> None:
  """Writes a student's folder."""
  fields = {
    'kind': student.name,
    'config': dataclasses.asdict(student.config),
    'encoder': dataclasses.asdict(student.encoder_config),
    'outputs': student.outputs,
  }
  saving.save(folder, student, tokenizer, fields)


def load(folder: str, kind: str, student: Make, config: Make) -> tuple[Any, Tokenizer]:
  """Reads a folder that `save` wrote.

  Args:
    folder: Of the student.
    kind: Its name.
    student: Its class.
    config: The class of its config.

  Raises:
    InputError: If it holds something else.
  """
  fields, tokenizer = saving.read(folder)
  if fields['kind'] != kind:
    raise InputError(f'{folder}: holds a {fields["kind"]}, not a {kind} student')
  values = {k: tuple(v) if isinstance(v, list) else v for k, v in fields['config'].items()}
  encoder = EncoderConfig(**fields['encoder'])
  model = student(config(**values), encoder, fields['outputs'], tokenizer.pad_id)
  saving.restore(folder, model)
  return model, tokenizer
