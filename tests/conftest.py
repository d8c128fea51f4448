"""What holds for all tests: tiny students and their exports; commands, and runs that are killed."""

import contextlib
import functools
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from typing import Any, NamedTuple

import pytest

# oneDNN (TensorFlow 2.20) has been seen to corrupt the heap while it makes its kernels for toy
# shapes, once in a few hundred processes. Before TensorFlow is imported; children inherit it.
os.environ.setdefault('TF_ENABLE_ONEDNN_OPTS', '0')

TERMS = ['red', 'wide footwear', 'nike shoes', 'a', 'blue queen blanket']
PRODUCTS = ['black nike shoes for boys', 'red throw', 'wide red boots', 'x y']
TINY = {  # flags of each student's tiny config
  'dipair': {
    'pretrained': 'random-tiny',
    'encoder_layers': 2,
    'max_lengths': (16, 32),
    'output_tokens': (3, 4),
    'projection_dim': 8,
    'head_inner_dim': 16,
    'dropout': 0.0,
  },
  'dse': {
    'pretrained': 'random-tiny',
    'max_lengths': (16, 16),
    'pooled_layers': 2,
    'similarity_dim': 6,
    'dropout': 0.0,
  },
}


class Exported(NamedTuple):
  """An export's folder, its live model and tokenizer, and what exporting reported."""

  folder: str
  model: Any
  tokenizer: Any
  result: dict[str, Any]


@pytest.fixture(name='build', scope='session')
def _build():
  """A function (kind, outputs, **changes of the tiny config, by flag) to (model, tokenizer)."""
  import tf_keras

  from common import flags
  from common.training import strategies
  from dipair.student import DiPair
  from dse.student import DSE

  def build(kind, outputs=1, **changes):
    strategies.create(strategies.DeviceConfig())
    tf_keras.utils.set_random_seed(3)
    student = {'dipair': DiPair, 'dse': DSE}[kind]
    config = flags.build(student.config_class, {**TINY[kind], **changes})
    return student.from_pretrained(config, outputs)

  return build


@pytest.fixture(name='export', scope='session')
def _export(build, tmp_path_factory):
  """A function (kind, outputs, **changes) to `Exported`; the same student is exported once."""
  from common.export import student_export

  @functools.cache
  def export(kind, outputs=1, **changes):
    model, tokenizer = build(kind, outputs, **changes)
    folder = str(tmp_path_factory.mktemp(kind) / 'export')
    task = 'regression' if outputs == 1 else 'multiclass'
    what = {'slots': ('left', 'right'), 'task': task, 'samples': (TERMS[:4], PRODUCTS)}
    return Exported(
      folder, model, tokenizer, student_export.write(folder, model, tokenizer, **what)
    )

  return export


@pytest.fixture(name='exported', scope='session', params=['dipair', 'dse'])
def _exported(request, export):
  """A tiny student's export, of each student in turn; in a student's own tests, of that one."""
  return export(request.param)


@pytest.fixture(name='classes', scope='session')
def _classes(exported, export):
  """The same of three classes; DSE's has an encoder a side."""
  kind = exported.model.name
  return export(kind, 3, **({'shared_encoder': False} if kind == 'dse' else {}))


@pytest.fixture(name='distill')
def _distill(tmp_path):
  """A folder of every term with every product, in one group, with soft labels and labels."""
  import numpy as np

  from common.data import record_writer
  from common.data.examples import Example

  rng = np.random.default_rng(0)
  examples = [
    Example(f'{t}-{p}', (term, product), float(label), soft_labels=(float(label),))
    for t, term in enumerate(TERMS)
    for p, product in enumerate(PRODUCTS)
    for label in [rng.uniform()]
  ]
  folder = str(tmp_path / 'distill')
  groups = record_writer.of_examples(examples, len(examples))
  record_writer.write_sets(folder, {'': groups}, 2)
  return folder


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
