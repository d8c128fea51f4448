"""The right encoder of a finished run, frozen to train a new left one against (`--freeze_right`).

Vectors that the run's export stored of right texts stay valid: the new export takes them too.
"""

import dataclasses
import os
from typing import Any

from common import flags
from common.errors import InputError
from dipair.config import StudentConfig
from dipair.student import DiPair, right_fingerprint

_FREE = {  # flags in which the two students may differ
  *('pretrained', 'encoder_layers', 'left_encoder_layers', 'right_encoder_layers'),
  *('shared_encoder', 'freeze_right', 'max_lengths', 'dropout'),
}


def contents(config: StudentConfig) -> dict[str, str]:
  """Inputs of a student beside its flags: the vectors' encoder; empty without a finished run."""
  found = right_fingerprint(config.freeze_right)
  return {'fingerprint of --freeze_right': found} if found else {}


def read(config: StudentConfig, outputs: int) -> DiPair:
  """The finished run's student.

  Args:
    config: The new student's, with `freeze_right`.
    outputs: Outputs of the new student.

  Raises:
    InputError: If there is none, or the new student could not read its vectors; names what differs.
  """
  frozen, tokenizer = DiPair.load(os.path.join(config.freeze_right, 'student'))
  pretrained = DiPair.read_pretrained(config)
  words = (pretrained.vocabulary, pretrained.lower_case)
  if (tokenizer.vocabulary, tokenizer.lower_case) != words:
    raise InputError(
      f'--freeze_right={config.freeze_right}: its vocabulary differs from '
      f'--pretrained={config.pretrained}; set --pretrained to its own checkpoint'
    )
  there = _compared(frozen.config, frozen.encoder_config, frozen.outputs)
  here = _compared(config, pretrained.config, outputs)
  for name, value in there.items():
    if here[name] != value:
      raise InputError(f'--freeze_right={config.freeze_right}: {name} is {value}, not {here[name]}')
  return frozen


def start(student: DiPair, frozen: DiPair) -> None:
  """Starts a new student: right encoder, projections and head are the finished run's."""
  student.encoder(1).set_weights(frozen.encoder(1).get_weights())
  for own, given in zip(student.projections, frozen.projections, strict=True):
    own.set_weights(given.get_weights())
  student.head.set_weights(frozen.head.get_weights())


def _compared(config: StudentConfig, encoder: Any, outputs: int) -> dict[str, object]:
  """Settings that both students must share."""
  return {
    **{f'--{name}': value for name, value in flags.flat(config).items() if name not in _FREE},
    'depth of its right encoder': config.depths[-1] or encoder.num_layers,
    'length of its right texts': config.max_lengths[-1],
    'outputs': outputs,
    'encoder': dataclasses.replace(encoder, num_layers=1, dropout=0.0),
  }
