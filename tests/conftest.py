"""What holds for all tests, and what those of commands and resumption share."""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

# oneDNN (TensorFlow 2.20) has been seen to corrupt the heap while it makes its kernels for toy
# shapes, once in a few hundred processes. Before TensorFlow is imported; children inherit it.
os.environ.setdefault('TF_ENABLE_ONEDNN_OPTS', '0')


@pytest.fixture(name='last_step', scope='session')
def _last_step():
  """A function of a phase's folder to all numbers of its last step's checkpoint, by name.

  They are weights, optimizer and dropout generators as training left them, whatever was its best.
  """
  import tensorflow as tf

  def read(phase):
    reader = tf.train.load_checkpoint(
      tf.train.latest_checkpoint(os.path.join(phase, 'checkpoints'))
    )
    names = set(reader.get_variable_to_shape_map()) - {'_CHECKPOINTABLE_OBJECT_GRAPH'}
    return {name: reader.get_tensor(name) for name in names if 'save_counter' not in name}

  return read


@pytest.fixture(name='kill_at', scope='session')
def _kill_at():
  """A function that runs a command and kills it once a phase's checkpoint is of a step, or later."""

  def reached(phase):
    """The step of the last checkpoint, by the file that names it once it is whole."""
    state = pathlib.Path(phase, 'checkpoints', 'checkpoint')
    with contextlib.suppress(FileNotFoundError):  # not yet, or no more
      return int(re.search(r'ckpt-(\d+)"', state.read_text())[1])
    return -1

  def run(command, phase, step, **options):
    quiet = {'stdout': subprocess.DEVNULL, 'stderr': subprocess.DEVNULL}
    process = subprocess.Popen(command, **quiet, **options)
    try:
      while process.poll() is None and reached(phase) < step:
        time.sleep(0.005)
    finally:
      process.kill()
    assert process.wait() == -signal.SIGKILL

  return run


_FORKS = """
import importlib, json, os, runpy, sys, tempfile
module, cases = sys.argv[1], json.loads(sys.argv[2])
importlib.import_module(module)  # once for all; the flags are defined by the command alone
found = []
for arguments in cases:
  with tempfile.TemporaryFile('w+') as said:
    child = os.fork()
    if not child:
      os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
      os.dup2(said.fileno(), 2)
      sys.argv = [module, *arguments]
      del sys.modules[module]
      try:
        runpy.run_module(module, run_name='__main__', alter_sys=True)  # leaves by sys.exit
      except SystemExit as left:
        sys.stderr.flush()
        os._exit(left.code or 0)  # the interpreter's own end takes two seconds
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    said.seek(0)
    found.append((status, said.read()))
print(json.dumps(found))
"""


@pytest.fixture(name='refusals', scope='session')
def _refusals():
  """A function of a command's module and cases of arguments to each one's (status, stderr).

  One process imports TensorFlow, and forks for each case.
  """

  def run(module, cases):
    command = [sys.executable, '-c', _FORKS, module, json.dumps(cases)]
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    return [tuple(one) for one in json.loads(done.stdout.splitlines()[-1])]

  return run
