"""Servers in processes of their own, for benchmarks and tests."""

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator

from benchmarks import committed


@contextlib.contextmanager
def server(
  module: str, pattern: str, *args: str, python: str = ''
) -> Iterator[tuple[subprocess.Popen[str], re.Match[str]]]:
  """A server's process, and the pattern as its first line has it, which names the address.

  With `python` it runs what is installed in that environment.
  """
  environment = {**os.environ, 'PYTHONPATH': committed.ROOT, 'TF_CPP_MIN_LOG_LEVEL': '3'}
  if python:
    del environment['PYTHONPATH']
  command = [python or sys.executable, '-m', module, *args]
  process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
  assert process.stdout
  try:
    line = process.stdout.readline()
    found = re.search(pattern, line)
    if not found:
      raise RuntimeError(f'{module} has not started: {line}')
    yield process, found
  finally:
    process.terminate()
    process.wait()
