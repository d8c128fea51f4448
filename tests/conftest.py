"""What holds for all tests: tiny students and their exports; commands, and runs that are killed."""

import contextlib
import fcntl
import functools
import gc
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from tests import forks

# oneDNN (TensorFlow 2.20) has been seen to corrupt the heap while it makes its kernels for toy
# shapes. Before TensorFlow is imported; children inherit it.
os.environ.setdefault('TF_ENABLE_ONEDNN_OPTS', '0')

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FORKS = os.path.join(ROOT, 'tests', 'forks.py')
SMOKE_FLAGS = ('--flagfile=configs/smoke.flags', '--max_lengths=16,16')  # few to convert for
SMOKE = """
import gc, runpy
from tests import forks
gc.disable()
forks.shorten_benchmark()
runpy.run_module('dipair.run', run_name='__main__', alter_sys=True)
"""

TERMS = ['red', 'wide footwear', 'nike shoes', 'a', 'blue queen blanket']
COLOURS = ('red', 'blue', 'green')
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

ENCODES_LITTLE = {'encoder_layers': 1, 'max_lengths': (8, 8)}  # of students whose head is tested
TWO_DEPTHS = {'left_encoder_layers': 1, 'head': 'ffnn', 'max_lengths': (8, 8)}


def pytest_collection_modifyitems(items):
  """Files that run commands come first: they take longest, and both processes then end together.

  Among them, files that share exports or the smoke run come last: two at once would wait for these.
  """
  of = lambda fixture: {item.path for item in items if fixture in item.fixturenames}  # noqa: E731
  running, exporting = of('start'), of('export')
  further = sorted(of('smoke_run'))[1:]  # the first one makes the run
  items.sort(
    key=lambda item: (item.path not in running, item.path in further, item.path in exporting)
  )


def pytest_collection_finish():
  """Garbage collection skips the many objects that imports made; an export collects five times."""
  gc.freeze()
  gc.set_threshold(100_000)


@pytest.fixture(autouse=True)
def _float32():
  """A run in this process sets its precision, which follows the machine: no test inherits it."""
  if keras := sys.modules.get('tf_keras'):
    keras.mixed_precision.set_global_policy('float32')


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


@pytest.fixture(name='once', scope='session')
def _once(tmp_path_factory, request):
  """A function (name, make) to a folder, which `make(folder)` fills once for all test processes.

  The first to need it makes it, the others wait.
  """
  base = tmp_path_factory.getbasetemp()
  shared = (base.parent if hasattr(request.config, 'workerinput') else base) / 'once'

  def once(name, make):
    folder = shared / name
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / 'lock', 'w') as lock:
      fcntl.flock(lock, fcntl.LOCK_EX)
      if not (folder / 'made').exists():
        make(folder)
        (folder / 'made').touch()
    return folder

  return once


@pytest.fixture(name='smoke_run', scope='session')
def _smoke_run(once):
  """Folder of `run`, a smoke run finished by a process of its own, its `output`, and its `copy`.

  Its benchmark alone is short. The copy is left as it is, to be copied.
  """

  def make(folder):
    command = ['-c', SMOKE, *SMOKE_FLAGS, f'--run_dir={folder}/run']
    done = subprocess.run(
      [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (folder / 'output').write_text(done.stdout, 'utf-8')
    shutil.copytree(folder / 'run', folder / 'copy')

  return once('smoke', make)


@pytest.fixture(name='vector_run', scope='session')
def _vector_run(once, python):
  """Folder of a finished run on terms and vectors, which its tables name by ids.

  A product's vector is the one-hot of its colour, and a term matches the product that it names.
  """
  import numpy as np

  def make(folder):
    np.save(folder / 'images.npy', np.eye(3, dtype=np.float32) + np.float32(0.25))
    (folder / 'images.txt').write_text('p0\np1\np2\n')
    rows = [(t, f'p{row}', float(t == c)) for t in COLOURS for row, c in enumerate(COLOURS)]
    for name in ('valid', 'test'):
      lines = ['term\timage\tlabel', *(f'{term}!\t{image}\t{y}' for term, image, y in rows)]
      (folder / f'{name}.tsv').write_text('\n'.join(lines) + '\n')
    scored = ['term\timage\tz', *(f'{t}\t{p}\t{8 * label - 4}' for t, p, label in rows * 8)]
    (folder / 'distil.tsv').write_text('\n'.join(scored) + '\n')
    done = python(
      *('-m', 'dipair.run', '--flagfile=configs/smoke.flags', f'--run_dir={folder}/run'),
      *(f'--{name}_file={folder}/{name}.tsv' for name in ('valid', 'test')),
      *(f'--distillation_file={folder}/distil.tsv', '--teacher_logits_column=z'),
      *('--text_columns=term,image', f'--vector_columns=image:{folder}/images.npy'),
      *('--max_lengths=8,2', '--output_tokens=2,2', '--projection_dim=16', '--head=ffnn'),
      *('--stage1_batch_size=72', '--stage1_steps=100', '--stage1_learning_rate=1e-2'),
      *('--stage1_warmup_steps=1', '--stage1_eval_every=100'),
      *('--stage2_batch_size=72', '--stage2_steps=2', '--stage2_eval_every=2'),
    )
    assert done.returncode == 0, done.stderr[-3000:]

  return once('vectors', make) / 'run'


@pytest.fixture(name='export', scope='session')
def _export(build, once):
  """A function (kind, outputs, **changes) to `Exported`; the same student is exported once."""
  from common.export import student_export

  @functools.cache
  def export(kind, outputs=1, **changes):
    model, tokenizer = build(kind, outputs, **changes)
    names = [f'{flag}={value}' for flag, value in changes.items()]
    task = 'regression' if outputs == 1 else 'multiclass'
    what = {'slots': ('left', 'right'), 'task': task, 'samples': (TERMS[:4], PRODUCTS)}

    def make(folder):
      made = student_export.write(str(folder / 'export'), model, tokenizer, **what)
      (folder / 'result.json').write_text(json.dumps(made))

    folder = once('-'.join([kind, str(outputs), *names]), make)
    result = json.loads((folder / 'result.json').read_text())
    return Exported(str(folder / 'export'), model, tokenizer, result)

  return export


@pytest.fixture(name='in_onnx', scope='session')
def _in_onnx(once):
  """A function of an export's folder to another one with its files, and those in ONNX."""
  from common.export import onnx_export

  def in_onnx(folder):
    def make(to):
      for name in os.listdir(folder):
        os.symlink(os.path.join(folder, name), to / name)
      onnx_export.write(str(to))

    return str(once(f'onnx-{os.path.basename(os.path.dirname(folder))}', make))

  return in_onnx


@pytest.fixture(name='tensorflow_alone')
def _tensorflow_alone(monkeypatch):
  """Students are exported for TensorFlow alone: LiteRT's conversions take most of the time."""
  from common.export import student_export
  from common.scoring import runtimes

  for name in runtimes.RUNTIMES.keys() - {'tensorflow'}:
    monkeypatch.delitem(runtimes.RUNTIMES, name)
  nothing = types.SimpleNamespace(write=lambda *given: None)
  for name in ('litert_encoder', 'litert_head'):
    monkeypatch.setattr(student_export, name, nothing)
  monkeypatch.setattr(student_export, '_check_litert_encoders', lambda *given: None)


@pytest.fixture(name='load', scope='session')
def _load():
  """`PairScorer.load`, once per folder and runtime: for tests that do not change the scorer."""
  from common.scoring.scorer import PairScorer

  return functools.cache(PairScorer.load)


@pytest.fixture(name='exported', scope='session', params=['dipair', 'dse'])
def _exported(request, export):
  """A tiny student's export, of each student in turn; in a student's own tests, of that one."""
  return export(request.param)


@pytest.fixture(name='classes', scope='session')
def _classes(exported, export):
  """The same of three classes; DSE's has an encoder a side."""
  changes = {'dipair': {'max_lengths': (8, 8)}, 'dse': {'shared_encoder': False}}
  return export(exported.model.name, 3, **changes[exported.model.name])


@pytest.fixture(name='distill')
def _distill(tmp_path):
  """A folder that `write_distill` filled."""
  return write_distill(str(tmp_path / 'distill'))


def write_distill(folder):
  """Fills a folder with every term and every product, in one group, with scores and labels."""
  import numpy as np

  from common.data import record_writer
  from common.data.examples import Example

  rng = np.random.default_rng(0)
  examples = [
    Example(f'{t}-{p}', (term, product), float(label), (4 * label - 2,), (float(label),))
    for t, term in enumerate(TERMS)
    for p, product in enumerate(PRODUCTS)
    for label in [rng.uniform()]
  ]
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


class Process(NamedTuple):
  """A process that `python` started."""

  ask: Callable[..., Any]
  number: int
  command: tuple[str, ...]
  folder: str

  def poll(self):
    """Its status, or None while it runs."""
    return self.ask(wait=self.number, block=False)

  def wait(self):
    """Its status, outputs and command, once it has ended."""
    status = self.ask(wait=self.number, block=True)
    said = [pathlib.Path(self.folder, name).read_text('utf-8') for name in ('out', 'err')]
    return subprocess.CompletedProcess(self.command, status, *said)

  def kill(self):
    os.kill(self.number, signal.SIGKILL)


@pytest.fixture(name='start', scope='session')
def _start(tmp_path_factory):
  """A function of Python's arguments, and more environment, to a `Process`, a fork of one.

  It is in the repository's root. A run's benchmark is short (`tests/forks.py`).
  """
  pipes = {'stdin': subprocess.PIPE, 'stdout': subprocess.PIPE}
  server = None

  def ask(**job):
    print(json.dumps(job), file=server.stdin, flush=True)
    return json.loads(server.stdout.readline())

  def start(*command, **environment):
    nonlocal server
    server = server or subprocess.Popen([sys.executable, FORKS], cwd=ROOT, text=True, **pipes)
    folder = str(tmp_path_factory.mktemp('process'))
    files = {name: f'{folder}/{name}' for name in ('out', 'err')}
    number = ask(start=command, environment={**os.environ, **environment}, **files)
    return Process(ask, number, command, folder)

  yield start
  if server:
    server.stdin.close()
    server.wait()


@pytest.fixture(name='python', scope='session')
def _python(start):
  """A function as `start` that waits for the end: a `subprocess.CompletedProcess`."""
  return lambda *command, **environment: start(*command, **environment).wait()


@pytest.fixture(scope='session', autouse=True)
def _reloaded_in_a_fork(request):
  """What tests export is reloaded by a fork too, in half the time of a Python of its own."""

  def run(command, **_):
    return request.getfixturevalue('python')(*command[1:])

  saved_models = sys.modules.get('common.export.saved_models')  # else none exports
  with pytest.MonkeyPatch.context() as patch:
    if saved_models:
      forks.convert_without_loading()
      patch.setattr(saved_models, 'subprocess', types.SimpleNamespace(run=run))
    yield


@pytest.fixture(name='stages', scope='session')
def _stages():
  """A function of a student and its run's config to the run's stages; none of them is begun."""
  import tensorflow as tf

  from common.distillation import run
  from common.distillation.run_folder import RunFolder

  def stages(student, config):
    ran, strategy = config.experiment, tf.distribute.get_strategy()
    folder = RunFolder('run', config, 'toy.run', redo=False)
    run.declare(folder, ran, student(config), strategy)
    return folder.stages

  return stages


@pytest.fixture(name='kill_at', scope='session')
def _kill_at(start):
  """A function that runs a command and kills it once a folder is there, or a phase at a step."""

  def reached(phase, step):
    """By the file that names the last checkpoint once it is whole."""
    state = pathlib.Path(phase, 'checkpoints', 'checkpoint')
    with contextlib.suppress(FileNotFoundError):  # not yet, or no more
      return int(re.search(r'ckpt-(\d+)"', state.read_text())[1]) >= step
    return False

  def run(command, folder, step=None):
    process = start(*command)
    there = functools.partial(reached, folder, step) if step else folder.exists
    while (status := process.poll()) is None and not there():
      time.sleep(0.005)
    assert status is None, pathlib.Path(process.folder, 'err').read_text('utf-8')[-5000:]
    process.kill()
    assert process.wait().returncode == -signal.SIGKILL

  return run


@pytest.fixture(name='refusals', scope='session')
def _refusals(python):
  """A function of a command's module and cases of arguments to each one's (status, stderr)."""

  def run(module, cases):
    found = [python('-m', module, *arguments) for arguments in cases]
    return [(done.returncode, done.stderr) for done in found]

  return run
