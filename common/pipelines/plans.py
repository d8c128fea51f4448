"""A job's plan: the inputs of its output; a folder resumes with its own plan alone."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from apache_beam.io.filesystems import FileSystems

from common import schema
from common.errors import InputError, damaged
from common.pipelines import shards
from common.pipelines.units import Unit

FILES = 'files'  # in a plan: sizes and times of the input files
_UNITS = 'units'
_NAME = 'plan.json'


def keep(output: str, plan: dict[str, Any], todo: Sequence[Unit]) -> None:
  """Writes the plan of a job over units into its output; refuses an output of another plan.

  A file may change (be mended) as long as no rows of it are done.
  """
  path = FileSystems.join(output, _NAME)
  plan = {FILES: {}, **plan, _UNITS: [dataclasses.asdict(unit) for unit in todo]}
  if shards.exists(path):
    there = shards.read_json(path)
    with damaged(path, 'delete the output and run again'):
      schema.check(there, {FILES: dict, _UNITS: list}, 'plan')
    differs = [name for name in plan if name != FILES and there.get(name) != plan[name]]
    before, now = there[FILES], plan[FILES]
    changed = sorted(of for of in {*before, *now} if before.get(of) != now.get(of))
    if _UNITS in differs:
      differs.remove(_UNITS)
      differs.append(_other_files(changed, before, now) or '--input or --unit_bytes')
    if differs:
      raise InputError(
        f'{output}: begun with other {", ".join(differs)}; '
        'go on with those or choose another --output'
      )
    if not changed:
      return
    done = shards.marks(output)
    for unit in todo:
      joined = unit.path not in now  # a block of a join has rows of any file
      if unit.number in done and (joined or unit.path in changed):
        raise InputError(
          f'{output}: {changed[0]} is not what it was when the job began, and rows of it are done; '
          'choose another --output'
        )
  shards.write_json(path, plan)


def check_begun(output: str, otherwise: str) -> None:
  """Refuses a folder in which no job has begun."""
  if not shards.exists(path := FileSystems.join(output, _NAME)):
    raise InputError(f'{path}: missing: no job made what is there; {otherwise}')


def _other_files(changed: Sequence[str], before: dict[str, Any], now: dict[str, Any]) -> str:
  """The first file that is not as it was, for a message."""
  if not changed:
    return ''
  path = changed[0]
  state = 'new' if path not in before else 'changed' if path in now else 'gone'
  return f'files ({path} is {state})'
