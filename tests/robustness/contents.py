"""Contents of a run's folder that are equal bit by bit on each start, as digests.

Times, logs and the names within SavedModels' graphs differ, and are left out.
"""

import hashlib
import json
import os
import re
from typing import Any

import numpy as np

# Values of a time or a machine; or of a graph's file, whose names follow from earlier traces.
_VARIES = re.compile(
  'seconds|per_second|speed|rates|stored|encoders|commit|command|environment|flags'
  '|bytes$|max_difference|^seal$|^sha256$'
)
_LOGS = ('run.log', 'report.html', 'README.md', 'digests.json')


def of(folder: str) -> dict[str, str]:
  """Digests of a folder's files, by path; times and logs are left out."""
  found = {}
  for base, _, names in os.walk(folder):
    for name in names:
      path = os.path.join(base, name)
      if base.endswith('/logs'):
        continue  # TensorBoard's: a file a start
      if name in _LOGS:
        content = b''
      elif name == 'checkpoint':
        with open(path, encoding='utf-8') as file:  # two lines of paths, then times
          content = ''.join(line for line in file if 'timestamp' not in line).encode()
      elif name.endswith('.json'):
        content = json.dumps(_lasting(_json(path)), sort_keys=True).encode()
      elif name.endswith('.pb') or '.data-' in name:
        content = b''  # .index finds the values
      elif name.endswith('.index'):
        content = _tensors(path.removesuffix('.index'))
      elif name.endswith('.tflite'):
        content = _constants(path)
      else:
        with open(path, 'rb') as file:
          content = file.read()
      found[os.path.relpath(path, folder)] = hashlib.sha256(content).hexdigest()[:16]
  return found


def _json(path: str) -> Any:
  with open(path, encoding='utf-8') as file:
    return json.load(file)


def _lasting(value: Any) -> Any:
  """A JSON value without the values that vary."""
  if isinstance(value, dict):
    return {name: _lasting(item) for name, item in value.items() if not _VARIES.search(name)}
  return [_lasting(item) for item in value] if isinstance(value, list) else value


def _tensors(prefix: str) -> bytes:
  """The numbers of a checkpoint."""
  import tensorflow as tf

  reader = tf.train.load_checkpoint(prefix)
  digest = hashlib.sha256()
  for name in sorted(reader.get_variable_to_shape_map()):
    if 'save_counter' not in name and name != '_CHECKPOINTABLE_OBJECT_GRAPH':
      digest.update(name.encode() + np.ascontiguousarray(reader.get_tensor(name)).tobytes())
  return digest.digest()


def _constants(path: str) -> bytes:
  """The numbers of a LiteRT file."""
  from tensorflow.lite.python import schema_py_generated as schema

  with open(path, 'rb') as file:
    model = schema.Model.GetRootAs(file.read())
  buffers = (model.Buffers(number).DataAsNumpy() for number in range(model.BuffersLength()))
  return b''.join(sorted(hashlib.sha256(np.array(of).tobytes()).digest() for of in buffers))
