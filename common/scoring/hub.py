"""Exports on Hugging Face's hub: `hf://org/name` as a local folder, and a folder as a repository."""

import contextlib
import importlib
import os
import re
from collections.abc import Iterator
from typing import Any

from common import extras
from common.errors import InputError

PREFIX = 'hf://'
_OTHERS = ('*.bin', '*.h5', '*.msgpack', '*.onnx', '*.ot', 'openvino/*')  # which nothing here reads
_CARD, _RESULTS = 'README.md', 'results.json'  # of a run, beside its export


def local(folder: str) -> str:
  """A folder as it is; of `hf://org/name` the hub's local copy of the repository, downloaded once.

  Raises:
    InputError: If the name is none, huggingface_hub is not installed, or the hub refuses.
  """
  if not folder.startswith(PREFIX):
    return folder
  name = folder.removeprefix(PREFIX)
  with _hub(name) as hub:
    return hub.snapshot_download(name, ignore_patterns=list(_OTHERS))


def push(folder: str, name: str) -> str:
  """Uploads an export as the repository `org/name`, made if need be; returns its `hf://` name.

  The model card of the run that it is of goes with it.

  Raises:
    InputError: As for `local`.
  """
  with _hub(name) as hub:
    api = hub.HfApi()
    api.create_repo(name, exist_ok=True)
    api.upload_folder(repo_id=name, folder_path=folder)
    run = os.path.dirname(os.path.abspath(folder))
    if os.path.exists(os.path.join(run, _RESULTS)):
      card = os.path.join(run, _CARD)
      api.upload_file(path_or_fileobj=card, path_in_repo=_CARD, repo_id=name)
  return PREFIX + name


@contextlib.contextmanager
def _hub(name: str) -> Iterator[Any]:
  """The package, what it says of a repository in the block as an InputError."""
  if not re.fullmatch(extras.HUB_ID, name):
    raise InputError(f'{name!r} is no repository of the hub: org/name')
  with extras.needed('hub', f'{PREFIX}{name}: '):
    hub = importlib.import_module('huggingface_hub')
  try:
    yield hub
  except (OSError, ValueError) as error:
    raise InputError(f'{PREFIX}{name}: the hub: {" ".join(str(error).split())}') from error
