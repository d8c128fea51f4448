"""The table of what is done to the programs on purpose, and of what comes of it."""

from typing import Any

from benchmarks.committed import command
from common.evaluation.tables import Table


def robustness(made: dict[str, dict[str, Any]]) -> Table:
  """A row for each kind of trial, of the results by their benchmark's name: those that there are."""
  rows = []
  for name, of_trial in TRIALS.items():
    if found := made.get(name):
      for what, cases, outcome in of_trial(found):
        rows.append([what, f'{cases:,}', outcome, f'`{command(found)}`, {found["commit"]}'])
  note = (
    'A refusal is one line that names the flag, the file or the row, and a status that is not zero.'
  )
  return Table(note, ['trial', 'cases', 'outcome', 'by'], rows)


def _knocks(made: dict[str, Any]) -> list[tuple[str, int, str]]:
  names = {
    'commands': 'flags of every command with values of other types and sizes',
    'tables': 'tables of pairs in every form, with one fault or what looks like one',
  }
  rows = []
  for key, what in names.items():
    refused, taken = (sum(c.get(o, 0) for c in made[key].values()) for o in ('refused', 'taken'))
    faults = sum(fault.split()[0].rstrip(',') in made[key] for fault in made['faults'])
    outcome = f'{refused:,} refused, {taken:,} taken as they are meant; {faults} faults'
    rows.append((what, refused + taken + faults, outcome))
  return rows


def _damages(made: dict[str, Any]) -> list[tuple[str, int, str]]:
  named, same, faults = made['named'], made['the same'], len(made['faults'])
  outcome = f'{named:,} refused, {same:,} read as ever; {faults} faults'
  what = (
    'files of runs, exports, teachers, stores and jobs cut, emptied, removed, with a bit flipped'
  )
  return [(what, named + same + faults, outcome)]


def _malformed(made: dict[str, Any]) -> list[tuple[str, int, str]]:
  outcome = f'{made["faults"]} faults; of {made["good"]:,} good ones beside them '
  outcome += f'{sum(made["lost"].values())} lost; memory {made["memory_ratio"]:.2f} times its start'
  return [('malformed requests to the local server', made['cases'], outcome)]


def _kills(made: dict[str, Any]) -> list[tuple[str, int, str]]:
  what = f'{len(made["subjects"])} commands killed before a step that writes, and run again'
  return [(what, made['kills'], f'{made["equal"]} ended as an unbroken run, bit by bit')]


TRIALS = {'knocks': _knocks, 'damages': _damages, 'malformed': _malformed, 'kills': _kills}
