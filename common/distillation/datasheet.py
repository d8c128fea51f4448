"""What a mined task holds: leak check and examples from its files, histograms, a picture."""

import itertools
import json
import os
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from tqdm import tqdm

from common.data import tables
from common.evaluation import metrics

BINS = 100  # of 0.02, from -1 to 1
_EDGES = np.linspace(-1, 1, BINS + 1)
_COLORS = {
  'positive': '#1d4ed8',
  'negative': '#c2570c',
  'nearest': '#57606a',
  'transfer': '#0f8a5f',
}
_EXAMPLES = 3


def counts(values: np.ndarray) -> np.ndarray:
  """How many inner products are in each of the bins."""
  return np.histogram(np.clip(values, -1, 1), _EDGES)[0]


def histogram(values: np.ndarray) -> list[int]:
  """`counts`, as JSON has them."""
  return counts(values).tolist()


def describe(paths: dict[str, str], block: int) -> dict[str, Any]:
  """Reads the files back: what they share, how well similarity alone tells labels, examples.

  Args:
    paths: By name: training set, validation set, test set, transfer set.
    block: Rows of the last that stay together in training.

  Returns:
    {'shared': {'queries', 'pairs', 'passages': {'a, b': count}}, 'similarity_auc_roc': on test,
    'block': {'pairs', 'texts': most distinct queries and passages of one}, 'examples': by file}.
    A held-out query in another file is a leak; passages are the corpus and may be shared.
  """
  train, valid, test, transfer = paths
  held: dict[str, dict[str, set[int]]] = {}
  shared: dict[str, dict[str, int]] = {kind: {} for kind in ('queries', 'pairs', 'passages')}
  examples, most = {}, [0, 0]
  labels, scores = [], []
  for name in (test, valid, train, transfer):
    own: dict[str, set[int]] = {kind: set() for kind in shared}
    common = {other: {kind: set() for kind in shared} for other in held}
    rows, path = 0, paths[name]
    seen: tuple[set[str], set[str]] = (set(), set())
    for row in tqdm(_rows(path), desc=f'check {name}', unit=' rows'):
      query, passage = tables.hash64(row['query'].casefold()), tables.hash64(row['passage'])
      keys = {'queries': query, 'passages': passage, 'pairs': hash((query, passage))}
      for kind, key in keys.items():
        for other, texts in held.items():
          if key in texts[kind]:
            common[other][kind].add(key)
        if name in (valid, test):
          own[kind].add(key)
      if name == test:
        labels.append(row['label'])
        scores.append(row['similarity'])
      if name == transfer:
        seen[0].add(row['query'])
        seen[1].add(row['passage'])
        rows += 1
        most = [max(a, len(b)) for a, b in zip(most, seen, strict=True)]
        if rows % block == 0:
          seen = (set(), set())
    for other, kinds in common.items():
      for kind, keys_shared in kinds.items():
        shared[kind][f'{name}, {other}'] = len(keys_shared)
    if name in (valid, test):
      held[name] = own
    examples[name] = list(itertools.islice(_rows(path), _EXAMPLES))
  logits = np.array(scores)[:, None]
  auc_roc = metrics.evaluate('binary', np.array(labels, float), logits)['auc_roc']
  return {
    'shared': shared,
    'similarity_auc_roc': auc_roc,
    'block': {'pairs': block, 'texts': most},
    'examples': examples,
  }


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
    f'shared {kind}: '
    + ', '.join(f'{between} {count:,}' for between, count in shared[kind].items())
    for kind in shared
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
    figure.savefig(f'{path}.tmp', format='svg', metadata={'Date': None})
  os.replace(f'{path}.tmp', path)


def _rows(path: str):
  with open(path, encoding='utf-8') as file:
    yield from map(json.loads, file)
