"""TensorFlow Serving's files of an export: `python -m common.serving.config --export_dir=DIR`.

The server makes one batch of concurrent requests to a signature by joining their rows, so all
inputs of a request need the same number of them. It batches whole models, not single signatures:

* encoder: batched. Batches are not filled up, as each text more is a text more to encode. Word ids
  of `left_ids` and `right_ids` must be padded to one length by all clients.
* head: batched, and filled up to one of a few sizes. `one_to_many` and `of_parts` then take as many
  left rows as right ones; one left row with many is what `online` is for.
* online: one query with n candidates has no rows to join, so this model must not be batched.

`--enable_per_model_batching_parameters` batches the models that have a `batching_params.pbtxt` in
their version folder, and no others; of the common file it then reads the threads alone.
"""

import dataclasses
import importlib.resources
import json
import os
import re
import shlex
from collections.abc import Sequence
from typing import Any

from common import extras

with extras.needed('train'):
  import tensorflow as tf

from common import files, flags
from common.errors import InputError
from common.export import online, saved_models
from common.scoring import archive, exported

FOLDER = 'serving'  # in an export
_TIMEOUT_MICROS = 1000  # that a request waits for others
_ENQUEUED_BATCHES = 100  # then requests are refused
_MODELS_FILE, _BATCHING_FILE = 'models.config', 'batching.config'
_TOKENS = 8  # of a row of word ids in a warm-up request
_SIZES = (16, 128)  # rows that a head's batch is filled up to; the last by default the most

_BATCHING = """\
max_batch_size {{ value: {most} }}
batch_timeout_micros {{ value: {timeout} }}
max_enqueued_batches {{ value: {enqueued} }}
"""

_THREADS = """\
# A server with --enable_per_model_batching_parameters reads only the threads here: batches at a
# time, of all models. The server's cores are a good number. Each batched model has a
# batching_params.pbtxt. `online` has none and must not be batched: one query with n candidates
# has no rows that could be joined with another request's.
num_batch_threads { value: 4 }
"""

_MODEL = """\
  config {{
    name: {name}
    base_path: {path}
    model_platform: "tensorflow"
  }}
"""


@dataclasses.dataclass(frozen=True)
class ServingConfig:
  """The export to serve, and its batching."""

  export_dir: str = flags.option('', 'the export of a run')
  name: str = flags.option('', "what the models' names start with; the run folder's where empty")
  max_batch_size: int = flags.option(
    _SIZES[-1], 'most rows of a batch, and of a request to encoder or head', bounds=(1, 10**6)
  )


def main(config: ServingConfig) -> None:
  """Writes the files and prints how to start a server."""
  with open(write(config), encoding='utf-8') as file:
    print(file.read())


def write(config: ServingConfig) -> str:
  """Writes `serving/` into an export, and warm-up requests and batching into its models.

  Each file is whole or absent; the one that a server starts from is the last.

  Returns:
    Path of the README with the commands.

  Raises:
    InputError: If there is no export, or tensorflow-serving-api is not installed.
  """
  if not config.export_dir:
    raise InputError('--export_dir is needed')
  if archive.is_one(config.export_dir):
    raise InputError(
      f"--export_dir={config.export_dir}: an archive has no SavedModels; a run's export has"
    )
  if files.is_remote(config.export_dir):
    raise InputError(f'--export_dir={config.export_dir}: a folder of this machine is needed')
  exported.describe(config.export_dir)
  folder = os.path.abspath(config.export_dir)
  name = config.name or os.path.basename(os.path.dirname(folder))
  if not re.fullmatch(r'[A-Za-z0-9_.-]+', name):  # it stands in paths of REST as it is
    raise InputError(f'--name={name}: letters of ASCII, digits, _, . and - are needed')
  smaller = (size for size in _SIZES if size < config.max_batch_size)
  sizes = (*smaller, config.max_batch_size)
  rows = {'encoder': (1, sizes[0]), 'head': sizes, online.NAME: sizes}  # of warm-up requests
  if not os.path.isdir(os.path.join(folder, online.NAME)):
    del rows[online.NAME]  # tuples of more than two texts
  versions = {model: exported.latest(os.path.join(folder, model)) for model in rows}
  for model, version in versions.items():
    requests = _warmup(version, f'{name}_{model}', rows[model])
    path = os.path.join(version, 'assets.extra', saved_models.WARMUP)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with files.whole(path) as temporary, tf.io.TFRecordWriter(temporary) as writer:
      for request in requests:
        writer.write(request)
  batching = {'encoder': _batching(sizes[-1]), 'head': _batching(sizes[-1], sizes)}
  models = ''.join(
    _MODEL.format(
      name=json.dumps(f'{name}_{model}', ensure_ascii=False),
      path=json.dumps(os.path.join(folder, model), ensure_ascii=False),
    )
    for model in rows
  )
  own = os.path.join(folder, FOLDER)
  os.makedirs(own, exist_ok=True)
  readme = os.path.join(own, 'README.md')
  for path, text in (
    *((os.path.join(versions[of], saved_models.BATCHING), text) for of, text in batching.items()),
    (readme, _readme(folder, name)),
    (os.path.join(own, _BATCHING_FILE), _THREADS + batching['head']),
    (os.path.join(own, _MODELS_FILE), f'model_config_list {{\n{models}}}\n'),
  ):
    with files.whole(path) as temporary, files.opened(temporary, 'w') as file:
      file.write(text)
  return readme


def _warmup(path: str, name: str, rows: Sequence[int]) -> list[bytes]:
  """Serialized requests that the server calls while it loads a SavedModel, before any client does.

  They have the shapes of its signatures' inputs, not its data: a tensor of one value is stored as
  that value alone.

  Args:
    path: The SavedModel's version folder.
    name: The server's name of the model.
    rows: Sizes of dimension 0, a request each; inputs of a fixed size keep theirs.
  """
  with extras.needed('serving'):
    from tensorflow_serving.apis import model_pb2, predict_pb2, prediction_log_pb2
  logs = []
  for signature, definition in exported.signature_definitions(path).items():
    for count in rows:
      request = predict_pb2.PredictRequest(
        model_spec=model_pb2.ModelSpec(name=name, signature_name=signature),
        inputs={key: _tensor(info, count) for key, info in definition.inputs.items()},
      )
      of_request = prediction_log_pb2.PredictLog(request=request)
      log = prediction_log_pb2.PredictionLog(predict_log=of_request)
      logs.append(log.SerializeToString(deterministic=True))
  return logs


def _tensor(info: Any, rows: int) -> Any:
  """A tensor of one value, of what an input asks for."""
  first, *others = (dim.size for dim in info.tensor_shape.dim)
  first, *others = [rows if first < 0 else first, *(_TOKENS if d < 0 else d for d in others)]
  kind = tf.as_dtype(info.dtype)
  if kind == tf.string:
    return tf.make_tensor_proto([b'warm up'] * first)
  tensor = tf.make_tensor_proto(1, kind)  # word id 1, as no text is of padding alone
  tensor.tensor_shape.CopyFrom(tf.TensorShape([first, *others]).as_proto())
  return tensor


def _batching(most: int, allowed: Sequence[int] = ()) -> str:
  """`BatchingParameters`: batches of any size up to `most`, or filled up to an allowed one."""
  lines = [f'allowed_batch_sizes: {size}\n' for size in allowed]
  text = _BATCHING.format(most=most, timeout=_TIMEOUT_MICROS, enqueued=_ENQUEUED_BATCHES)
  return text + ''.join(lines)


def _readme(folder: str, name: str) -> str:
  own = os.path.join(folder, FOLDER)
  options = [
    f'--model_config_file={shlex.quote(os.path.join(own, _MODELS_FILE))}',
    f'--batching_parameters_file={shlex.quote(os.path.join(own, _BATCHING_FILE))}',
    '--enable_batching=true',
    '--enable_per_model_batching_parameters=true',
  ]
  template = importlib.resources.files(__package__) / 'readme.md'
  return template.read_text('utf-8').format(
    name=name,
    batching=saved_models.BATCHING,
    folder=shlex.quote(folder),
    options=' \\\n  '.join(options),
  )


if __name__ == '__main__':
  flags.command(main, ServingConfig)
