"""A Python with a run's imports done, which forks for each command: `python tests/forks.py`.

It reads a JSON value a line and answers with one: {'start': [...], 'environment', 'out', 'err'},
`start` as Python takes its arguments (`-m module …`, `-c code …`), with the child's number;
{'wait': number, 'block'} with its status, or null while it runs. Children end when stdin does.

With arguments, `python tests/forks.py -m module …`, it is that one command, as a fork would run it.
"""

import contextlib
import functools
import gc
import importlib
import io
import json
import multiprocessing
import os
import runpy
import shutil
import signal
import subprocess
import sys
import traceback
import types
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NoReturn


def main() -> None:
  importlib.import_module('common.distillation.run')  # TensorFlow's seconds, once for all
  convert_without_loading()
  shorten_benchmark()
  gc.freeze()  # a collection in a fork would walk, and so copy, all that TensorFlow defines
  gc.disable()  # but for those that are asked for, a tenth of a toy run's time
  if len(sys.argv) > 1:
    _, kind, program, *arguments = sys.argv
    end(functools.partial(_command, kind, program, arguments))
  children: set[int] = set()
  try:
    for line in sys.stdin:
      job = json.loads(line)
      if 'start' in job:
        kind, program, *arguments = job.pop('start')
        if kind == '-m':
          importlib.import_module(program)  # flags are defined by the command alone
        process = os.fork()
        if not process:
          end(functools.partial(_child, kind, program, arguments, **job))
        children.add(process)
        answer: int | None = process
      else:
        number, status = os.waitpid(job['wait'], 0 if job['block'] else os.WNOHANG)
        answer = os.waitstatus_to_exitcode(status) if number else None
        children.discard(number)
      print(json.dumps(answer), flush=True)
  finally:
    for number in children:
      with contextlib.suppress(ProcessLookupError):
        os.kill(number, signal.SIGKILL)


def _child(kind: str, program: str, arguments: list[str], out: str, err: str, environment: Any):
  for to, name in enumerate((os.devnull, out, err)):
    os.dup2(os.open(name, os.O_RDWR | os.O_CREAT), to)
  os.environ.clear()
  os.environ.update(environment)
  _command(kind, program, arguments)


def _command(kind: str, program: str, arguments: list[str]) -> None:
  reload_in_a_fork()
  sys.argv = [kind, *arguments]
  if kind == '-m':
    for name in (program, f'{program}.__main__'):
      sys.modules.pop(name, None)
    runpy.run_module(program, run_name='__main__', alter_sys=True)
  else:
    exec(program, {'__name__': '__main__'})


def end(work: Callable[[], None]) -> NoReturn:
  """Ends this process, a fork, as Python ends one that did the work: all printed, its status."""
  status = 1
  try:
    work()
    status = 0
  except SystemExit as left:
    status = left.code if isinstance(left.code, int) else int(bool(left.code))
  except BaseException:
    traceback.print_exc()
  finally:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def shorten_benchmark() -> None:
  """Gives a benchmark a toy BERT-base and one call per model: it took half of a toy run's time."""
  from common.evaluation import benchmark

  rates = benchmark.rates
  benchmark.rates = lambda contenders, **of: rates(contenders, rounds=1, seconds=0)
  benchmark.BERT_BASE = benchmark.EncoderConfig(
    vocab_size=99, hidden_size=16, num_layers=1, num_heads=2, inner_dim=32
  )


def convert_without_loading() -> None:
  """Spares LiteRT's converter two things that take longer than converting a toy.

  It loads a SavedModel before each conversion, only to read names, and deduplicates buffers after.
  """
  from tensorflow.lite.python import lite

  class Names(dict):
    """Signatures, whatever they are called."""

    def __contains__(self, name: object) -> bool:
      return True

    def __missing__(self, name: str) -> None:
      return None

  loaded = types.SimpleNamespace(signatures=Names(), graph_debug_info=None)
  lite._load = lambda folder, tags: loaded
  lite.TFLiteConverterBase._optimize_tflite_model = lambda self, model, *given, **more: model


def finish_runs_by(made: str, *, reads: bool = False) -> None:
  """Gives a finished run's folder to each run of this process, in place of training.

  Args:
    made: The folder.
    reads: Whether a run first makes its data and refuses, as it would.
  """
  from common.distillation import checks, recipe, run
  from common.distillation.run_folder import RunFolder
  from common.evaluation.results import Results

  def finish(config: Any, package: Any, *, function: Any = None, **_: Any) -> Results:
    own = config.experiment.run_dir
    if reads:
      config = recipe.settled(config)
      student = package(config)
      folder = RunFolder(own, config, f'{package.name}.run', redo=False)
      checks.check(config.experiment, student, function)
      run.declare_data(folder, config.experiment, student)
      folder.make()
    kept = shutil.ignore_patterns(*(('data', 'unlabelled', 'flags.txt') if reads else ()))
    shutil.copytree(made, own, ignore=kept, dirs_exist_ok=True)
    with open(os.path.join(own, 'results.json')) as file:
      return Results.of_json(json.load(file))

  run.run = finish  # type: ignore[assignment]


def reload_in_a_fork() -> None:
  """Reloads exports in a fork of this process as it is now, in half the time of a new Python."""
  from common.export import saved_models

  here, there = multiprocessing.Pipe()
  if not os.fork():
    here.close()
    end(functools.partial(_reload, there))
  there.close()

  def run(command: list[str], **_: Any) -> subprocess.CompletedProcess:
    here.send(command)
    return here.recv()

  saved_models.subprocess = types.SimpleNamespace(run=run)  # type: ignore[assignment]


def _reload(asked: Connection) -> None:
  """What `python -m common.export.saved_models` does, each time that it is asked to."""
  from common.export import saved_models

  with contextlib.suppress(EOFError):
    while True:
      command = asked.recv()
      with contextlib.redirect_stdout(io.StringIO()) as said:
        saved_models._main(command[-1])
      asked.send(subprocess.CompletedProcess(command, 0, said.getvalue(), ''))


if __name__ == '__main__':
  sys.path[0] = os.getcwd()
  main()
  os._exit(0)  # the interpreter's own end takes two seconds
