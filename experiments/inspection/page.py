"""The page of an inspection: heat maps as tables, bars as pictures; one file, no scripts."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from common.evaluation import figures, pages
from common.evaluation.cells import label, metric, short
from experiments.inspection.attended_texts import TARGETS

_TEMPLATE = Path(__file__).with_name('inspection.html')
_FIRST = {'mean': 'the mean of all tokens, which is named [CLS] below'}  # by token selection
_TARGET_LABELS = {'own': 'itself', 'cls': '[CLS]', 'sep': '[SEP]'}
_TARGET_LABELS |= {'kept': 'other kept positions', 'other': 'the rest of the text'}
_LEAST = 0.001  # of rollout, for a distance to be shown
_STRONGEST = 0.55  # opacity: numbers stay legible on it


class Cell(NamedTuple):
  """A heat map's cell: opacity, sign, the number in it and the one shown when pointed at."""

  opacity: float
  negative: bool
  number: str
  exact: str


class HeatMap(NamedTuple):
  """A table of cells; `edges` are the columns before which a line is drawn."""

  caption: str
  rows: Sequence[str]
  columns: Sequence[str]
  cells: list[list[Cell]]
  edges: Sequence[int] = ()


def write(found: dict[str, Any], path: str) -> None:
  """Writes the page: whole, or not at all.

  Args:
    found: Figures from `measures.inspect`, with `title` and `command`.
    path: The file to write.
  """
  names = [f'{t["name"]} {i}' for t in found['texts'] for i in range(t['positions'])]
  edges = np.cumsum([t['positions'] for t in found['texts']])[:-1].tolist()
  score, head = found['metric'], found.get('head')
  costs = [[score['all'] - (v or 0) for v in values] for values in score['without']]
  cost, costliest = max(zip(np.concatenate(costs), names, strict=True))
  tiles = [
    (metric(score['all']), f'{label(score["name"])} with all positions'),
    (f'{-cost:+.3f}', f'without {costliest}, the costliest'),
    (metric(_off_diagonal(found['similarity'], edges)), 'mean cosine within a text'),
  ]
  pages.write(
    path,
    str(_TEMPLATE),
    r=found,
    first=_FIRST.get(found['token_selection'], 'the first kept'),
    tiles=tiles,
    texts=[
      (
        text,
        [figures.picture(f'{text["name"]}: where attention ends', partial(_shares, text))],
        _relative(text),
        [_example(text, example) for example in text['examples']],
      )
      for text in found['texts']
    ],
    removal=[
      figures.picture(f'{text["name"]}: {caption}', partial(_removal, found, key, i))
      for i, text in enumerate(found['texts'])
      for key, caption in (('without', 'without one position'), ('only', 'with one alone'))
    ],
    similarity=_heat('Mean cosine', names, names, found['similarity'], 1.0, edges),
    norms=[figures.picture('Mean norm', partial(_norms, found))],
    head=head and [_of_layers(head['mean'], names, edges)],
    pairs=head and [_pair(example, edges) for example in head['examples']],
  )


def _shares(text: dict[str, Any], figure: Figure, colors: dict[str, str]) -> None:
  axes = figure.add_subplot(xlabel='position', ylabel='share of its attention rollout', ylim=(0, 1))
  below = np.zeros(text['positions'])
  shades = [colors['teacher'], *_ramp(colors, len(TARGETS) - 1)]
  for target, color in zip(TARGETS, shades, strict=True):
    share, name = np.array(text['shares'][target]), _TARGET_LABELS[target]
    axes.bar(range(len(share)), share, 0.8, below, color=color, label=name)
    below += share
  _finish(figure, axes, range(text['positions']), legend=True)


def _removal(
  found: dict[str, Any], key: str, slot: int, figure: Figure, colors: dict[str, str]
) -> None:
  score = found['metric']
  axes = figure.add_subplot(xlabel='position', ylabel=f'{label(score["name"])} (test)')
  every = np.array([v for values in score[key] for v in values] + [score['all']], float)
  values = np.array(score[key][slot], float)
  axes.bar(range(len(values)), values - score['all'], 0.8, score['all'], color=colors['student'])
  axes.axhline(score['all'], color=colors['ink'], linewidth=1.4, linestyle=':')
  margin = 0.06 * (np.nanmax(every) - np.nanmin(every)) or 0.01
  axes.set_ylim(np.nanmin(every) - margin, np.nanmax(every) + margin)
  _finish(figure, axes, range(len(values)))


def _norms(found: dict[str, Any], figure: Figure, colors: dict[str, str]) -> None:
  axes = figure.add_subplot(xlabel='position', ylabel='norm of the projected token')
  start, texts = 0, found['texts']
  for text, color in zip(texts, _ramp(colors, len(texts)), strict=True):
    places = np.arange(start, start := start + text['positions'])
    axes.bar(places, np.array(found['norms'], float)[places], 0.8, color=color, label=text['name'])
  _finish(figure, axes, [i for text in texts for i in range(text['positions'])], legend=True)


def _ramp(colors: dict[str, str], steps: int) -> np.ndarray:
  """Colors from strong to faint."""
  ends = [colors['many'], colors['student'], colors['few']]
  return LinearSegmentedColormap.from_list('ramp', ends)(np.linspace(0, 1, steps))


def _finish(figure: Figure, axes: Any, labels: Sequence[int], legend: bool = False) -> None:
  axes.set_xticks(range(len(labels)), labels)
  axes.tick_params(axis='x', labelsize=8)
  axes.grid(axis='x', visible=False)
  if legend:
    handles = axes.get_legend_handles_labels()
    figure.legend(*handles, loc='outside upper center', ncols=2, fontsize=8)


def _relative(text: dict[str, Any]) -> HeatMap:
  values = np.array(text['relative'])
  shown = np.flatnonzero(values.max(0, initial=0) >= _LEAST)
  columns = [f'{text["offsets"][i]:+d}'.replace('+0', '0') for i in shown]
  rows = [str(i) for i in range(text['positions'])]
  largest = values.max(initial=0) or 1
  caption = f'To word pieces, by distance, from {_LEAST} up; strongest: {metric(largest)}'
  return _heat(caption, rows, columns, values[:, shown], largest, numbers=False)


def _example(text: dict[str, Any], example: dict[str, Any]) -> HeatMap:
  values = np.array(example['rollout'])
  inner = values[:, 1:-1]  # [CLS] and [SEP] get so much that nothing else would be seen
  largest = inner.max(initial=0) or values.max()
  rows = [f'{i} {example["pieces"][at]}' for i, at in enumerate(example['kept'])]
  caption = f'{short(example["text"])} (strongest: {metric(largest)} and more)'
  return _heat(caption, rows, example['pieces'], values, largest, numbers=False)


def _pair(example: dict[str, Any], edges: Sequence[int]) -> tuple[str, float, list[HeatMap]]:
  """Texts, label, heat maps."""
  texts = ' + '.join(short(text) for text in example['texts'])
  return texts, example['label'], _of_layers(example['attention'], example['pieces'], edges)


def _of_layers(attention: list, names: Sequence[str], edges: Sequence[int]) -> list[HeatMap]:
  """A heat map a layer and attention head; of the last layer, the first row, which alone counts."""
  there = [i for i, name in enumerate(names) if name]
  kept = [names[i] for i in there]
  lines = [sum(i < edge for i in there) for edge in edges]
  found = []
  for number, layer in enumerate(np.array(attention)):
    last = number == len(attention) - 1
    for head, scores in enumerate(layer):
      caption = f'Layer {number}' + (f', head {head}' if len(layer) > 1 else '')
      caption += ': the first row, which alone gives the score' if last else ''
      values = scores[np.ix_(there[:1] if last else there, there)]
      rows = kept[:1] if last else kept
      found.append(_heat(caption, rows, kept, values, values.max(), lines))
  return found


def _heat(
  caption: str,
  rows: Sequence[str],
  columns: Sequence[str],
  values: Any,
  largest: float,
  edges: Sequence[int] = (),
  numbers: bool = True,
) -> HeatMap:
  """Values as a heat map whose strongest cells are `largest` or more; numbers are hundredths."""

  def cell(value: float, row: int, column: int) -> Cell:
    if np.isnan(value):
      return Cell(0, False, '', 'does not occur')
    opacity = round(_STRONGEST * min(1.0, abs(value) / largest), 3)
    exact = f'{rows[row]}, {columns[column]}: {value:.3f}'
    return Cell(opacity, value < 0, f'{100 * value:z.0f}' if numbers else '', exact)

  cells = [
    [cell(v, r, c) for c, v in enumerate(line)] for r, line in enumerate(np.array(values, float))
  ]
  return HeatMap(caption, rows, columns, cells, edges)


def _off_diagonal(similarity: list, edges: Sequence[int]) -> float:
  """Mean cosine of different positions of the same text."""
  values = np.array(similarity, float)
  text = np.searchsorted(edges, np.arange(len(values)), side='right')
  pairs = (text[:, None] == text) & ~np.eye(len(values), dtype=bool)
  return float(np.nanmean(values[pairs])) if pairs.any() else float('nan')
