"""The committed results of benchmarks: written, read, and as Markdown of tables."""

import os
import re
from collections.abc import Callable, Iterable
from typing import Any

from common import flags
from common.distillation import results
from common.evaluation.tables import Table
from common.files import read_json, write_json

_USUAL = 'Intel'
_LONG = 400  # characters of a command that is read on the way
_PLACES = {  # of who measured, as a reader has them
  '../shared/data/': 'data/',
  '=/tmp/': '=benchmarks/results/',
  '=/work/': '=',
  'dipair.study': 'experiments.study',
  'dipair.inspect': 'experiments.inspect',
  'dse.run --suite': 'experiments.suite --suite',
  'dse.senteval': 'experiments.senteval',
}
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def write(path: str, module: str, config: Any, **made: Any) -> None:
  """Writes what a benchmark made, with its command, commit and environment."""
  command = flags.command_line(f'benchmarks.{module}', flags.changed(config))
  about = {'command': command, 'commit': results.commit(), 'environment': results.environment()}
  write_json(path, {**about, **made})


def read(name: str) -> dict[str, Any] | None:
  """The results of that name; None where there are none."""
  path = os.path.join(ROOT, 'benchmarks', 'results', f'{name}.json')
  return read_json(path) if os.path.exists(path) else None


def markdown(headers: list[str], rows: list[list[str]]) -> str:
  """A Markdown table."""
  lines = [headers, ['---'] * len(headers), *rows]
  return '\n'.join(f'| {" | ".join(line)} |' for line in lines)


def section(title: str, made: dict[str, Any], table: str, note: str = '') -> str:
  """A section of docs/results.md: the table, the note, the command and its commit."""
  by = f'{_by(made)}{_on(made)}.'
  if len(by) > _LONG:
    by = folded('Command', by)
  run = made.get('run')  # that a study is on
  of_run = folded("The run's command", f'{_by(run)}.') if run else ''
  return '\n\n'.join(filter(None, [f'## {title}', table, note, by, of_run]))


def transductive(text: str, page: str = '') -> str:
  """A section or page, marked below its title: measured by pairs that were learnt from.

  `page` holds the reason; empty: this one.
  """
  title, rest = text.split('\n', 1)
  mark = f'*Transductive: to be measured again ([why]({page}#transductive-figures)).*'
  return f'{title}\n\n{mark}\n{rest}'


def commands(runs: Iterable[dict[str, Any]]) -> str:
  """What several results are by, for the end of a section of them."""
  return '\n'.join(f'- {_by(made)}' for made in runs)


def command(made: dict[str, Any]) -> str:
  """The command of results as a reader's shell takes it: of earlier ones, values with a space are without quotes."""
  command = re.sub(r"(?<==)([^'\s]\S*(?: (?!--)\S+)+)", r"'\1'", made['command'])
  for there, here in _PLACES.items():
    command = command.replace(there, here)
  return command


def _by(made: dict[str, Any]) -> str:
  return f'`{command(made)}`, commit {made["commit"]}'


def _on(made: dict[str, Any]) -> str:
  """The machine, where it is not the one of nearly all results."""
  environment = made.get('environment') or {}
  if (accelerators := environment.get('accelerators', 'none')) != 'none':
    return f', on {accelerators}'
  cpu = environment.get('cpu', _USUAL)
  return '' if cpu.startswith(_USUAL) else f', on two cores of {cpu}'


def shown(title: str, made: dict[str, Any], table: Table, note: str = '') -> str:
  """A section of a table, with its own note where there is no other."""
  return section(title, made, markdown(table.headers, table.rows), note or table.note)


def measured(name: str, title: str, table: Callable[[dict[str, Any]], Table]) -> str:
  """A section of the table of the results of that name; empty where there are none."""
  made = read(name)
  return shown(title, made, table(made)) if made else ''


def folded(title: str, text: str) -> str:
  """What is too long to be read on the way; the site reads it as Markdown where it says so."""
  return f'<details markdown="1"><summary>{title}</summary>\n\n{text}\n\n</details>'
