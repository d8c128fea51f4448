"""Reads an export: its SavedModels in version folders, and its description."""

import functools
import os
from typing import Any

from common import digests, files, schema
from common.errors import InputError, check_pattern_free, damaged, local_path
from common.scoring import archive, hub

REMEDY = 'export the run anew: delete its folder and run again'
VERSION = '1'  # of each SavedModel in an export
SAVED_MODEL = 'saved_model.pb'
ONE_TO_MANY_INT8 = 'one_to_many_int8'  # the head's signature of an int8 store's vectors
OF_PRODUCTS = 'of_products'  # that of inner products, which LiteRT's files of some heads have
DESCRIPTION = 'scorer.json'  # beside encoder and head: what the scorer must know of them
_FIELDS = {
  'kind': str,
  'slots': list[str],
  'vector_shapes': list[list[int]],
  'widths': dict,  # of slots that take vectors in place of texts
  'outputs': int,
  'encoded_as': list[int],  # by slot, the first slot that has the same encoder
  'max_lengths': list[int],  # by slot, most tokens of a text, which is cut there
  'calibration': dict,
  'task': str,
  'fingerprint': str,
  'stored_under': dict,  # of frozen encoders
}


class Export:
  """An export's folder; loads each SavedModel at its first use.

  Args:
    folder: The export, or its name as `local` takes it.
  """

  def __init__(self, folder: str):
    self.folder = local(folder)

  @functools.cached_property
  def description(self) -> dict[str, Any]:
    """The fields that `describe` reads."""
    return describe(self.folder)

  @functools.cached_property
  def encoder(self) -> Any:
    """The encoders' SavedModel."""
    return load(os.path.join(self.folder, 'encoder'))

  @functools.cached_property
  def head(self) -> Any:
    """The head's SavedModel."""
    return load(os.path.join(self.folder, 'head'))

  def runtime(self, name: str, flag: str = 'runtime') -> str:
    """The runtime of a name; of an empty one TensorFlow, or a release's only one.

    Raises:
      InputError: If a release has another one.
    """
    only = self.description.get('runtime')
    if only and name not in ('', only):
      raise InputError(f'{flag}={name!r}: this export is a release, which has {only!r} alone')
    return name or only or 'tensorflow'


def local(folder: str) -> str:
  """The local folder of an export: an archive is unpacked, `hf://org/name` fetched.

  A name that is no path, such as 'medquad', is an archive's that comes with the package.
  """
  folder = local_path(folder, 'folder')
  if os.path.basename(folder) == folder and not os.path.exists(folder):
    brought = files.own('pretrained', f'{folder}{archive.SUFFIX}')
    folder = brought if os.path.exists(brought) else folder
  return archive.unpacked(folder) if archive.is_one(folder) else hub.local(folder)


def load(folder: str) -> Any:
  """The SavedModel of `VERSION` in `folder`; the description and LiteRT's files are of it too."""
  return load_version(os.path.join(folder, VERSION))


def load_version(path: str) -> Any:
  """The SavedModel of a version folder; a damaged one is refused."""
  import tensorflow as tf
  import tensorflow_text  # noqa: F401  (registers the tokenizer's ops)

  check_pattern_free(path)
  digests.check(path, REMEDY)
  with damaged(path, REMEDY):
    return tf.saved_model.load(path)


def latest(folder: str) -> str:
  """The folder of the highest version in `folder`, which TensorFlow Serving serves.

  Raises:
    InputError: If there is none.
  """
  try:
    names = files.names(folder)
  except (FileNotFoundError, NotADirectoryError) as error:
    raise InputError(f'{folder}: no such folder; {REMEDY}') from error
  versions = [name for name in names if name.isdigit()]
  if not versions:
    raise InputError(f'{folder}: no version folder such as {VERSION}/ in it; {REMEDY}')
  return os.path.join(folder, max(versions, key=int))


def signature_definitions(path: str) -> dict[str, Any]:
  """`SignatureDef`s of a SavedModel's version folder, by name, as they stand in it."""
  from tensorflow.core.protobuf import saved_model_pb2

  model, source = saved_model_pb2.SavedModel(), os.path.join(path, SAVED_MODEL)
  digests.check(source, REMEDY)
  with damaged(source, REMEDY):
    with open(source, 'rb') as file:
      model.ParseFromString(file.read())
    definitions = model.meta_graphs[0].signature_def
  return {name: definitions[name] for name in sorted(definitions) if not name.startswith('__')}


def fingerprints(description: dict[str, Any]) -> dict[str, str]:
  """Fingerprints by slot that vectors are stored under: the encoder's, or its frozen original's."""
  own = dict.fromkeys(description['slots'], description['fingerprint'])
  return {**own, **description['stored_under']}


def describe(folder: str) -> dict[str, Any]:
  """An export's description, the fields of `_FIELDS`; a release has its 'runtime' too.

  Raises:
    InputError: If it is none.
  """
  path = os.path.join(folder, DESCRIPTION)
  digests.check(path, REMEDY)
  try:
    description = files.read_json(path, REMEDY)
  except OSError as error:
    raise InputError(f'{folder}: no export there ({DESCRIPTION} is missing)') from error
  with damaged(path, REMEDY):
    schema.check(description, _FIELDS, 'scorer')
    if 'runtime' in description:
      schema.check(description, {'runtime': str}, 'scorer')
    if len(description['slots']) != len(description['vector_shapes']):
      raise ValueError('a shape of vectors for each slot is needed')
  return description
