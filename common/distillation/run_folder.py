"""A run's folder: its stages' outputs, each whole or absent, each tied to the flags that made it.

A stage works in `<name>.part` and is renamed to `<name>` when whole. Its `stage.json` holds the
flags and stages it depends on. A later run does only what is missing; flags that would redo a
finished stage are refused with the list of what they would cost, unless `redo` says so. One process
at a time works in a folder; one that is killed leaves it free.
"""

import abc
import dataclasses
import functools
import hashlib
import inspect
import json
import os
import shutil
import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from common import digests, files, flags, schema
from common.distillation import run_log
from common.errors import InputError, check_pattern_free, damaged

_FLAGS = 'flags.txt'
_STAGE = digests.STAGE
_REMEDY = "delete the stage's folder and run again"
TABLES = 'tables'  # tables that were given in memory
_LOST_SECONDS = 15.0  # without the chief, after which a further worker ends
_BEGUN = {run_log.NAME, f'{_FLAGS}.tmp', TABLES}  # all that a run that ended as it began has left

Result = TypeVar('Result')


class Stage(abc.ABC, Generic[Result]):
  """A named step of a run: a subclass is a stage's inputs, its flags and its work.

  Args:
    run_dir: The run's folder.
    inputs: The stages whose outputs it reads.
    depends_on: {flag: value} and whatever else its output depends on; JSON values.

  Attributes:
    name: Its folder's name.
    result: The dataclass, of JSON values, of what it comes to.
    collective: Whether every worker of many takes part, not the chief alone.
    resumes: Whether it goes on with what it finds, which then costs to lose; others begin anew.
    folder: Where its output lies once it is done.
    fingerprint: Digest of its flags and of the inputs' fingerprints.
  """

  name: ClassVar[str]
  result: type[Result]
  collective: ClassVar[bool] = False
  resumes: bool = True

  def __init__(self, run_dir: str, inputs: Sequence['Stage'], depends_on: dict[str, Any]):
    self.folder, self.inputs = os.path.join(run_dir, self.name), tuple(inputs)
    own = _by_contents(json.loads(json.dumps(depends_on)))
    noted = (_noted(folder).get('depends_on') for folder in self.folders)
    same = (of for of in noted if isinstance(of, dict) and _by_contents(of) == own)
    self.depends_on = next(same, own)  # the notes of a run from before hold paths

  @property
  def folders(self) -> tuple[str, str]:
    """Where its output lies once it is done, and where it works before."""
    return self.folder, f'{self.folder}.part'

  @abc.abstractmethod
  def run(self, folder: str) -> Result:
    """Fills the folder, where it may find what an earlier start left, and says what came of it."""

  def check_inputs(self) -> None:
    """Refuses what its inputs, which are made, rule out; called before anything is removed for it."""

  def check_made(self) -> None:
    """Refuses what it made, where others are yet to be made of it with flags that it does not depend on."""

  @functools.cached_property
  def fingerprint(self) -> str:
    identity = [self.depends_on, [stage.fingerprint for stage in self.inputs]]
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode())
    return digest.hexdigest()[:16]

  def description(self) -> dict[str, Any]:
    """Contents of `stage.json` before the result."""
    after = {stage.name: stage.fingerprint for stage in self.inputs}
    return {'fingerprint': self.fingerprint, 'depends_on': self.depends_on, 'after': after}


class RunFolder:
  """The folder of one run.

  Args:
    path: Made if need be; a folder that is not a run of `program` is refused.
    config: The run's config, saved as `flags.txt`.
    program: Name of the command.
    redo: Whether stages of other flags are replaced.
    chief: Whether this process writes; the others of many workers take part and wait.
  """

  def __init__(self, path: str, config: Any, program: str, redo: bool, chief: bool = True):
    self.path, self.redo, self.chief = path, redo, chief
    saved = os.path.join(path, _FLAGS)
    self._header = f'# python -m {program} --flagfile=flags.txt\n'
    if files.is_remote(path):
      raise InputError(f'--run_dir={path}: a folder of this machine is needed; copy it to there')
    check_pattern_free(path, '--run_dir')
    if os.path.isfile(path):
      raise InputError(f'--run_dir={path}: a file; name a new folder')
    if os.path.isdir(path) and set(os.listdir(path)) - _BEGUN:
      if not os.path.exists(saved):
        raise InputError(f'--run_dir={path}: holds files but no {_FLAGS}; name a new folder')
      with open(saved, encoding='utf-8', errors='replace') as file:
        first = file.readline()
      if not first.startswith('# python -m '):
        raise InputError(
          f'{saved}: damaged; if {program} made the folder, make its first line {self._header!r}'
        )
      if first != self._header:
        raise InputError(f'--run_dir={path}: made by `{first[2:].strip()}`; name another folder')
    self._config = config

  @property
  def begun(self) -> bool:
    """Whether a run has begun in it."""
    return os.path.exists(os.path.join(self.path, _FLAGS))

  def run(self, stages: Sequence[Stage], has_chief: Callable[[], bool] = lambda: True) -> None:
    """Runs the stages that are missing, in order; further workers ask whether the chief still runs."""
    if not self.chief:
      for stage in stages:
        self._follow(stage, has_chief)
      return
    os.makedirs(self.path, exist_ok=True)
    with files.alone(self.path, '--run_dir'):
      self._check_starts(stages)
      self._check_inputs(stages)
      self._clear(stages)
      flags.save(self._config, os.path.join(self.path, _FLAGS), self._header)
      for stage in stages:
        self._run(stage)

  def result(self, stage: Stage[Result]) -> Result:
    """Result of a finished stage, of which another version may have noted more."""
    path = os.path.join(stage.folder, _STAGE)
    with damaged(path, _REMEDY):
      saved = files.read_json(path, _REMEDY)['result']
      names = inspect.signature(stage.result).parameters
      return stage.result(**{name: value for name, value in saved.items() if name in names})

  def file(self, name: str) -> str:
    """Path of a file of the run."""
    return os.path.join(self.path, name)

  def _check_starts(self, stages: Sequence[Stage]) -> None:
    """Refuses stages that read a model which one of them makes, and would remove."""
    own = {os.path.realpath(stage.folder) for stage in stages}
    for stage in stages:
      for name in stage.depends_on:
        path = name.removeprefix(digests.CONTENTS)
        if path != name and os.path.realpath(path) in own:
          raise InputError(
            f'--run_dir={self.path}: {path} is made here, and cannot be what this run starts from; '
            'name another --run_dir'
          )

  def _check_inputs(self, stages: Sequence[Stage]) -> None:
    """Stages that are to be made, from inputs that are there, refuse what they cannot be made of; as do
    those that are made, for such stages.
    """
    made = {s for s in stages if os.path.exists(s.folder) and self._found(s) == s.fingerprint}
    for stage in stages:
      if stage in made and len(made) < len(stages):
        stage.check_made()
      elif stage not in made and made.issuperset(stage.inputs):
        stage.check_inputs()

  def _clear(self, stages: Sequence[Stage]) -> None:
    """Removes stages of other flags, or refuses where `redo` does not say so; and mere remains."""
    stale = [stage for stage in stages if self._found(stage) not in (None, stage.fingerprint)]
    costly = [stage for stage in stale if self._holds_work(stage)]
    if costly and not self.redo:
      raise InputError(
        f'--run_dir={self.path}: made with other flags ({self._difference(costly[0])}); '
        f'--redo makes {", ".join(stage.name for stage in costly)} anew, '
        'another --run_dir leaves them'
      )
    for stage in costly:
      print(f'{stage.name}: made anew ({self._difference(stage)})')
    for stage in stages:
      done, part = stage.folders
      _remove(done, stage in stale)
      _remove(part, stage in stale or os.path.exists(done))

  def _run(self, stage: Stage) -> None:
    done, part = stage.folders
    if not os.path.exists(done):
      print(f'{stage.name}: starts')
      started = time.monotonic()
      os.makedirs(part, exist_ok=True)
      description = stage.description()
      path = os.path.join(part, _STAGE)
      files.write_json(path, description, sealed=True)
      with files.alone(part):
        result = dataclasses.asdict(stage.run(part))
      files.write_json(path, {**description, 'result': result}, sealed=True)
      files.put(part, done)
      print(
        f'{stage.name}: made in {time.monotonic() - started:,.1f} s; '
        f'peak memory so far {run_log.peak_memory() / 1e9:.2f} GB'
      )
    else:
      print(f'{stage.name}: done')

  def _follow(self, stage: Stage, has_chief: Callable[[], bool]) -> None:
    """A further worker's part in a stage: its share of the training, then waiting for the chief."""
    done, part = stage.folders
    to_do, seen, since = stage.collective, time.monotonic(), 0.0
    while not os.path.exists(done) or self._found(stage) != stage.fingerprint:
      if since > _LOST_SECONDS:
        raise InputError(f'--run_dir={self.path}: the first worker has ended; see its output')
      # What an earlier start with other flags left is the chief's to remove.
      if to_do and _noted(part).get('fingerprint') == stage.fingerprint:
        stage.run(part)
        to_do, seen = False, time.monotonic()  # the chief still has to write what came of it
      time.sleep(0.2)
      since = time.monotonic() - seen
      if since > _LOST_SECONDS / 3 and has_chief():
        seen, since = time.monotonic(), 0.0

  def _saved(self, stage: Stage) -> dict[str, Any] | None:
    """What `stage.json` holds: where the stage is done it must be there."""
    for folder in stage.folders:
      path = os.path.join(folder, _STAGE)
      if os.path.exists(path):
        saved = files.read_json(path, _REMEDY)
        with damaged(path, _REMEDY):
          schema.check(saved, {'fingerprint': str, 'depends_on': dict}, 'stage')
        return saved
      if folder == stage.folder and os.path.exists(folder):
        raise InputError(f'{path}: missing; {_REMEDY}')
    return None

  def _found(self, stage: Stage) -> str | None:
    saved = self._saved(stage)
    return None if saved is None else saved['fingerprint']

  def _holds_work(self, stage: Stage) -> bool:
    """Whether a stage is done, or has written a file that it would go on with."""
    done, part = stage.folders
    written = [n for _, _, names in os.walk(part) for n in names if not n.endswith('.tmp')]
    return os.path.exists(done) or (stage.resumes and written != [_STAGE])

  def _difference(self, stage: Stage) -> str:
    saved = self._saved(stage) or {}
    old, new = map(_by_contents, (saved.get('depends_on', {}), stage.depends_on))
    names = [name for name in {**new, **old} if old.get(name) != new.get(name)]
    if not names:
      return 'an earlier stage changed'
    return ', '.join(f'{name} was {old.get(name)}, is {new.get(name)}' for name in names[:4])


def _by_contents(depends_on: dict[str, Any]) -> dict[str, Any]:
  """What a stage depends on, each file of a flag (`train_file`) by its kind and digest, wherever it lies."""
  keys = {
    name: key
    for name, path in depends_on.items()
    if name.endswith('_file') and (key := f'{digests.FILE}{path}') in depends_on
  }
  rest = {name: value for name, value in depends_on.items() if name not in keys.values()}
  return rest | {name: _held(rest[name], depends_on[key]) for name, key in keys.items()}


def _held(path: str, digest: str) -> str:
  """A file's suffix, by which it is read, and its digest."""
  stem, _ = os.path.splitext(path.removesuffix('.gz'))
  return f'{path.removeprefix(stem)} of sha256 {digest}'


def _noted(folder: str) -> dict[str, Any]:
  """What the `stage.json` of a folder holds; empty where it cannot be read, as while it is made."""
  try:
    return files.read_json(os.path.join(folder, _STAGE))
  except (OSError, InputError):
    return {}


def _remove(folder: str, whole: bool) -> None:
  """Removes a folder, if `whole`, and what an interrupted removal has left of it.

  It gets another name first, so that nothing takes a half removed one for a stage.
  """
  old = folder + '.old'
  shutil.rmtree(old, ignore_errors=True)
  if whole and os.path.exists(folder):
    os.replace(folder, old)
    shutil.rmtree(old)
