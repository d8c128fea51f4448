"""SavedModels in TF Serving's version folders, each reloaded in a fresh process before it counts.

`python -m common.serving.export FOLDER SAMPLES` is that process: it loads the SavedModel, calls its
signatures on the samples and prints the largest difference from the outputs given.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from common.errors import InputError

VERSION = '1'
DESCRIPTION = 'scorer.json'  # beside encoder and head: what the scorer must know of them
TOLERANCE = 1e-5
WARMUP = 'tf_serving_warmup_requests'  # in assets.extra/, TensorFlow Serving's own name
BATCHING = 'batching_params.pbtxt'  # likewise
_NOT_THE_MODEL = (WARMUP, BATCHING, 'fingerprint.pb')  # the last differs from save to save

Samples = dict[str, dict[str, Any]]  # signature: {input name: value}


def save(
  folder: str,
  signatures: dict[str, Any],
  variables: Sequence[tf.Variable],
  samples: Samples,
) -> float:
  """Saves functions as the signatures of `folder`/1, and checks them in a fresh process.

  Args:
    folder: The model's; its name is what a server calls it.
    signatures: Concrete functions of named tensors; each returns a dict.
    variables: All that the functions read.
    samples: Inputs of each signature to be checked.

  Returns:
    The largest absolute difference between live and reloaded outputs.

  Raises:
    RuntimeError: If it is above 1e-5: the export is not the model.
  """
  module = tf.Module()
  module.variables_ = list(variables)
  path = os.path.join(folder, VERSION)
  tf.saved_model.save(module, path, signatures=signatures)
  difference = _difference_in_fresh_process(path, signatures, samples)
  if not difference <= TOLERANCE:
    raise RuntimeError(f'{path}: reloaded outputs differ from the live model by {difference:g}')
  return difference


def load(folder: str) -> Any:
  """The SavedModel of the highest version in `folder`."""
  import tensorflow_text  # noqa: F401  (registers the tokenizer's ops)

  return tf.saved_model.load(latest(folder))


def latest(folder: str) -> str:
  """The folder of the highest version in `folder`."""
  names = [name.strip('/') for name in tf.io.gfile.listdir(folder)]
  versions = [name for name in names if name.isdigit()]
  if not versions:
    raise FileNotFoundError(f'{folder}: no version folder such as {VERSION}/ in it')
  return os.path.join(folder, max(versions, key=int))


def describe(folder: str) -> dict[str, Any]:
  """What an export says of itself: 'kind', 'slots', 'vector_shapes', 'outputs', 'fingerprint'.

  Raises:
    InputError: If it is none.
  """
  try:
    with open(os.path.join(folder, DESCRIPTION), encoding='utf-8') as file:
      return json.load(file)
  except OSError as error:
    missing = f'({DESCRIPTION} is missing)'
    raise InputError(f'{folder}: no export there {missing}') from error


def size(folder: str) -> int:
  """Bytes of all files in a folder."""
  return sum(
    os.path.getsize(os.path.join(base, name))
    for base, _, names in os.walk(folder)
    for name in names
  )


def fingerprint(folder: str) -> str:
  """sha256 of a model's files, without what a server's configuration adds."""
  digest = hashlib.sha256()
  for base, _, names in sorted(os.walk(folder)):
    for name in sorted(names):
      if name not in _NOT_THE_MODEL:
        with open(os.path.join(base, name), 'rb') as file:
          digest.update(hashlib.file_digest(file, 'sha256').digest())
  return digest.hexdigest()


def _difference_in_fresh_process(path: str, signatures: dict[str, Any], samples: Samples) -> float:
  cases = {}
  for name, inputs in samples.items():
    outputs = signatures[name](**{key: tf.constant(value) for key, value in inputs.items()})
    cases[name] = {
      'inputs': {key: np.asarray(value).tolist() for key, value in inputs.items()},
      # An order follows from its scores; between scores that rounding alone tells apart it is free.
      'outputs': {k: v.numpy().tolist() for k, v in outputs.items() if v.dtype.is_floating},
    }
  with tempfile.NamedTemporaryFile('w', suffix='.json') as file:
    json.dump(cases, file)
    file.flush()
    command = [sys.executable, '-m', 'common.serving.export', path, file.name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
  if done.returncode:
    raise RuntimeError(f'{path}: cannot be loaded in a fresh process:\n{done.stderr[-2000:]}')
  return float(done.stdout.split()[-1])


def _largest_difference(path: str, samples: str) -> float:
  import tensorflow_text  # noqa: F401

  model = tf.saved_model.load(path)
  with open(samples, encoding='utf-8') as file:
    cases = json.load(file)
  largest = 0.0
  for name, case in cases.items():
    signature = model.signatures[name]
    kinds = signature.structured_input_signature[1]
    inputs = {k: tf.constant(v, kinds[k].dtype) for k, v in case['inputs'].items()}
    outputs = signature(**inputs)
    for key, expected in case['outputs'].items():
      largest = max(largest, float(np.abs(outputs[key].numpy() - np.array(expected)).max()))
  return largest


if __name__ == '__main__':
  print(_largest_difference(*sys.argv[1:]))
