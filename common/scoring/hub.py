"""Exports on Hugging Face's hub: `hf://org/name` fetched to a folder, and a folder uploaded."""

import contextlib
import importlib
import os
import re
from collections.abc import Iterator
from typing import Any

from common import extras
from common.errors import InputError

PREFIX = 'hf://'
_OTHERS = (  # which nothing here reads; an export's own ONNX files have other names
  *('*.bin', '*.h5', '*.msgpack', 'model*.onnx', 'onnx/model*.onnx', '*.ot', 'openvino/*'),
)
_CARD, _RESULTS = 'README.md', 'results.json'  # of a run, beside its export


def local(folder: str) -> str:
  """A folder as it is; of `hf://org/name` or `hf://org/name@revision` a local copy from the hub.

  A revision (a tag, a branch, a commit) that is in the hub's cache is loaded without a request.
  Without one, each call asks the hub for `main`; without a network it takes the cache's copy.

  Raises:
    InputError: If the name is none, huggingface_hub is not installed, or the hub refuses.
  """
  if not folder.startswith(PREFIX):
    return folder
  name, at, revision = folder.removeprefix(PREFIX).partition('@')
  if at and not re.fullmatch(r'[\w./-]+', revision):
    raise InputError(f'{folder}: a tag, a branch or a commit is needed after @')
  with _hub(name) as hub:
    options = {'revision': revision or None, 'ignore_patterns': list(_OTHERS)}
    if revision:
      with contextlib.suppress(FileNotFoundError):  # not in the cache, or not all of it
        return hub.snapshot_download(name, local_files_only=True, **options)
    return hub.snapshot_download(name, **options)


def push(folder: str, name: str, **metadata: Any) -> str:
  """Uploads an export as the repository `org/name`, made if need be; returns its `hf://` name.

  The model card of its run, or its own, goes with it; the card's code then loads the repository.

  Args:
    folder: The export.
    name: The repository.
    **metadata: Fields of the card's metadata, in place of its own where they are not empty.

  Raises:
    InputError: As for `local`; or if there is no card for the metadata.
  """
  run = os.path.dirname(os.path.abspath(folder))
  card = os.path.join(run if os.path.exists(os.path.join(run, _RESULTS)) else folder, _CARD)
  given = {field: value for field, value in metadata.items() if value}
  if given and not os.path.exists(card):
    raise InputError(f'{card}: no model card there, which {", ".join(given)} would go into')
  with _hub(name) as hub:
    api = hub.HfApi()
    api.create_repo(name, exist_ok=True)
    api.upload_folder(repo_id=name, folder_path=folder)
    if os.path.exists(card):
      with open(card, encoding='utf-8') as file:
        text = re.sub(r'\.load\("[^"]*"\).*', f'.load("{PREFIX}{name}")', file.read())
      if given:
        parsed = hub.ModelCard(text)
        vars(parsed.data).update(given)
        text = str(parsed)
      api.upload_file(path_or_fileobj=text.encode(), path_in_repo=_CARD, repo_id=name)
  return PREFIX + name


@contextlib.contextmanager
def _hub(name: str) -> Iterator[Any]:
  """The package; any error of the block becomes an InputError of one line."""
  if not re.fullmatch(extras.HUB_ID, name):
    raise InputError(f'{name!r} is no repository of the hub: org/name')
  with extras.needed('hub', f'{PREFIX}{name}: '):
    hub = importlib.import_module('huggingface_hub')
  try:
    yield hub
  except Exception as error:  # without a network, the package raises errors of its network library
    why = ' '.join(str(error).split()) or type(error).__name__
    raise InputError(f'{PREFIX}{name}: the hub: {why}') from error
