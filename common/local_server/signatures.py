"""Signatures of a served model: types and shapes of inputs and outputs, and the call."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from common.errors import InputError

Arrays = dict[str, np.ndarray]
Call = Callable[[Arrays], Arrays]
_ROWS = 1024  # of texts or word ids: an encoder makes a thousand times as much of them
_IDS = 512  # word ids of a row: BERT's positions


@dataclasses.dataclass(frozen=True)
class Spec:
  """A tensor's type and shape, with -1 where any size goes."""

  dtype: tf.DType
  shape: tuple[int, ...]

  def __str__(self) -> str:
    return f'{self.dtype.name} [{", ".join("?" if n < 0 else str(n) for n in self.shape)}]'


@dataclasses.dataclass(frozen=True)
class Signature:
  """A function of a model.

  Attributes:
    model: Name of the model.
    name: Name of the signature.
    inputs: Types and shapes of the inputs, by name.
    outputs: Types and shapes of the outputs, by name.
    call: Arrays in, arrays out.
  """

  model: str
  name: str
  inputs: Mapping[str, Spec]
  outputs: Mapping[str, Spec]
  call: Call

  @property
  def where(self) -> str:
    """Start of each refusal."""
    return f'model {self.model!r}, signature {self.name!r}'

  def check(self, inputs: Arrays) -> None:
    """Raises InputError at the first input that is not as the signature takes it."""
    takes = ', '.join(f'{name}: {spec}' for name, spec in self.inputs.items())
    if missing := [name for name in self.inputs if name not in inputs]:
      raise InputError(f'{self.where}: input {missing[0]!r} is missing; it takes {takes}')
    if more := [name for name in inputs if name not in self.inputs]:
      raise InputError(f'{self.where}: there is no input {more[0][:100]!r}; it takes {takes}')
    for name, spec in self.inputs.items():
      _check_input(inputs[name], spec, f'{self.where}: input {name!r}')


def specs(tensors: Mapping[str, Any]) -> dict[str, Spec]:
  """Types and shapes of a `SignatureDef`'s inputs or outputs."""
  return {
    name: Spec(tf.as_dtype(info.dtype), tuple(d.size for d in info.tensor_shape.dim))
    for name, info in sorted(tensors.items())
  }


def _check_input(value: np.ndarray, spec: Spec, where: str) -> None:
  dtype = 'string' if value.dtype == object else value.dtype.name
  if dtype != spec.dtype.name:
    raise InputError(f'{where} is {dtype}, not {spec}')
  fits = value.ndim == len(spec.shape)
  if not fits or any(n not in (-1, m) for n, m in zip(spec.shape, value.shape, strict=True)):
    raise InputError(f'{where} has the shape {list(value.shape)}, not {spec}')
  if not value.size:
    raise InputError(f'{where} is empty')
  if dtype in ('string', 'int32') and value.ndim:  # texts, word ids
    if len(value) > _ROWS:
      raise InputError(f'{where} has {len(value):,} rows; {_ROWS:,} are the most')
    if value.size > _IDS * len(value):
      raise InputError(
        f'{where} has the shape {list(value.shape)}; a row has {_IDS} ids at the most'
      )
