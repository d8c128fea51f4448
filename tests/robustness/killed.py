"""A fork of this process that runs a command and kills itself before a step.

A step is one of Python's audit events of files (opened to be written, renamed, removed), a sync, or
a call of TensorFlow's own files.
"""

import os
import runpy
import sys
from collections.abc import Callable, Sequence
from typing import Any

from tests import forks

_EVENTS = ('os.rename', 'os.remove', 'os.mkdir', 'os.rmdir')
_OF_TENSORFLOW = {
  'RenameFile',
  'CreateDir',
  'RecursivelyCreateDir',
  'DeleteFile',
  'DeleteRecursively',
  'CopyFile',
  'WritableFile',
}
_PLACE = 'steps'  # beside the output: the steps as they come


def fork(program: str, arguments: Sequence[str], folder: str, at: int = 0, number: int = 0) -> int:
  """Starts a fork that runs a module, or code, as Python does; returns its process's number.

  Args:
    program: A module's name, or lines of code.
    arguments: What follows it.
    folder: The folder whose steps are counted; its outputs (`.said`) and steps lie beside it.
    at: The step, from 1 on, before which it sends itself a signal; 0: none.
    number: The signal.
  """
  if process := os.fork():
    return process
  forks.end(lambda: _run(program, arguments, folder, at, number))


def _run(program: str, arguments: Sequence[str], folder: str, at: int, number: int) -> None:
  os.setpgrp()
  said = os.open(f'{folder}.said', os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
  os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
  os.dup2(said, 1)
  os.dup2(said, 2)
  forks.shorten_benchmark()
  lines = f'{folder}.py' if '\n' in program else ''
  if lines:
    with open(lines, 'w', encoding='utf-8') as file:
      file.write(program)
  _watch(os.path.realpath(folder), at, number)
  sys.argv = [program, *arguments]
  if lines:
    runpy.run_path(lines, run_name='__main__')
  else:
    sys.modules.pop(program, None)
    runpy.run_module(program, run_name='__main__', alter_sys=True)


def steps(folder: str) -> list[str]:
  """The steps of the last fork of a folder, each by name and path."""
  with open(f'{folder}.{_PLACE}', encoding='utf-8') as file:
    return file.read().splitlines()


def _watch(folder: str, at: int, number: int) -> None:
  """Counts this process's steps in a folder, and kills it before one."""
  notes = os.open(f'{folder}.{_PLACE}', os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
  count = 0

  def step(name: str, path: Any) -> None:
    nonlocal count
    path = os.path.abspath(os.fsdecode(path))
    if path != folder and not path.startswith((folder + '/', folder + '.tmp', folder + '.part')):
      return
    if os.path.basename(path) == 'run.log' or '/logs' in path:
      return
    count += 1
    os.write(notes, f'{name} {path[len(folder) + 1 :]}\n'.encode())
    if count == at:
      os.kill(os.getpid(), number)

  def hook(event: str, arguments: tuple) -> None:
    if event == 'open' and isinstance(arguments[0], (str, bytes)):
      if arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        step('open', arguments[0])
    elif event in _EVENTS and isinstance(arguments[0], (str, bytes)):
      step(event, arguments[0])

  sync = os.fsync

  def fsync(fd: Any) -> None:
    step('fsync', os.readlink(f'/proc/self/fd/{fd}'))
    sync(fd)

  os.fsync = fsync
  _watch_tensorflow(step)
  sys.addaudithook(hook)


def _watch_tensorflow(step: Callable[[str, Any], None]) -> None:
  """Notes the steps of TensorFlow's own files, which have no audit events."""
  from tensorflow.python.lib.io import file_io
  from tensorflow.python.ops import gen_io_ops, io_ops

  native = file_io._pywrap_file_io

  def noted(name: str, function: Any, first: Callable[..., Any]) -> Any:
    def call(*arguments: Any, **named: Any) -> Any:
      if isinstance(path := first(*arguments, **named), (str, bytes)):  # no tensor of a graph
        step(name, path)
      return function(*arguments, **named)

    return call

  class Files:
    def __getattr__(self, name: str) -> Any:
      function = getattr(native, name)
      return noted(name, function, lambda path, *_: path) if name in _OF_TENSORFLOW else function

  file_io._pywrap_file_io = Files()

  def prefix(value: Any) -> Any:
    return value.numpy() if hasattr(value, 'numpy') else value

  io_ops.save_v2 = noted('SaveV2', io_ops.save_v2, lambda path, *_, **__: prefix(path))
  gen_io_ops.merge_v2_checkpoints = noted(
    'MergeV2Checkpoints',
    gen_io_ops.merge_v2_checkpoints,
    lambda _, destination_prefix='', *__, **___: prefix(destination_prefix),
  )
