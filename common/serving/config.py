"""TensorFlow Serving's files of an export: `python -m common.serving.config --export_dir=DIR`.

The server makes one batch of concurrent requests to a signature by joining their rows, so all
inputs of a request need the same number of them. It batches whole models, not single signatures:

* encoder: batched. Batches are not filled up, as each text more is a text more to encode. Word ids
  of `left_ids` and `right_ids` must be padded to one length by all clients.
* head: batched, up to the sizes that the `xla` runtime compiles. `one_to_many` and `of_parts` then
  take as many left rows as right ones; one left row with many is what `online` is for.
* online: one query with n candidates has no rows to join, so this model must not be batched.

`--enable_per_model_batching_parameters` batches the models that have a `batching_params.pbtxt` in
their version folder, and no others; of the common file it then reads the threads alone.
"""

import contextlib
import dataclasses
import importlib.resources
import json
import os
import re
import shlex
from collections.abc import Sequence

import tensorflow as tf

from common import files, flags
from common.errors import InputError
from common.export import online, saved_models
from common.scoring import archive, exported
from common.scoring.tensorflow_head import XLA_BLOCKS
from common.serving import warmup

FOLDER = 'serving'  # in an export
_TIMEOUT_MICROS = 1000  # that a request waits for others
_ENQUEUED_BATCHES = 100  # then requests are refused
_MODELS_FILE, _BATCHING_FILE = 'models.config', 'batching.config'

_Content = str | list[bytes]  # text, or the records of a TFRecord file

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
    XLA_BLOCKS[-1], 'most rows of a batch, and of a request to encoder or head', bounds=(1, 10**6)
  )


def main(config: ServingConfig) -> None:
  """Writes the files and prints how to start a server."""
  with open(write(config), encoding='utf-8') as file:
    print(file.read())


def write(config: ServingConfig) -> str:
  """Writes `serving/` into an export, and warm-up requests and batching into its models.

  All files are written before the first takes its place; the one that a server starts from is last.

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
  smaller = (size for size in XLA_BLOCKS if size < config.max_batch_size)
  contents = _contents(folder, name, (*smaller, config.max_batch_size))
  with contextlib.ExitStack() as stack:
    for path in reversed(contents):  # the last to come is the first to take its place
      os.makedirs(os.path.dirname(path), exist_ok=True)
      _put(stack.enter_context(files.whole(path)), contents[path])
  return os.path.join(folder, FOLDER, 'README.md')


def _put(path: str, content: _Content) -> None:
  if isinstance(content, str):
    with files.opened(path, 'w') as file:
      file.write(content)
    return
  with tf.io.TFRecordWriter(path) as writer:
    for record in content:
      writer.write(record)


def _contents(folder: str, name: str, sizes: Sequence[int]) -> dict[str, _Content]:
  """{path: content} of all files, in the order in which they are to appear."""
  rows = {'encoder': (1, sizes[0]), 'head': sizes, online.NAME: sizes}  # of warm-up requests
  if not os.path.isdir(os.path.join(folder, online.NAME)):
    del rows[online.NAME]  # tuples of more than two texts
  batching = {'encoder': _batching(sizes[-1]), 'head': _batching(sizes[-1], sizes)}
  contents: dict[str, _Content] = {}
  for model in rows:
    version = exported.latest(os.path.join(folder, model))
    requests = warmup.requests(version, f'{name}_{model}', rows[model])
    contents[os.path.join(version, 'assets.extra', saved_models.WARMUP)] = requests
    if model in batching:
      contents[os.path.join(version, saved_models.BATCHING)] = batching[model]
  own = os.path.join(folder, FOLDER)
  models = [
    _MODEL.format(
      name=json.dumps(f'{name}_{model}', ensure_ascii=False),
      path=json.dumps(os.path.join(folder, model), ensure_ascii=False),
    )
    for model in rows
  ]
  contents[os.path.join(own, 'README.md')] = _readme(folder, name)
  contents[os.path.join(own, _BATCHING_FILE)] = _THREADS + batching['head']
  contents[os.path.join(own, _MODELS_FILE)] = f'model_config_list {{\n{"".join(models)}}}\n'
  return contents


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
