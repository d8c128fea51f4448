"""The peers' process, as a set of contenders."""

import contextlib
import json
import os
import subprocess
from typing import Any, Self

from common.errors import InputError
from common.evaluation.benchmark import Contender
from common.files import write_json

_SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'measure.py')
_MAKE = 'benchmarks/peers/README.md says how it is made'


class Peers:
  """`measure.py`, started in the peers' environment; it waits while ours are measured.

  Args:
    python: The interpreter of that environment.
    given: What it measures on; see `measure.py`.
    folder: Gets what it is given, and its exports.

  Attributes:
    versions: Versions of their packages.
    described: {'kind', 'name', 'rows' a call, 'batch_size', 'bytes', 'cosine', 'scores'} of each
      contender.

  Raises:
    InputError: If the process ends.
  """

  def __init__(self, python: str, given: dict[str, Any], folder: str):
    path, self._python = os.path.join(folder, 'given.json'), python
    write_json(path, {**given, 'folder': folder})
    self._process = subprocess.Popen(
      [python, _SCRIPT, path],
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      text=True,
      env=environment(folder),
    )
    ready = json.loads(self._answer())
    self.versions: dict[str, str] = ready['versions']
    self.described: list[dict[str, Any]] = ready['contenders']

  def __enter__(self) -> Self:
    return self

  def __exit__(self, *error: object) -> None:
    self._process.terminate()
    self._process.wait()

  def contender(self, number: int) -> Contender:
    """Contender of a number in `described`; it runs there while this process waits."""
    return Contender(
      self.described[number]['name'], lambda: self._call(number), self.described[number]['rows']
    )

  def _call(self, number: int) -> None:
    assert self._process.stdin
    with contextlib.suppress(BrokenPipeError):  # it has ended: there is no answer either
      self._process.stdin.write(f'{number}\n')
      self._process.stdin.flush()
    self._answer()

  def _answer(self) -> str:
    assert self._process.stdout
    if not (line := self._process.stdout.readline()):
      status = self._process.wait()
      raise InputError(
        f"--python={self._python}: the peers' process ended with status {status}, as said above; "
        f'of their environment {_MAKE}'
      )
    return line


def environment(folder: str) -> dict[str, str]:
  """Environment of the peers' processes: nothing of ours, no hub, and caches in a folder."""
  own = {name: value for name, value in os.environ.items() if name != 'PYTHONPATH'}
  return {**own, 'HF_HUB_OFFLINE': '1', 'HF_HOME': folder}


def check(python: str) -> None:
  """Refuses what is no interpreter."""
  if not os.access(python, os.X_OK) or os.path.isdir(python):
    raise InputError(f"--python={python}: not the python of the peers' environment; {_MAKE}")
