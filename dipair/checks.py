"""Refusals of a student's flags before training, for a run and for students beside it."""

from common.data import vector_cells
from common.data.examples import TableConfig
from common.errors import InputError
from dipair import frozen_right
from dipair.config import StudentConfig
from dipair.student import DiPair

_LEAST_LENGTH = 2


def check_texts(config: StudentConfig, table: TableConfig) -> None:
  """Refuses a student whose number of texts differs from the table's, or that leaves no tokens."""
  columns, texts = table.text_columns, len(config.output_tokens)
  if len(columns) != texts:
    raise InputError(
      f'--text_columns names {len(columns)} texts, --output_tokens and --max_lengths {texts}'
    )
  vectors = {vector_cells.parse(flag)[0] for flag in table.vector_columns}
  for column, most in zip(columns, config.max_lengths, strict=True):
    if most < _LEAST_LENGTH and column not in vectors:
      raise InputError(
        f'--max_lengths={",".join(map(str, config.max_lengths))}: a text takes {_LEAST_LENGTH} '
        'or more, [CLS] and [SEP]'
      )


def check_start(config: StudentConfig, outputs: int) -> None:
  """Refuses a checkpoint, or a run with `--freeze_right`, that is not there or does not fit."""
  DiPair.read_pretrained(config)
  if config.freeze_right:
    frozen_right.read(config, outputs)
