"""Reading an export: its SavedModels in version folders, and what it says of itself."""

import functools
import os
from typing import Any

from common import files
from common.errors import InputError

VERSION = '1'
SAVED_MODEL = 'saved_model.pb'
DESCRIPTION = 'scorer.json'  # beside encoder and head: what the scorer must know of them


class Export:
  """An export's folder, whose SavedModels are loaded when they are first asked for.

  Args:
    folder: The export.
  """

  def __init__(self, folder: str):
    self.folder = folder

  @functools.cached_property
  def description(self) -> dict[str, Any]:
    """As from `describe`."""
    return describe(self.folder)

  @functools.cached_property
  def encoder(self) -> Any:
    """The encoders' SavedModel."""
    return load(os.path.join(self.folder, 'encoder'))

  @functools.cached_property
  def head(self) -> Any:
    """The head's SavedModel."""
    return load(os.path.join(self.folder, 'head'))


def load(folder: str) -> Any:
  """The SavedModel of the highest version in `folder`."""
  import tensorflow as tf
  import tensorflow_text  # noqa: F401  (registers the tokenizer's ops)

  return tf.saved_model.load(latest(folder))


def latest(folder: str) -> str:
  """The folder of the highest version in `folder`."""
  names = files.names(folder)
  versions = [name for name in names if name.isdigit()]
  if not versions:
    raise FileNotFoundError(f'{folder}: no version folder such as {VERSION}/ in it')
  return os.path.join(folder, max(versions, key=int))


def signature_definitions(path: str) -> dict[str, Any]:
  """`SignatureDef`s of a SavedModel's version folder, by name, as they stand in it."""
  from tensorflow.core.protobuf import saved_model_pb2

  model = saved_model_pb2.SavedModel()
  with open(os.path.join(path, SAVED_MODEL), 'rb') as file:
    model.ParseFromString(file.read())
  definitions = model.meta_graphs[0].signature_def
  return {name: definitions[name] for name in sorted(definitions) if not name.startswith('__')}


def describe(folder: str) -> dict[str, Any]:
  """An export's description: 'kind', 'slots', 'vector_shapes', 'outputs', 'attends', 'fingerprint'.

  Raises:
    InputError: If it is none.
  """
  path = os.path.join(folder, DESCRIPTION)
  try:
    description = files.read_json(path)
  except OSError as error:
    raise InputError(f'{folder}: no export there ({DESCRIPTION} is missing)') from error
  if 'attends' not in description:
    raise InputError(f'{path}: of an export from before; export the run anew')
  return description
