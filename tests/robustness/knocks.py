"""Wrong values for flags, faults in tables: refused in one line that names them, or taken.

python -m tests.robustness.knocks --output=benchmarks/results/knocks.json

Every flag of every command gets values of other types and sizes. A good table of pairs, in each
form that is read, gets one fault at a time, in each place.
"""

import dataclasses
import importlib
import importlib.util
import math
import tempfile
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple, get_type_hints

from benchmarks import committed
from common import console, flags
from common.errors import InputError
from common.flags import Option
from tests.robustness import bad_tables

VALUES = ('', 'word', '0', '-1', str(10**18), 'nan', 'inf', '-inf')
OUTCOMES = ('refused', 'taken')  # any other one is a fault


@dataclasses.dataclass(frozen=True)
class KnocksConfig:
  """The file of the figures."""

  output: str = flags.option('', 'JSON file of the figures')


class Knock(NamedTuple):
  """A value given to a flag, and its outcome."""

  flag: str
  value: str
  outcome: str


def main(config: KnocksConfig) -> None:
  """Knocks on each command, prints, writes."""
  commands = {name for of_program in console.COMMANDS.values() for name in of_program.values()}
  rows, faults = {}, []
  for command in sorted(commands):
    found = list(knocks(config_class(command)))
    rows[command] = Counter(knock.outcome for knock in found if knock.outcome in OUTCOMES)
    faults += [f'{command} {knock}' for knock in found if knock.outcome not in OUTCOMES]
    print(f'{command}: {dict(rows[command])}')
  tables = {}
  with tempfile.TemporaryDirectory() as folder:
    for form in bad_tables.FORMS:
      said = list(bad_tables.knocks(folder, form))
      tables[form] = Counter(outcome for _, outcome in said if outcome in OUTCOMES)
      faults += [f'{form}, {name}: {outcome}' for name, outcome in said if outcome not in OUTCOMES]
      print(f'{form}: {dict(tables[form])}')
  totals = sum((*rows.values(), *tables.values()), Counter())
  print(f'{totals.total() + len(faults):,} cases: {dict(totals)}, {len(faults)} faults', *faults)
  if config.output:
    found = {'faults': faults, 'commands': rows, 'tables': tables}
    committed.write(config.output, 'tests.robustness.knocks', config, **totals, **found)


def config_class(command: str) -> type:
  """The config of a command, by the name that `python -m` takes."""
  spec = importlib.util.find_spec(command)
  is_package = spec is not None and spec.submodule_search_locations is not None
  module = importlib.import_module(f'{command}.__main__' if is_package else command)
  return get_type_hints(module.main)['config']


def knocks(cls: type) -> Iterator[Knock]:
  """Each flag of a config with each of the values."""
  for option in flags.options(cls):
    for value in VALUES:
      yield Knock(option.name, value, _outcome(cls, option, value))


def _outcome(cls: type, option: Option, value: str) -> str:
  """'refused', in one line that names the flag; 'taken', where its declaration allows it; a fault.

  A text may be anything, and may be refused for another flag that it goes with. A choice is one of
  the choices. A number is finite and within the flag's bounds, which every number has.
  """
  try:
    config = flags.parse(cls, {option.name: value})
  except InputError as error:
    named = '--' if option.hint in (str, tuple[str, ...]) else f'--{option.name}'
    if named in str(error) and len(str(error).splitlines()) == 1:
      return 'refused'
    return f'refused without the flag in one line: {error}'
  except Exception as error:
    return f'{type(error).__name__}: {error}'
  found, metadata = flags.flat(config)[option.name], option.field.metadata
  for item in found if isinstance(found, tuple) else (found,):
    if metadata['choices'] and item not in metadata['choices']:
      return f'{item!r} is none of the choices'
    if isinstance(item, (int, float)) and not isinstance(item, bool):
      least, most = metadata['bounds'] or (math.nan, math.nan)
      if not (math.isfinite(item) and least <= item <= most):
        return f'{item} is not within {metadata["bounds"]}'
  return 'taken'


if __name__ == '__main__':
  flags.command(main, KnocksConfig)
