"""A run's pictures: quality against speed, agreement, distribution, training curves."""

import base64
import io
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import matplotlib
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from common.evaluation import metrics, speeds
from common.evaluation.cells import digits, label, metric, times
from common.evaluation.results import Results

_COLORS = {  # seen on a light page and on a dark one
  'ink': '#7d8590',
  'label': '#9aa4af',
  'teacher': '#d9690f',
  'student': '#3b82f6',
  'few': '#a8c8fb',  # the ends of the agreement picture's ramp
  'many': '#1e4fc2',
}
_STYLE: dict[str, Any] = {
  'text.color': _COLORS['ink'],
  'axes.labelcolor': _COLORS['ink'],
  'axes.edgecolor': _COLORS['ink'],
  'xtick.color': _COLORS['ink'],
  'ytick.color': _COLORS['ink'],
  'axes.grid': True,
  'grid.color': _COLORS['label'],
  'grid.alpha': 0.4,
  'axes.axisbelow': True,
  'axes.spines.top': False,
  'axes.spines.right': False,
  'legend.frameon': False,
  'svg.hashsalt': 'report',
}
Picture = tuple[str, str]  # a caption, and a data URI


def quality(results: Results, scores: dict[str, np.ndarray]) -> list[Picture]:
  """Figures: quality against speed, student against teacher, distribution of scores, if known."""
  primary, found = results.primary_metric, []
  tests = {m['name']: m['test'][primary] for m in results.models if primary in m.get('test', {})}
  teacher, heads = speeds.by_model(results).get('teacher'), speeds.default_and_fastest(results)
  points = []  # (label, pairs/s, quality): the teacher, the head by default, the fastest head
  if teacher and heads and {'teacher', results.models[-1]['name']} <= tests.keys():
    points.append(('teacher', teacher['pairs_per_second'], tests['teacher']))
    for row in heads:
      quality = row.get('test', tests[results.models[-1]['name']])
      points.append((row['name'], row['pairs_per_second'], quality))

  def tradeoff(figure: Figure, colors: dict[str, str]) -> None:
    base = points[0][1]
    axes = figure.add_subplot(xscale='log', ylabel=f'{label(primary)} (test)')
    axes.set_xlabel('pairs/s; of the head on stored vectors')
    for i, (name, x, y) in enumerate(points):
      color = colors['student' if i else 'teacher']
      axes.plot(x, y, 'o', color=color, markersize=8)
      text = f'{name}\n{digits(x)} pairs/s, {times(x / base)}\n{metric(y)}'
      below = i == 2  # the two heads are close together
      place = {'ha': 'center', 'va': 'top' if below else 'bottom', 'color': color}
      axes.annotate(text, (x, y), (0, -9 if below else 9), textcoords='offset points', **place)
    axes.margins(0.5, 0.8)
    above = axes.secondary_xaxis('top', functions=(lambda x: x / base, lambda x: x * base))
    above.xaxis.set_major_locator(LogLocator(numticks=4))
    above.xaxis.set_major_formatter(lambda value, _: times(value))
    above.set_xlabel("× its own teacher's pairs/s")

  def agreement(figure: Figure, colors: dict[str, str]) -> None:
    x, y = scores['teacher'], scores['student']
    ends = [min(x.min(), y.min()), max(x.max(), y.max()) + 1e-9]
    axes = figure.add_subplot(xlabel="teacher's score", ylabel="student's score", aspect='equal')
    ramp = LinearSegmentedColormap.from_list('ramp', [colors['few'], colors['many']])
    grid = axes.hexbin(x, y, gridsize=32, mincnt=1, bins='log', cmap=ramp, extent=ends * 2, lw=0.1)
    figure.colorbar(grid, label='pairs', shrink=0.8).outline.set_visible(False)
    axes.plot(ends, ends, color=colors['teacher'], linewidth=1.2, linestyle='--', zorder=3)

  def distribution(figure: Figure, colors: dict[str, str]) -> None:
    axes = figure.add_subplot(xlabel='score', ylabel='share of pairs')
    pool = np.concatenate(list(scores.values()))
    bins = np.linspace(pool.min(), pool.max() + 1e-9, 31)
    for name, values in scores.items():
      style = {'histtype': 'stepfilled' if name == 'label' else 'step', 'linewidth': 1.6}
      share = np.full(len(values), 1 / len(values))
      axes.hist(values, bins, weights=share, color=colors[name], label=name, **style)
    axes.legend()

  if points:
    found.append(picture('Quality against speed', tradeoff))
  if {'teacher', 'student'} <= scores.keys():
    r = metric(metrics.pearson(scores['teacher'], scores['student']))
    found.append(picture(f'Student against teacher on test, r = {r}', agreement))
  if scores:
    found.append(picture('Distribution of scores on test', distribution))
  return found


def reliability(results: Results) -> list[Picture]:
  """Outcomes of test's pairs by score, for teacher and student, above the counts of the bins."""
  models = results.calibration.get('models', {})
  outcome = {'binary': 'share positive', 'multiclass': 'share right', 'regression': 'mean label'}

  def diagram(figure: Figure, colors: dict[str, str]) -> None:
    above, below = figure.subplots(2, sharex=True, height_ratios=(3, 1))
    above.plot([0, 1], [0, 1], color=colors['ink'], linewidth=1.2, linestyle=':')
    for number, (name, of) in enumerate(models.items()):
      style: dict[str, Any] = {'color': colors['teacher' if name == 'teacher' else 'student']}
      if name not in ('teacher', results.models[-1]['name']):  # before it was calibrated
        style |= {'linestyle': '--', 'alpha': 0.6}
      points = [(row['score'], row['outcome']) for row in of['bins']]
      above.plot(*zip(*points, strict=True), label=f'{name}, ECE {metric(of["ece"])}', **style)
      above.plot(*zip(*points, strict=True), 'o', color=style['color'], markersize=4)
      width = 0.1 / (len(models) + 1)
      places = [row['from'] + width * (number + 1) for row in of['bins']]
      style.pop('linestyle', None)
      below.bar(places, [row['count'] for row in of['bins']], width, **style)
    above.set_ylabel(outcome[results.task])
    above.legend()
    below.set(xlabel='score', ylabel='pairs', xlim=(0, 1), yscale='log')

  return [picture('Calibration on test; dotted: a score is its outcome', diagram)] if models else []


def curves(results: Results) -> list[Picture]:
  """A picture per stage: loss above, the primary metric on valid below, on one scale for all."""
  primary = results.primary_metric
  stages = [stage for stage in results.training if stage.get('history')]
  valid = [
    [(p['step'], p['valid'][primary]) for p in stage['history'] if p.get('valid')]
    for stage in stages
  ]
  every = [y for points in valid for _, y in points if math.isfinite(y)] or [0, 1]
  margin = 0.08 * (max(every) - min(every)) or 0.01

  def curves(i: int, figure: Figure, colors: dict[str, str]) -> None:
    stage, color = stages[i], colors['teacher' if stages[i]['name'] == 'teacher' else 'student']
    rows = figure.subplots(2 if valid[i] else 1, sharex=True, squeeze=False)[:, 0]
    rows[0].plot(
      *zip(*((p['step'], p['loss']) for p in stage['history']), strict=True), color=color
    )
    rows[0].set_ylabel('loss')
    if valid[i]:
      rows[1].plot(*zip(*valid[i], strict=True), '.-', color=color)
      rows[1].set_ylabel(f'{label(primary)} (valid)')
      rows[1].set_ylim(min(every) - margin, max(every) + margin)
    for axes in rows:
      axes.axvline(stage['best_step'], color=colors['ink'], linewidth=1.4, linestyle=':')
    rows[-1].set_xlabel('step')

  caption = '{}; dotted: the best step, {:,}'
  return [
    picture(caption.format(stage['name'].capitalize(), stage['best_step']), partial(curves, i))
    for i, stage in enumerate(stages)
  ]


def picture(caption: str, draw: Callable[[Figure, dict[str, str]], None]) -> Picture:
  """Draws a figure, for pages with a light and with a dark background.

  Args:
    caption: Caption below the picture.
    draw: Draws into a figure with colors: 'ink', 'label', 'teacher', 'student', 'few', 'many'.
  """
  with matplotlib.rc_context(_STYLE):
    figure, buffer = Figure(figsize=(4, 3.2), layout='constrained'), io.BytesIO()
    draw(figure, _COLORS)
    figure.savefig(buffer, format='svg', transparent=True, metadata={'Date': None})
  return caption, 'data:image/svg+xml;base64,' + base64.b64encode(buffer.getvalue()).decode()
