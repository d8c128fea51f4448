"""A run's folder: its stages' outputs, each whole or absent, each tied to the flags that made it.

A stage is declared as a value and made later, so that all refusals come before any work. It works
in `<name>.part` and is renamed to `<name>` when whole. Its `stage.json` holds the flags and stages
it depends on, and its result. A later run makes only what is missing; flags that would redo a
finished stage are refused with the list of what they would cost, unless `redo` says so. One process
at a time works in a folder; one that is killed leaves it free.
"""

import dataclasses
import functools
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from common import digests, files, flags, schema
from common.distillation import run_log
from common.errors import InputError, check_pattern_free, damaged

_FLAGS = 'flags.txt'
_STAGE = digests.STAGE
_REMEDY = "delete the stage's folder and run again"
TABLES = 'tables'  # tables that were given in memory
_BEGUN = {run_log.NAME, f'{_FLAGS}.tmp', TABLES}  # all that a run that ended as it began has left

Result = TypeVar('Result')


@dataclasses.dataclass(frozen=True, eq=False)
class Stage(Generic[Result]):
  """A step of a run, as `RunFolder.stage` declares it; its output and result once it is made.

  Attributes:
    folder: Where its output lies once it is made.
    returns: The class of its result: a dataclass of JSON values.
    work: Fills a folder, where it may find what an earlier start left, and returns the result.
    after: The stages whose outputs it reads.
    depends_on: {flag: value} and whatever else its output depends on; JSON values.
    resumes: Whether it goes on with what it finds, which then costs to lose; others begin anew.
    check: Refuses an output that the run cannot use; None: there is nothing to refuse.
  """

  folder: str
  returns: type[Result]
  work: Callable[[str], Result]
  after: tuple['Stage[Any]', ...]
  depends_on: dict[str, Any]
  resumes: bool
  check: Callable[[str], None] | None

  @property
  def name(self) -> str:
    """The name of its folder."""
    return os.path.basename(self.folder)

  @property
  def part(self) -> str:
    """The folder that it works in before its output is whole."""
    return f'{self.folder}.part'

  @functools.cached_property
  def fingerprint(self) -> str:
    """Digest of its flags and of the fingerprints of the stages before it."""
    identity = [self.depends_on, [stage.fingerprint for stage in self.after]]
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode())
    return digest.hexdigest()[:16]

  @property
  def result(self) -> Result:
    """The result of a finished stage."""
    path = os.path.join(self.folder, _STAGE)
    with damaged(path, _REMEDY):
      return self.returns(**files.read_json(path, _REMEDY)['result'])

  @property
  def description(self) -> dict[str, Any]:
    """Contents of `stage.json` before the result."""
    after = {stage.name: stage.fingerprint for stage in self.after}
    return {'fingerprint': self.fingerprint, 'depends_on': self.depends_on, 'after': after}

  def noted(self) -> dict[str, Any] | None:
    """Contents of the `stage.json` that is there; None: the stage has not begun.

    Raises:
      InputError: If it is damaged, or a finished stage has none.
    """
    for folder in (self.folder, self.part):
      path = os.path.join(folder, _STAGE)
      if os.path.exists(path):
        noted = files.read_json(path, _REMEDY)
        with damaged(path, _REMEDY):
          schema.check(noted, {'fingerprint': str, 'depends_on': dict}, 'stage')
        return noted
      if folder == self.folder and os.path.exists(folder):
        raise InputError(f'{path}: missing; {_REMEDY}')
    return None

  @property
  def is_made(self) -> bool:
    """Whether its output is there, made with its flags."""
    return os.path.exists(self.folder) and not self.is_stale

  @property
  def is_stale(self) -> bool:
    """Whether an output or its beginning is there that was made with other flags."""
    noted = self.noted()
    return noted is not None and noted['fingerprint'] != self.fingerprint

  @property
  def holds_work(self) -> bool:
    """Whether its output is there, or a file that it would go on with."""
    written = [n for _, _, names in os.walk(self.part) for n in names if not n.endswith('.tmp')]
    return os.path.exists(self.folder) or (self.resumes and written != [_STAGE])

  def difference(self) -> str:
    """The flags in which what is there differs from the stage, with both values."""
    old, new = (self.noted() or {}).get('depends_on', {}), self.depends_on
    names = [name for name in {**new, **old} if old.get(name) != new.get(name)]
    if not names:
      return 'an earlier stage changed'
    return ', '.join(f'{name} was {old.get(name)}, is {new.get(name)}' for name in names[:4])

  def make(self) -> None:
    """Works, checks the output and gives it its name."""
    print(f'{self.name}: starts')
    started = time.monotonic()
    os.makedirs(self.part, exist_ok=True)
    path = os.path.join(self.part, _STAGE)
    files.write_json(path, self.description, sealed=True)
    with files.alone(self.part):
      result: Any = self.work(self.part)
      if self.check:
        self.check(self.part)
    files.write_json(path, {**self.description, 'result': dataclasses.asdict(result)}, sealed=True)
    files.put(self.part, self.folder)
    print(
      f'{self.name}: made in {time.monotonic() - started:,.1f} s; '
      f'peak memory so far {run_log.peak_memory() / 1e9:.2f} GB'
    )


class RunFolder:
  """The folder of one run.

  Args:
    path: Made if need be; a folder that is not a run of `program` is refused.
    config: The run's config, saved as `flags.txt`.
    program: Name of the command.
    redo: Whether stages of other flags are replaced.
  """

  def __init__(self, path: str, config: Any, program: str, redo: bool):
    self.path, self.redo, self.stages = path, redo, list[Stage[Any]]()
    self._made = 0  # stages, by the calls of `make`
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

  def stage(
    self,
    name: str,
    returns: type[Result],
    work: Callable[[str], Result],
    depends_on: dict[str, Any],
    *,
    after: Sequence[Stage[Any] | None] = (),
    resumes: bool = True,
    check: Callable[[str], None] | None = None,
  ) -> Stage[Result]:
    """Declares the next stage; `make` makes it.

    Arguments as the attributes of `Stage`; a None in `after` is a stage that the run does without.
    """
    path = os.path.join(self.path, name)
    inputs = _by_contents(json.loads(json.dumps(depends_on)))
    before = tuple(stage for stage in after if stage)
    stage = Stage(path, returns, work, before, inputs, resumes, check)
    self.stages.append(stage)
    return stage

  def kept(self, names: Sequence[str]) -> dict[str, Any]:
    """Values of flags by an earlier start, as `flags.txt` has them."""
    path, found = os.path.join(self.path, _FLAGS), {}
    if self.begun:
      with open(path, encoding='utf-8', errors='replace') as file:
        for line in file:
          name, _, value = line.strip().removeprefix('--').partition('=')
          if name in names:
            found[name] = value
    return flags.named_by(type(self._config), found)

  def make(self, config: Any = None) -> None:
    """Makes the stages that are missing, in order, after all that is to be refused.

    Args:
      config: The run's config where it is no longer the one that the folder was opened with.
    """
    self._config = config or self._config
    os.makedirs(self.path, exist_ok=True)
    with files.alone(self.path, '--run_dir'):
      self._check_starts()
      self._check_made()
      self._clear()
      flags.save(self._config, os.path.join(self.path, _FLAGS), self._header)
      for stage in self.stages[self._made :]:
        if os.path.exists(stage.folder):
          print(f'{stage.name}: done')
        else:
          stage.make()
        self._made += 1

  def file(self, name: str) -> str:
    """Path of a file of the run."""
    return os.path.join(self.path, name)

  def _check_starts(self) -> None:
    """Refuses stages that read a model which one of them makes, and would remove."""
    own = {os.path.realpath(stage.folder) for stage in self.stages}
    for stage in self.stages:
      for name in stage.depends_on:
        path = name.removeprefix(digests.CONTENTS)
        if path != name and os.path.realpath(path) in own:
          raise InputError(
            f'--run_dir={self.path}: {path} is made here, and cannot be what this run starts from; '
            'name another --run_dir'
          )

  def _check_made(self) -> None:
    """Checks finished output against flags that later stages use, where some are to be made."""
    made = [stage for stage in self.stages if stage.is_made]
    if len(made) < len(self.stages):
      for stage in made:
        if stage.check:
          stage.check(stage.folder)

  def _clear(self) -> None:
    """Removes stages of other flags, or refuses where `redo` does not say so; and mere remains."""
    stale = [stage for stage in self.stages if stage.is_stale]
    costly = [stage for stage in stale if stage.holds_work]
    if costly and not self.redo:
      raise InputError(
        f'--run_dir={self.path}: made with other flags ({costly[0].difference()}); '
        f'--redo makes {", ".join(stage.name for stage in costly)} anew, '
        'another --run_dir leaves them'
      )
    for stage in costly:
      print(f'{stage.name}: made anew ({stage.difference()})')
    for stage in self.stages:
      _remove(stage.folder, stage in stale)
      _remove(stage.part, stage in stale or os.path.exists(stage.folder))


def _by_contents(depends_on: dict[str, Any]) -> dict[str, Any]:
  """Stage inputs, with a flag's file path (`train_file`) replaced by its suffix and SHA-256."""
  found = dict(depends_on)
  for name, path in depends_on.items():
    digest = depends_on.get(f'{digests.FILE}{path}')
    if name.endswith('_file') and digest:
      stem, _ = os.path.splitext(path.removesuffix('.gz'))  # the suffix says how it is read
      found[name] = f'{path.removeprefix(stem)} of sha256 {digest}'
      found.pop(f'{digests.FILE}{path}', None)
  return found


def _remove(folder: str, whole: bool) -> None:
  """Removes a folder, if `whole`, and what an interrupted removal has left of it.

  It gets another name first, so that nothing takes a half removed one for a stage.
  """
  old = folder + '.old'
  shutil.rmtree(old, ignore_errors=True)
  if whole and os.path.exists(folder):
    os.replace(folder, old)
    shutil.rmtree(old)
