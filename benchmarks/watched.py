"""A command in a session of its own, whose worker processes are watched and which can be killed."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any

import psutil

_EVERY = 0.5  # seconds between two looks


def run(
  command: Sequence[str],
  log: str,
  look: Callable[[], bool],
  environment: dict[str, str],
) -> dict[str, Any]:
  """Runs a command to its end, or kills it with all that it started.

  Args:
    command: And its arguments.
    log: File of what it prints.
    look: Called again and again; once it is true, the command is killed (SIGKILL, all at once).
    environment: Variables that are set for it.

  Returns:
    'seconds', 'killed', and of the processes that it started the peaks of the largest: 'rss', which
    counts the mapped pages of files, and 'uss', what is the process's own; in bytes.

  Raises:
    RuntimeError: If it fails.
  """
  found: dict[str, Any] = {'killed': False, 'rss': 0, 'uss': 0}
  started = time.monotonic()
  with open(log, 'wb') as output:
    process = subprocess.Popen(
      command,
      stdout=output,
      stderr=subprocess.STDOUT,
      env={**os.environ, **environment},
      start_new_session=True,  # so that its group can be killed without this process
    )
    try:
      while process.poll() is None:
        for name, value in _memory(process.pid).items():
          found[name] = max(found[name], value)
        if look():
          found['killed'] = True
          break
        time.sleep(_EVERY)
    finally:
      if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
      process.wait()
  if process.returncode and not found['killed']:
    raise RuntimeError(f'{" ".join(command)} failed: see {log}')
  return {'seconds': time.monotonic() - started, **found}


def _memory(pid: int) -> dict[str, int]:
  """'rss' and 'uss' of the largest process under one."""
  largest = {'rss': 0, 'uss': 0}
  try:
    children = psutil.Process(pid).children(recursive=True)
  except psutil.NoSuchProcess:
    return largest
  for child in children:
    try:
      memory = child.memory_full_info()
    except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
      continue  # it has ended
    largest = {name: max(value, getattr(memory, name)) for name, value in largest.items()}
  return largest
