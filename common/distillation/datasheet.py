"""Datasheet of a mined task: leak check and examples of its sets, histograms, a picture."""

import itertools
from collections.abc import Callable
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from common import files
from common.data.records import RecordSet
from common.data.texts import hash64
from common.data.tuples import Tuples
from common.evaluation import metrics

SHEET, PICTURE = 'datasheet.json', 'scores.svg'
LONG = ('flags', 'examples', 'histograms')  # fields that a stage's result leaves out
BINS = 100  # of 0.02, from -1 to 1
_EDGES = np.linspace(-1, 1, BINS + 1)
_COLORS = {
  'positive': '#1d4ed8',
  'negative': '#c2570c',
  'nearest': '#57606a',
  'transfer': '#0f8a5f',
}


def counts(values: np.ndarray) -> np.ndarray:
  """Number of inner products in each of the bins."""
  return np.histogram(np.clip(values, -1, 1), _EDGES)[0]


def histogram(values: np.ndarray) -> list[int]:
  """`counts`, as JSON has them."""
  return counts(values).tolist()


def describe(
  sets: dict[str, RecordSet], similarity: Callable[[np.ndarray], np.ndarray]
) -> dict[str, Any]:
  """Describes the written sets: shared items, and how well similarity alone predicts the labels.

  Args:
    sets: Record sets by name, in this order: training set, validation set, test set, transfer set.
    similarity: Inner products of pairs [n, 2] of item numbers: [n].

  Returns:
    {'shared': {'queries', 'pairs', 'passages': {'a, b': count}}, 'similarity_auc_roc': on test,
    'block': {'pairs': the most that stay together in training, 'texts': most distinct queries and
    passages of these}}. A held-out query in another set is a leak, queries alike up to case being
    one; passages are the corpus and may be shared.
  """
  train, valid, test, transfer = sets
  tuples = {name: records.tuples() for name, records in sets.items()}
  queries = [hash64(text.casefold()) for text in sets[train].items(0).texts()]
  query_of = np.unique(np.array(queries, np.uint64), return_inverse=True)[1].reshape(-1)
  passages = len(sets[train].items(1))
  shared: dict[str, dict[str, int]] = {what: {} for what in ('queries', 'pairs', 'passages')}
  held: dict[str, dict[str, np.ndarray]] = {}
  for name in (test, valid, train, transfer):
    query, passage = query_of[tuples[name].items[:, 0]], tuples[name].items[:, 1]
    keys = {'queries': query, 'passages': passage, 'pairs': query * passages + passage}
    own = {what: np.unique(numbers) for what, numbers in keys.items()}
    for other, theirs in held.items():
      for what, numbers in own.items():
        both = np.intersect1d(numbers, theirs[what], assume_unique=True)
        shared[what][f'{name}, {other}'] = len(both)
    if name in (valid, test):
      held[name] = own
  logits = similarity(tuples[test].items)[:, None]
  labels = tuples[test].labels
  return {
    'shared': shared,
    'similarity_auc_roc': metrics.evaluate('binary', labels, logits)['auc_roc'],
    'block': _largest(tuples[transfer]),
  }


def _largest(tuples: Tuples) -> dict[str, Any]:
  """The most pairs, queries and passages of a group."""
  most = [0, 0]
  for start, end in itertools.pairwise(tuples.groups):
    some = tuples.items[start:end]
    most = [max(a, len(np.unique(some[:, slot]))) for slot, a in enumerate(most)]
  return {'pairs': int(np.diff(tuples.groups).max(initial=0)), 'texts': most}


def summary(sheet: dict[str, Any]) -> str:
  """A datasheet in lines of text."""
  lines = [
    f'{sheet["queries"]:,} queries, {sheet["passages"]:,} passages, '
    f'{sheet["known"]["positive"]:,} matches; negatives are below {sheet["threshold"]:.3g}'
  ]
  for split, counts in sheet['splits'].items():
    lines.append(f'{split}: ' + ', '.join(f'{value:,} {name}' for name, value in counts.items()))
  transfer, shared = sheet['transfer'], sheet['shared']
  lines.append(f'transfer: {transfer["pairs"]:,} pairs of {transfer["queries"]:,} queries')
  lines += [
    f'shared {what}: '
    + ', '.join(f'{between} {count:,}' for between, count in shared[what].items())
    for what in shared
  ]
  lines.append(f'AUC-ROC of the similarity alone on test: {sheet["similarity_auc_roc"]:.3f}')
  return '\n'.join(lines)


def draw(histograms: dict[str, list[int]], threshold: float, path: str) -> None:
  """Draws the histograms as shares, and the threshold of the negatives."""
  with matplotlib.rc_context({'svg.hashsalt': 'datasheet', 'legend.frameon': False}):
    figure = Figure(figsize=(7, 3.6), layout='constrained')
    axes = figure.add_subplot(xlabel='inner product of query and passage', ylabel='share of pairs')
    for name, values in histograms.items():
      share = np.array(values) / max(1, sum(values))
      label = f'{name} ({sum(values):,})'
      axes.stairs(share, _EDGES, color=_COLORS[name], label=label, linewidth=1.6)
    axes.axvline(threshold, color='#57606a', linestyle=':', label=f'threshold {threshold:.3g}')
    filled = np.flatnonzero(np.sum(list(histograms.values()), axis=0))
    axes.set_xlim(_EDGES[filled[0]] - 0.04, _EDGES[filled[-1] + 1] + 0.04)
    axes.spines[['top', 'right']].set_visible(False)
    axes.legend()
    with files.whole(path) as temporary:
      figure.savefig(temporary, format='svg', metadata={'Date': None})
