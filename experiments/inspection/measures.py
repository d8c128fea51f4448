"""Numbers on what a student's kept tokens learn (the paper's §5 leaves it open).

Dimensions: n tuples, U_i distinct texts of slot i, k_i kept tokens of text i, S = sum k_i, H
encoder width, D projected width, h attention heads of the head.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from common.data.records import RecordSet
from common.data.tokens import tables_of
from common.distillation.inference import TupleScorer
from common.evaluation import metrics
from dipair.student import DiPair
from experiments.inspection.attended_texts import AttendedTexts, attend
from experiments.inspection.attention import head_attention

SHOWN = 3  # tuples shown one by one, and at least as many texts of each slot
_BATCH = 1024  # tuples


def inspect(
  scorer: TupleScorer, records: RecordSet, chosen: np.ndarray, task: str, names: Sequence[str]
) -> dict[str, Any]:
  """Figures of the kept tokens of chosen tuples.

  Args:
    scorer: Scorer of a DiPair student.
    records: Labelled tuples.
    chosen: [n] rows of those looked at; the first are shown one by one.
    task: Kind of the labels: 'regression', 'binary' or 'multiclass'.
    names: Names of a tuple's texts.

  Returns:
    JSON values: `tuples`; `token_selection`, the student's; `texts`, a slot each, as in
    `AttendedTexts` without the tokens themselves; `metric` as from `removal`; `similarity` [S, S]
    and `norms` [S]; and, for a head that attends, `head`: `mean` [layers, h, S, S] and `examples`,
    each with `attention` of that shape and the word `pieces` [S] at its positions ('' past a text's
    end).
  """
  model: Any = scorer.model
  all_tuples = records.tuples()
  tuples, labels = all_tuples.items[chosen], all_tuples.labels[chosen]
  attended, columns = [], []
  for slot, table in enumerate(tables_of(records, scorer.tokenizer)):
    items, firsts, rows = np.unique(tuples[:, slot], return_index=True, return_inverse=True)
    order = np.argsort(firsts, kind='stable')  # first seen first, as the first ones are shown
    texts = list(records.items(slot).texts(items[order[:SHOWN]]))
    attended.append(attend(model, table, items[order], texts, slot, names[slot]))
    columns.append(np.argsort(order)[rows.reshape(-1)])
  index = np.stack(columns, 1)
  tokens = [column.kept for column in attended]
  vectors = [model.vectors(tf.constant(x), slot).numpy() for slot, x in enumerate(tokens)]
  cosines, norms = similarity(vectors, index)
  found = {
    'tuples': len(chosen),
    'token_selection': model.config.token_selection,
    'texts': [
      {'name': name, 'distinct': len(column.kept), **_values(column)}
      for name, column in zip(names, attended, strict=True)
    ],
    'metric': removal(scorer, tokens, index, task, labels),
    'similarity': _rounded(cosines),
    'norms': _rounded(norms),
  }
  if model.head.attends:
    found['head'] = {
      'mean': _rounded(mean_head_attention(model, vectors, index)),
      'examples': [
        {
          'texts': texts,
          'label': float(label),
          'pieces': [
            piece for c, row in zip(attended, rows, strict=True) for piece in _kept(c, row)
          ],
          'attention': _rounded(
            head_attention(model, *(v[row] for v, row in zip(vectors, rows, strict=True)))
          ),
        }
        for texts, label, rows in zip(records.texts(chosen[:SHOWN]), labels, index, strict=False)
      ],
    }
  return found


def removal(
  scorer: TupleScorer,
  tokens: Sequence[np.ndarray],
  index: np.ndarray,
  task: str,
  labels: np.ndarray,
) -> dict[str, Any]:
  """The task's own metric without each position, and with it as the only one of its text.

  Args:
    scorer: Scorer of a DiPair student.
    tokens: [U_i, k_i, H] a slot; a position is removed as all-zero rows, which the head masks.
    index: [n, slots], row numbers into them.
    task: Kind of the labels: 'regression', 'binary' or 'multiclass'.
    labels: [n].

  Returns:
    {'name' of the metric, its value with 'all', 'without' and 'only': [k_i] a slot}.
  """
  name = metrics.primary_metric(task)

  def score(slot: int, present: np.ndarray) -> float:
    changed = list(tokens)
    changed[slot] = tokens[slot] * present[:, None].astype(np.float32)
    bar.update()
    return metrics.evaluate(task, labels, scorer.head_logits(changed, index))[name]

  found: dict[str, Any] = {'name': name, 'without': [], 'only': []}
  with tqdm(total=1 + 2 * sum(x.shape[1] for x in tokens), desc='positions') as bar:
    found['all'] = score(0, np.ones(tokens[0].shape[1]))
    for slot, slot_tokens in enumerate(tokens):
      alone = np.eye(slot_tokens.shape[1])
      found['without'].append([score(slot, 1 - row) for row in alone])
      found['only'].append([score(slot, row) for row in alone])
  return found


def similarity(vectors: Sequence[np.ndarray], index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Mean cosine between the positions of a tuple, and each position's mean norm.

  Args:
    vectors: [U_i, k_i, D] a slot.
    index: [n, slots], row numbers into them.

  Returns:
    [S, S] and [S]: means over the tuples where the positions are; nan where there are none.
  """
  length = sum(x.shape[1] for x in vectors)
  cosines, pairs = np.zeros([length, length]), np.zeros([length, length])
  lengths = np.zeros(length)
  for batch in _tuples(vectors, index):
    x = np.concatenate(batch, axis=1)  # [b, S, D]
    norms = np.linalg.norm(x, axis=-1)  # [b, S]
    there = (norms > 0).astype(float)
    unit = x / np.where(norms > 0, norms, 1)[..., None]
    cosines += np.einsum('bid,bjd->ij', unit, unit, optimize=True)
    pairs += there.T @ there
    lengths += norms.sum(0)
  with np.errstate(invalid='ignore'):
    return cosines / pairs, lengths / np.diag(pairs)


def mean_head_attention(
  model: DiPair, vectors: Sequence[np.ndarray], index: np.ndarray
) -> np.ndarray:
  """Attention of each position in the head: [layers, h, S, S].

  Args:
    model: A student whose head attends.
    vectors: [U_i, k_i, D] a slot.
    index: [n, slots], row numbers into them.

  Returns:
    Means over the tuples where the attending position is; their rows add up to one.
  """
  total, count = 0.0, 0.0
  for batch in _tuples(vectors, index, 'head'):
    there = np.concatenate([x.any(-1) for x in batch], axis=1).astype(np.float32)  # [b, S]
    attention = head_attention(model, *batch)  # [b, layers, h, S, S]
    total += np.einsum('blhqs,bq->lhqs', attention, there)
    count += there.sum(0)
  return total / np.maximum(count, 1)[:, None]


def _tuples(
  vectors: Sequence[np.ndarray], index: np.ndarray, progress: str = ''
) -> Iterator[list[np.ndarray]]:
  """Batches of tuples: [b, k_i, D] a slot."""
  for start in tqdm(range(0, len(index), _BATCH), desc=progress, disable=not progress):
    yield [x[index[start : start + _BATCH, i]] for i, x in enumerate(vectors)]


def _values(column: AttendedTexts) -> dict[str, Any]:
  """Texts without their tokens, as JSON values."""
  return {
    'positions': len(column.reached),
    'reached': column.reached.tolist(),
    'shares': {name: _rounded(share) for name, share in column.shares.items()},
    'offsets': column.offsets.tolist(),
    'relative': _rounded(column.relative),
    'examples': [{**e, 'rollout': _rounded(e['rollout'])} for e in column.examples],
  }


def _kept(column: AttendedTexts, row: int) -> list[str]:
  """The word pieces at an example's kept positions, '' past its end."""
  example = column.examples[row]
  pieces = [example['pieces'][position] for position in example['kept']]
  return pieces + [''] * (len(column.reached) - len(pieces))


def _rounded(values: np.ndarray) -> list:
  return np.round(np.asarray(values, np.float64), 5).tolist()
