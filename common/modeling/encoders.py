"""The encoders there are, by name: this is the one place that lists them.

`--pretrained` names the checkpoint that an encoder starts from: `KIND:PATH` for one of `ENCODERS`,
a path alone for BERT.
"""

from typing import Any

from common import digests
from common.modeling.bert import Bert
from common.modeling.bilstm import BiLSTM
from common.modeling.checkpoints import Pretrained
from common.modeling.encoder import Encoder

BERT = 'bert'
ENCODERS: dict[str, type[Encoder]] = {BERT: Bert, 'bilstm': BiLSTM}


def read(path: str) -> Pretrained:
  """The config and the vocabulary of a checkpoint, not its weights.

  Args:
    path: `KIND:PATH`, or what `checkpoints.read` takes.

  Raises:
    InputError: It is not there, or not whole.
  """
  kind, place = _parse(path)
  return ENCODERS[kind].read(place)


def contents(path: str) -> dict[str, str]:
  """Digests of a checkpoint's files, by `digests.contents`; the path as for `read`."""
  return digests.contents(_parse(path)[1])


def _parse(path: str) -> tuple[str, str]:
  """Name of an encoder, and the checkpoint's own path."""
  kind, colon, rest = path.partition(':')
  return (kind, rest) if colon and kind in ENCODERS else (BERT, path)


def build(config: Any, pad_id: int, rows: int | None = None) -> Encoder:
  """An encoder, randomly initialized; arguments as for `Encoder`."""
  return ENCODERS[kind_of(config)](config, pad_id, rows)


def kind_of(config: Any) -> str:
  """Name of the encoder that a config is for."""
  return next(kind for kind, one in ENCODERS.items() if one.config_class is type(config))
