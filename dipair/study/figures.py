"""A study's figures as pictures: quality against speed, one stage and two, quality over a number."""

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from common.evaluation.cells import label, metric, times
from common.evaluation.metrics import LESS_IS_BETTER
from dipair.study.speeds import BASELINE, INT8, RUNTIMES
from dipair.study.tables import runs_of, values

# From the teacher's metric, of it: with worse ones in it, a picture would show none of the others apart.
_FARTHEST = 0.2
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
  """Hollow: exact in LiteRT; filled: int8, as far from it as the first seed's. A cross-attention student has one.

  One far worse than the teacher stands at the edge, its value in the legend.
  """
  primary = study['metrics'][0]
  worse = 1 if primary in LESS_IS_BETTER else -1
  _teacher_lines(study, axes, (1.0, 1 + 0.03 * worse))
  axes.set_xscale('log')
  axes.margins(y=0.12)
  edge = worse * math.inf
  if study['teacher']:
    edge = (1 + worse * _FARTHEST) * study['teacher']['test'][primary]
  within, arrow = (min, '↑') if worse > 0 else (max, '↓')
  axes.set_xlabel(
    '× BERT-base at 128 tokens; hollow: exact, filled: int8, of the head on stored vectors'
  )
  for number, row in enumerate(comparison['rows'], 1):
    runs = runs_of(study, row)
    color = _CROSS if row['cross'] else _STUDENT
    of_seeds = values(study, row, 'test', primary)
    y = float(np.mean(of_seeds))
    beyond = f' ({metric(y)})' if within(y, edge) != y else ''
    mean, y = y, within(y, edge)
    if row['cross']:
      x, marker, fill = runs[BASELINE]['ratio'], 's', color
    else:
      exact, int8 = runs[RUNTIMES[1]], runs[INT8]
      in_int8 = within(mean + int8['test'] - of_seeds[0], edge)
      axes.plot([exact['ratio'], int8['ratio']], [y, in_int8], color=color, lw=0.8)
      axes.plot(int8['ratio'], in_int8, 'o', color=color, markersize=6)
      x, marker, fill = exact['ratio'], 'o', 'white'
    axes.plot(
      x, y, marker, color=color, mfc=fill, markersize=6, label=f'{number}  {row["name"]}{beyond}'
    )
    axes.annotate(
      f'{number}{arrow * bool(beyond)}', (x, y), (-4, 6), textcoords='offset points', ha='right'
    )
  axes.xaxis.set_major_formatter(lambda value, _: times(value))
  axes.figure.legend(
    loc='outside lower center', ncols=2, fontsize=8, frameon=False, handlelength=0.8
  )


def _stages(study: dict[str, Any], comparison: dict[str, Any], axes: Axes) -> None:
  """A group a head, a point a way of training."""
  rows = [(*row['name'].split(': '), row) for row in comparison['rows']]
  heads, ways = (list(dict.fromkeys(row[i] for row in rows)) for i in (0, 1))
  for number, (way, color) in enumerate(zip(ways, (_STUDENT, _CROSS, _THIRD), strict=True)):
    own = [row for _, of, row in rows if of == way]
    _points(study, own, [place + 0.2 * (number - 1) for place in range(len(own))], axes, color, way)
  _teacher_lines(study, axes, (1.0,))
  axes.set_xticks(range(len(heads)), heads)
  axes.grid(visible=False, axis='x')
  axes.margins(x=0.1)
  axes.figure.legend(loc='outside lower center', ncols=3, frameon=False)


def _line(study: dict[str, Any], comparison: dict[str, Any], axes: Axes) -> None:
  """A point a row, in their order."""
  rows = comparison['rows']
  places = [float(place) for place in range(len(rows))]
  _points(study, rows, places, axes, _STUDENT, '', style='o-')
  _teacher_lines(study, axes, (1.0,))
  axes.set_xticks(places, [row['name'] for row in rows])
  axes.set_xlabel(comparison['axis'])
  axes.margins(x=0.08, y=0.15)


def _points(
  study: dict[str, Any],
  rows: list[dict[str, Any]],
  places: list[float],
  axes: Axes,
  color: str,
  name: str,
  style: str = 'o',
) -> None:
  """Means on test with their spread over seeds, and the means in figures beside them."""
  found = [values(study, row, 'test', study['metrics'][0]) for row in rows]
  means = [float(np.mean(of)) for of in found]
  spreads = [np.std(of, ddof=1) for of in found] if len(found[0]) > 1 else None
  axes.errorbar(places, means, spreads, fmt=style, color=color, capsize=3, label=name or None)
  for place in zip(places, means, strict=True):
    axes.annotate(metric(place[1]), place, (6, 4), textcoords='offset points', fontsize=8)


_PICTURES = {'figure1': _tradeoff, 'figure3a': _stages, 'figure3b': _line, 'figure4': _line}


def _teacher_lines(study: dict[str, Any], axes: Axes, shares: tuple[float, ...]) -> None:
  if not study['teacher']:
    return
  teacher = study['teacher']['test'][study['metrics'][0]]
  for share in shares:
    text = 'teacher' if share == 1 else f'{share - 1:+.0%}'
    style = '-' if share == 1 else '--'
    axes.axhline(share * teacher, color=_TEACHER, linestyle=style, linewidth=1)
    above = share >= 1
    axes.annotate(
      text, (1, share * teacher), (-2, 3 if above else -3), xycoords=('axes fraction', 'data'),
      textcoords='offset points', color=_TEACHER, ha='right', va='bottom' if above else 'top',
    )  # fmt: skip
