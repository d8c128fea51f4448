"""A study's figures: quality against speed, one stage and two, quality over a number."""

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from common.evaluation.cells import label, metric, times
from common.evaluation.metrics import LESS_IS_BETTER
from experiments.study.speeds import BASELINE, INT8
from experiments.study.students import RUNTIMES
from experiments.study.tables import runs_of, values

# Share of the teacher's metric beyond which a point stands at the edge, not to crowd the others.
_FARTHEST = 0.2
_STUDENT, _CROSS, _TEACHER, _THIRD = '#1d4ed8', '#0f766e', '#c2570c', '#9aa4af'
_AXES = {'figure3b': 'layers', 'figure4': 'most tokens, left+right'}


def draw(study: dict[str, Any], key: str) -> Figure | None:
  """The picture of a comparison; None for a table."""
  picture = {'figure3a': _stages, **dict.fromkeys(_AXES, _line)}.get(key)
  if key in ('figure1', 'heads') and study['comparisons'][key]['timed']:
    picture = _tradeoff
  if not picture:
    return None
  figure = Figure(figsize=(8, 4.5), layout='constrained')
  axes = figure.add_subplot()
  axes.set_ylabel(f'{label(study["metrics"][0])} (test)')
  axes.set_xlabel(_AXES.get(key, ''))
  axes.spines[['top', 'right']].set_visible(False)
  axes.grid(color='#c3cad2', alpha=0.4)
  axes.set_axisbelow(True)
  picture(study, study['comparisons'][key]['rows'], axes)
  return figure


def _tradeoff(study: dict[str, Any], rows: list[dict[str, Any]], axes: Axes) -> None:
  """Quality over speed: hollow points are exact in LiteRT, filled ones int8.

  A point of int8 is as far from the seeds' mean as the first seed's. Cross-attention has one point.
  A row far worse than the teacher stands at the edge, with its value in the legend.
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
  for number, row in enumerate(rows, 1):
    runs, of_seeds = runs_of(study, row), values(study, row, 'test', primary)
    mean = float(np.mean(of_seeds))
    y = within(mean, edge)
    beyond = y != mean and not math.isnan(mean)
    color, marker, fill = (_CROSS, 's', _CROSS) if row['cross'] else (_STUDENT, 'o', 'white')
    x = runs[BASELINE if row['cross'] else RUNTIMES[1]]['ratio']
    if not row['cross']:
      int8 = runs[INT8]
      in_int8 = within(mean + int8['test'] - of_seeds[0], edge)
      axes.plot([x, int8['ratio']], [y, in_int8], color=color, lw=0.8)
      axes.plot(int8['ratio'], in_int8, 'o', color=color, markersize=6)
    name = f'{number}  {row["name"]}' + (f' ({metric(mean)})' if beyond else '')
    axes.plot(x, y, marker, color=color, mfc=fill, markersize=6, label=name)
    text = f'{number}{arrow * beyond}'
    axes.annotate(text, (x, y), (-4, 6), textcoords='offset points', ha='right')
  axes.xaxis.set_major_formatter(lambda value, _: times(value))
  axes.figure.legend(
    loc='outside lower center', ncols=2, fontsize=8, frameon=False, handlelength=0.8
  )


def _stages(study: dict[str, Any], rows: list[dict[str, Any]], axes: Axes) -> None:
  """A group a head, a point a way of training; rows are named 'head: way'."""
  named = [(*row['name'].split(': '), row) for row in rows]
  heads, ways = (list(dict.fromkeys(row[i] for row in named)) for i in (0, 1))
  for number, (way, color) in enumerate(zip(ways, (_STUDENT, _CROSS, _THIRD), strict=True)):
    own = [row for _, of, row in named if of == way]
    _points(study, own, [place + 0.2 * (number - 1) for place in range(len(own))], axes, color, way)
  _teacher_lines(study, axes, (1.0,))
  axes.set_xticks(range(len(heads)), heads)
  axes.grid(visible=False, axis='x')
  axes.margins(x=0.1)
  axes.figure.legend(loc='outside lower center', ncols=3, frameon=False)


def _line(study: dict[str, Any], rows: list[dict[str, Any]], axes: Axes) -> None:
  """A point a row, in their order."""
  places = [float(place) for place in range(len(rows))]
  _points(study, rows, places, axes, _STUDENT, '', style='o-')
  _teacher_lines(study, axes, (1.0,))
  axes.set_xticks(places, [row['name'] for row in rows])
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
  """Means on test with their spread over seeds, and the means as numbers beside them."""
  found = [values(study, row, 'test', study['metrics'][0]) for row in rows]
  means = [float(np.mean(of)) for of in found]
  spreads = [np.std(of, ddof=1) for of in found] if len(found[0]) > 1 else None
  axes.errorbar(places, means, spreads, fmt=style, color=color, capsize=3, label=name or None)
  for place in zip(places, means, strict=True):
    axes.annotate(metric(place[1]), place, (6, 4), textcoords='offset points', fontsize=8)


def _teacher_lines(study: dict[str, Any], axes: Axes, shares: tuple[float, ...]) -> None:
  """Lines at the teacher's metric on test and at shares of it."""
  if not study['teacher']:
    return
  teacher = study['teacher']['test'][study['metrics'][0]]
  for share in shares:
    text = 'teacher' if share == 1 else f'{share - 1:+.0%}'
    style, above = ('-' if share == 1 else '--'), share >= 1
    axes.axhline(share * teacher, color=_TEACHER, linestyle=style, linewidth=1)
    axes.annotate(
      text,
      (1, share * teacher),
      (-2, 3 if above else -3),
      xycoords=('axes fraction', 'data'),
      textcoords='offset points',
      color=_TEACHER,
      ha='right',
      va='bottom' if above else 'top',
    )
