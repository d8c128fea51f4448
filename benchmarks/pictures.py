"""The pictures of docs, and the study's page with its own, from the files of results."""

import glob
import os
import re
import shutil
import tempfile
from typing import Any

from matplotlib.figure import Figure

from benchmarks import nearness, speed_tables
from benchmarks.committed import ROOT, read, transductive
from common.evaluation.cells import digits, label, times
from experiments import suite
from experiments.study import page

_COLORS = {'DiPair': '#1d4ed8', 'DSE': '#0f766e'}
_OTHER, _INK, _FAINT = '#c2570c', '#57606a', '#b6bec8'
_TOLD = {  # runs told from the others of `losses`
  'homedepot_long': _OTHER,
  'homedepot_nearest': _COLORS['DSE'],
  nearness.SHIPPED: _COLORS['DiPair'],
}


def draw() -> None:
  """Draws what has been measured."""
  for name, function in {
    'scoring': scoring,
    'frontier': frontier,
    'glue_teachers': glue_teachers,
  }.items():
    if made := read(name):
      _save(function(made), name)
  if runs := nearness.read_runs():
    _save(losses(runs), 'nearness')


def _save(figure: Figure, name: str) -> None:
  figure.savefig(os.path.join(ROOT, 'docs', f'{name}.png'), dpi=110)


def study(run: str) -> None:
  """Writes the page and pictures of a run's study into docs, without the files of single tables."""
  if not (made := read(f'study_{run}')):
    return
  there = os.path.join(ROOT, 'docs', 'study', run)
  os.makedirs(there, exist_ok=True)
  with tempfile.TemporaryDirectory() as folder:
    path = page.write(made, folder)
    if 'Home Depot' in made['title']:
      with open(path, encoding='utf-8') as file:
        text = transductive(file.read(), '../../results.md')
      with open(path, 'w', encoding='utf-8') as file:
        file.write(text)
    for name in [path, *glob.glob(os.path.join(folder, '*.png'))]:
      shutil.copy(name, there)


def scoring(made: dict[str, Any]) -> Figure:
  """Pairs a second of `benchmarks.scoring`'s models, each in its quickest forms."""
  rows = speed_tables.quickest(made['rows'], made)[::-1]
  names, rates = [row['name'] for row in rows], [row['pairs_per_second'] for row in rows]
  figure = Figure(figsize=(9, 0.28 * len(rates) + 1), layout='constrained')
  axes = figure.add_subplot(xscale='log', xlabel='pairs/s')
  axes.barh(names, rates, color=[_COLORS.get(re.split(r'\W', name)[0], _OTHER) for name in names])
  for number, rate in enumerate(rates):
    axes.annotate(digits(rate), (rate, number), (4, 0), textcoords='offset points', va='center')
  axes.margins(x=0.12, y=0.01)
  axes.spines[['top', 'right']].set_visible(False)
  return figure


def frontier(made: dict[str, Any]) -> Figure:
  """Quality against speed of `benchmarks.frontier`'s sizes: exact, and in int8 where the line ends."""
  figure = Figure(figsize=(9, 6), layout='constrained')
  axes = figure.add_subplot(
    xscale='log',
    xlabel='× BERT-base at 128 tokens, of the head on stored vectors; hollow: exact, filled: int8',
  )
  axes.set_ylabel(f'{label(made["metric"])} (test)')
  for share, style in ((1.0, '-'), (0.97, '--')):
    axes.axhline(share * made['teacher'], color=_OTHER, linestyle=style, linewidth=1)
    text = 'teacher' if share == 1 else f'{share - 1:.0%}'
    axes.annotate(
      text, (0, share * made['teacher']), (4, 3), xycoords=('axes fraction', 'data'),
      textcoords='offset points', color=_OTHER,
    )  # fmt: skip
  for number, row in enumerate(made['rows'], 1):
    color = _COLORS['DiPair' if row['layers'] else 'DSE']
    exact, int8 = row['heads']['litert'], row['heads']['litert-int8']
    axes.plot([exact['ratio'], int8['ratio']], [exact['test'], int8['test']], color=color, lw=0.8)
    axes.plot(exact['ratio'], exact['test'], 'o', color=color, markersize=5, mfc='white')
    axes.plot(
      int8['ratio'], int8['test'], 'o', color=color, markersize=7, label=f'{number}  {row["name"]}'
    )
    axes.annotate(str(number), (int8['ratio'], int8['test']), (6, 4), textcoords='offset points')
  axes.xaxis.set_major_formatter(lambda value, _: times(value))
  axes.spines[['top', 'right']].set_visible(False)
  figure.legend(loc='outside lower center', ncols=2, fontsize=8, frameon=False, handlelength=0)
  return figure


def glue_teachers(made: dict[str, Any]) -> Figure:
  """Metric on valid by step of `benchmarks.glue_teachers`' teachers, a line a seed; dashed: Table 1's."""
  tasks, table = made['tasks'], read('glue') or {'results': {}}
  figure = Figure(figsize=(11, 2.6), layout='constrained')
  for axes, (task, found) in zip(figure.subplots(1, len(tasks)), tasks.items(), strict=True):
    axes.set_title(f'{suite.TITLES[task]}, {label(found["metric"])}', fontsize=9)
    for curve in found['curves']:
      axes.plot(*zip(*curve[1:], strict=True), color=_COLORS['DSE'], lw=1.2)
    if own := table['results'].get(task):
      best = own['models'][0]['valid'][found['metric']]
      axes.axhline(best, color=_OTHER, linestyle='--', linewidth=1)
    axes.set_xlim(0)
    axes.tick_params(labelsize=7)
    axes.spines[['top', 'right']].set_visible(False)
  figure.supxlabel("step; dashed: Table 1's teacher, at its best", fontsize=8)
  return figure


def losses(runs: dict[str, dict[str, Any]]) -> Figure:
  """`nearness`' runs: each one's change on test with its interval, and its curve of stage 2."""
  figure = Figure(figsize=(10, 4.2), layout='constrained')
  changes, curves = figure.subplots(1, 2, width_ratios=(3, 2))
  for share, style in ((0, '-'), (nearness.WANTED, '--')):
    changes.axvline(100 * share, color=_INK, linestyle=style, linewidth=1)
  names = []
  for place, (letter, (name, made)) in enumerate(nearness.lettered(runs)):
    student, told = nearness.against_first(made), name in _TOLD
    color = _TOLD.get(name, _INK)
    changes.plot([100 * end for end in student['interval']['test']], [place] * 2, color=color, lw=2)
    changes.plot(100 * student['delta']['test'], place, 'o', color=color, markersize=6)
    names.append(f'{nearness.RUNS[name]}   {letter}')
    history = made['training'][-1]['history']
    steps = [at['step'] for at in history]
    values = [at['valid'][made['primary_metric']] for at in history]
    curves.plot(steps, values, color=_TOLD.get(name, _FAINT), lw=1.2, zorder=2 + told)
    if told:
      curves.annotate(letter, (steps[-1], values[-1]), (4, -3), textcoords='offset points')
  changes.set_yticks(range(len(names)), names, fontsize=8)
  changes.invert_yaxis()
  changes.set_xlabel('change on test against the teacher, %; 95% interval')
  curves.set_xlabel('step of stage 2')
  curves.set_ylabel(f'{label(runs[nearness.SHIPPED]["primary_metric"])} (valid)')
  for axes in (changes, curves):
    axes.spines[['top', 'right']].set_visible(False)
  return figure
