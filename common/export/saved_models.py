"""SavedModels in TF Serving's version folders, each reloaded in a fresh process before it counts.

`python -m common.export.saved_models CASES` is that process: it loads each SavedModel, calls its
signatures on samples and prints the largest difference from the outputs given.
"""

import concurrent.futures
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from common import files
from common.scoring.exported import VERSION

TOLERANCE = 1e-5
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WARMUP = 'tf_serving_warmup_requests'  # in assets.extra/, TensorFlow Serving's own name
BATCHING = 'batching_params.pbtxt'  # likewise
_NOT_THE_MODEL = (WARMUP, BATCHING, 'fingerprint.pb')  # the last differs from save to save

Samples = dict[str, dict[str, Any]]  # signature: {input name: value}


class Saved(NamedTuple):
  """A model that was written and is to be checked.

  Attributes:
    path: Version folder of a SavedModel, or an ONNX file, whose one signature is ''.
    signatures: Concrete functions of the live model.
    samples: Inputs of each signature.
    tolerance: Largest difference of an output.
  """

  path: str
  signatures: dict[str, Any]
  samples: Samples
  tolerance: float = TOLERANCE


def save(
  folder: str, signatures: dict[str, Any], variables: Sequence[tf.Variable], samples: Samples
) -> Saved:
  """Saves functions as the signatures of `folder`/1, for `verify`.

  Args:
    folder: The model's; its name is what a server calls it.
    signatures: Concrete functions of named tensors; each returns a dict.
    variables: Variables that the functions read.
    samples: Inputs of each signature to be checked.
  """
  module = tf.Module()
  module.variables_ = list(variables)
  path = os.path.join(folder, VERSION)
  tf.saved_model.save(module, path, signatures=signatures)
  return Saved(path, signatures, samples)


@contextlib.contextmanager
def exact() -> Iterator[None]:
  """Multiplies float32 in full inside; a GPU from Ampere on would round it to 10 bits."""
  config = tf.config.experimental
  before = config.tensor_float_32_execution_enabled()
  config.enable_tensor_float_32_execution(False)
  try:
    yield
  finally:
    config.enable_tensor_float_32_execution(before)


@exact()
def verify(*models: Saved) -> concurrent.futures.Future[float]:
  """Starts a fresh process that compares what it reloads with the live models.

  Returns:
    The largest absolute difference, once the process has ended. Its `result` raises RuntimeError if
    it is above the tolerance, or a model cannot be loaded: an export is not the model.
  """
  cases = {model.path: _cases(model) for model in models}
  tolerances = {model.path: model.tolerance for model in models}
  with_process = concurrent.futures.ThreadPoolExecutor(1)  # a thread that calls no TensorFlow
  difference = with_process.submit(_reloaded, cases, tolerances)
  with_process.shutdown(wait=False)
  return difference


def _reloaded(cases: dict[str, Any], tolerances: dict[str, float]) -> float:
  with tempfile.NamedTemporaryFile('w', suffix='.json') as file:
    json.dump(cases, file)
    file.flush()
    command = [sys.executable, '-m', 'common.export.saved_models', file.name]
    environment = {
      **os.environ,
      'TF_USE_LEGACY_KERAS': '1',  # Keras 3 is not imported
      'PYTHONSAFEPATH': '1',  # nor a `common` of the working folder
      'PYTHONPATH': os.pathsep.join(filter(None, (_ROOT, os.environ.get('PYTHONPATH')))),
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
  if done.returncode:
    raise RuntimeError(f'{", ".join(cases)}: not loaded in a fresh process:\n{done.stderr[-2000:]}')
  differences = json.loads(done.stdout.splitlines()[-1])
  for path, difference in differences.items():
    if not difference <= tolerances[path]:
      raise RuntimeError(f'{path}: reloaded outputs differ from the live model by {difference:g}')
  return max(differences.values())


def size(folder: str) -> int:
  """Bytes of all files in a folder."""
  return sum(
    os.path.getsize(os.path.join(base, name))
    for base, _, names in os.walk(folder)
    for name in names
  )


def fingerprint(folder: str) -> str:
  """sha256 of a model's files, without what a server's configuration adds."""
  return files.sha256_of_folder(folder, _NOT_THE_MODEL)


def _cases(model: Saved) -> dict[str, Any]:
  cases = {}
  for name, inputs in model.samples.items():
    outputs = model.signatures[name](**{k: tf.constant(value) for k, value in inputs.items()})
    cases[name] = {
      'inputs': {key: np.asarray(value).tolist() for key, value in inputs.items()},
      # An order follows from its scores; between scores that rounding alone tells apart it is free.
      'outputs': {k: v.numpy().tolist() for k, v in outputs.items() if v.dtype.is_floating},
    }
  return cases


def _largest_difference(path: str, cases: dict[str, Any]) -> float:
  call, largest = _loaded(path), 0.0
  for name, case in cases.items():
    outputs = call(name, case['inputs'])
    for key, expected in case['outputs'].items():
      difference = np.abs(np.asarray(outputs[key]) - np.array(expected)).max()
      largest = float(np.maximum(largest, difference))  # NaN, if either is
  return largest


def _loaded(path: str) -> Callable[[str, dict[str, Any]], dict[str, Any]]:
  """A function of a signature's name and inputs to its outputs, as they lie on the disk."""
  if path.endswith('.onnx'):
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=['CPUExecutionProvider'])
    names, dtypes = [of.name for of in session.get_outputs()], {'i': np.int32, 'f': np.float32}

    def run(_: str, inputs: dict[str, Any]) -> dict[str, Any]:
      arrays = {name: np.array(value) for name, value in inputs.items()}
      given = {name: a.astype(dtypes[a.dtype.kind]) for name, a in arrays.items()}
      return dict(zip(names, session.run(names, given), strict=True))

    return run
  model = tf.saved_model.load(path)

  def call(name: str, inputs: dict[str, Any]) -> dict[str, Any]:
    signature = model.signatures[name]
    specs = signature.structured_input_signature[1]
    return signature(**{k: tf.constant(v, specs[k].dtype) for k, v in inputs.items()})

  return call


@exact()
def _main(path: str) -> None:
  import tensorflow_text  # noqa: F401

  with open(path, encoding='utf-8') as file:
    found = {
      folder: _largest_difference(folder, cases) for folder, cases in json.load(file).items()
    }
  print(json.dumps(found))


if __name__ == '__main__':
  _main(sys.argv[1])
