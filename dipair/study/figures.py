"""A study's figures as pictures: quality against speed, one stage and two, quality over a number."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from common.evaluation.tables import label, metric, times
from dipair.study.speeds import BASELINE, INT8, RUNTIMES
from dipair.study.tables import runs_of, values

_STUDENT, _CROSS, _TEACHER, _THIRD = '#1d4ed8', '#0f766e', '#c2570c', '#9aa4af'


def draw(study: dict[str, Any], key: str) -> Figure | None:
  """The picture of a comparison; None where it is a table alone."""
  if key not in _PICTURES:
    return None
  figure = Figure(figsize=(8, 4.5), layout='constrained')
  axes = figure.add_subplot()
  axes.set_ylabel(f'{label(study["metrics"][0])} (test)')
  axes.spines[['top', 'right']].set_visible(False)
  axes.grid(color='#c3cad2', alpha=0.4)
  axes.set_axisbelow(True)
  _PICTURES[key](study, study['comparisons'][key], axes)
  return figure


def _tradeoff(study: dict[str, Any], comparison: dict[str, Any], axes: Axes) -> None:
  """Hollow: exact in LiteRT; filled: int8. A cross-attention student has one point."""
  _teacher_lines(study, axes, (1.0, 0.97))
  axes.set_xscale('log')
  axes.set_xlabel(
    '× BERT-base at 128 tokens; hollow: exact, filled: int8, of the head on stored vectors'
  )
  for number, row in enumerate(comparison['rows'], 1):
    runs = runs_of(study, row)
    color = _CROSS if row['cross'] else _STUDENT
    y = float(np.mean(values(study, row, 'test', study['metrics'][0])))
    if row['cross']:
      x, marker, fill = runs[BASELINE]['ratio'], 's', color
    else:
      exact, int8 = runs[RUNTIMES[1]], runs[INT8]
      axes.plot([exact['ratio'], int8['ratio']], [y, int8['test']], color=color, lw=0.8)
      axes.plot(int8['ratio'], int8['test'], 'o', color=color, markersize=6)
      x, marker, fill = exact['ratio'], 'o', 'white'
    axes.plot(x, y, marker, color=color, mfc=fill, markersize=6, label=f'{number}  {row["name"]}')
    axes.annotate(str(number), (x, y), (-4, 6), textcoords='offset points', ha='right')
  axes.xaxis.set_major_formatter(lambda value, _: times(value))
  axes.figure.legend(
    loc='outside lower center', ncols=2, fontsize=8, frameon=False, handlelength=0.8
  )


def _stages(study: dict[str, Any], comparison: dict[str, Any], axes: Axes) -> None:
  """A group a head, a bar a way of training; the axis starts where differences can be seen."""
  rows = [(*row['name'].split(': '), row) for row in comparison['rows']]
  heads, ways = (list(dict.fromkeys(row[i] for row in rows)) for i in (0, 1))
  colors = dict(zip(ways, (_STUDENT, _CROSS, _THIRD), strict=True))
  shown = set()
  lowest = []
  for head, way, row in rows:
    found = values(study, row, 'test', study['metrics'][0])
    x, y = heads.index(head) + 0.26 * (ways.index(way) - 1), float(np.mean(found))
    lowest.append(min(found))
    spread = np.std(found, ddof=1) if len(found) > 1 else None
    name = None if way in shown else way
    axes.bar(x, y, 0.24, color=colors[way], label=name, yerr=spread)
    axes.annotate(metric(y), (x, y), (0, 3), textcoords='offset points', ha='center', fontsize=8)
    shown.add(way)
  _teacher_lines(study, axes, (1.0,))
  top = max(axes.get_ylim()[1], 0)
  axes.set_ylim(min(0.0, min(lowest)) if min(lowest) < 0.5 * top else 0.9 * min(lowest), top)
  axes.set_xticks(range(len(heads)), heads)
  axes.grid(visible=False, axis='x')
  axes.figure.legend(loc='outside lower center', ncols=3, frameon=False)


def _line(study: dict[str, Any], comparison: dict[str, Any], axes: Axes) -> None:
  """A point a row, in their order."""
  rows = comparison['rows']
  found = [values(study, row, 'test', study['metrics'][0]) for row in rows]
  means = [float(np.mean(of)) for of in found]
  spreads = [np.std(of, ddof=1) for of in found] if len(found[0]) > 1 else None
  axes.errorbar(range(len(rows)), means, spreads, fmt='o-', color=_STUDENT, capsize=3)
  for x, y in enumerate(means):
    axes.annotate(metric(y), (x, y), (0, 7), textcoords='offset points', ha='center', fontsize=8)
  _teacher_lines(study, axes, (1.0,))
  axes.set_xticks(range(len(rows)), [row['name'] for row in rows])
  axes.set_xlabel(comparison['axis'])
  axes.margins(x=0.08, y=0.15)


_PICTURES = {'figure1': _tradeoff, 'figure3a': _stages, 'figure3b': _line, 'figure4': _line}


def _teacher_lines(study: dict[str, Any], axes: Axes, shares: tuple[float, ...]) -> None:
  if not study['teacher']:
    return
  teacher = study['teacher']['test'][study['metrics'][0]]
  for share in shares:
    text = 'teacher' if share == 1 else f'{share - 1:.0%}'
    style = '-' if share == 1 else '--'
    axes.axhline(share * teacher, color=_TEACHER, linestyle=style, linewidth=1)
    axes.annotate(
      text, (1, share * teacher), (-2, 3), xycoords=('axes fraction', 'data'),
      textcoords='offset points', color=_TEACHER, ha='right',
    )  # fmt: skip
