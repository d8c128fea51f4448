"""Numbers on what a finished run's output tokens learn (the DiPair paper's §5 leaves it open).

  python -m experiments.inspect --run_dir=runs/p2t --output=inspect.json

Of each kept position: the test metric without it, and with it as the only one of its text, and
where its attention rollout ends. Then the mean cosine between positions, and the head's attention.

Dimensions: n tuples, U_i distinct texts of slot i, k_i kept tokens of text i, S = sum k_i, b of a
batch, t tokens, H encoder width, D projected width, h attention heads of the head.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from common import flags
from common.data import batching
from common.data.records import RecordSet
from common.data.tokens import TokenTable, tables_of
from common.distillation import provenance
from common.distillation.inference import TupleScorer
from common.errors import InputError
from common.evaluation import metrics
from common.evaluation.cells import label, metric
from common.evaluation.results import finite
from common.evaluation.tables import Table
from common.files import write_json
from common.training import strategies
from dipair.heads.transformer import TransformerHead
from dipair.student import DiPair
from experiments.attention import Attended, AttendingEncoder, head_attention
from experiments.finished_run import FinishedRun

# What an input token is to a kept one, the first that fits: itself, [CLS], [SEP], another kept one.
TARGETS = ('own', 'cls', 'sep', 'kept', 'other')
_MOST_SCORES = 1 << 18  # b * t * t of a batch; an encoder gives as many for each layer and head
_BATCH = 1024  # tuples


@dataclasses.dataclass(frozen=True)
class InspectConfig:
  """The run to inspect, and the file of its numbers."""

  run_dir: str = flags.option('', 'a finished run of dipair.run; nothing in it is changed')
  output: str = flags.option('', 'JSON file of the numbers')
  texts: int = flags.option(
    4000, 'tuples of the test set looked at; all, if it has fewer', bounds=(1, 10**9)
  )


class AttendedTexts(NamedTuple):
  """Texts of one slot.

  Attributes:
    kept: [U, k, H], their kept output tokens; all-zero past a text's end.
    shares: {target: [k]}, how much of a kept token's rollout goes to each of `TARGETS`; the mean
      over texts that reach this far, which adds up to one.
    reached: [k], how many texts do.
  """

  kept: np.ndarray
  shares: dict[str, np.ndarray]
  reached: np.ndarray


def main(config: InspectConfig) -> None:
  """Inspects the run's student, prints the tables, writes the numbers."""
  run = FinishedRun(config.run_dir)
  strategy = strategies.create(strategies.DeviceConfig())
  scorer = TupleScorer(*DiPair.load(run.path('student')), strategy)
  records = RecordSet(run.path('data/test'))
  if any(records.widths):
    raise InputError(f'--run_dir={config.run_dir}: holds vectors in place of texts, and no tokens')
  rng = np.random.default_rng(run.flags['seed'])
  chosen = rng.choice(len(records), min(config.texts, len(records)), replace=False)
  task, names = run.results['task'], run.table.text_columns
  found = finite(inspect(scorer, records, chosen, task, names))
  for table in tables(found):
    print(f'{table}\n')
  if config.output:
    about = {
      'title': run.results['title'],
      'command': flags.command_line('experiments.inspect', flags.changed(config)),
      'commit': provenance.commit(),
    }
    write_json(config.output, {**about, **found})


def inspect(
  scorer: TupleScorer, records: RecordSet, chosen: np.ndarray, task: str, names: Sequence[str]
) -> dict[str, Any]:
  """Figures of the kept tokens of chosen tuples.

  Args:
    scorer: Scorer of a DiPair student.
    records: Labelled tuples.
    chosen: [n] rows of the tuples to look at.
    task: Kind of the labels: 'regression', 'binary' or 'multiclass'.
    names: Names of a tuple's texts.

  Returns:
    JSON values: `tuples`; `texts`, a slot each: its 'name', how many are 'distinct', 'reached' and
    'shares' as in `AttendedTexts`; `metric` as from `removal`; `similarity` [S, S] and `norms`
    [S]; and, for a head that attends, its mean attention `head` [layers, h, S, S].
  """
  model: Any = scorer.model
  every = records.tuples()
  tuples, labels = every.items[chosen], every.labels[chosen]
  attended, columns = [], []
  for slot, table in enumerate(tables_of(records, scorer.tokenizer)):
    items, rows = np.unique(tuples[:, slot], return_inverse=True)
    attended.append(attend(model, table, items, slot, names[slot]))
    columns.append(rows.reshape(-1))
  index = np.stack(columns, 1)
  tokens = [of_slot.kept for of_slot in attended]
  vectors = [model.vectors(tf.constant(x), slot).numpy() for slot, x in enumerate(tokens)]
  cosines, norms = similarity(vectors, index)
  found = {
    'tuples': len(chosen),
    'texts': [
      {
        'name': name,
        'distinct': len(of_slot.kept),
        'reached': of_slot.reached.tolist(),
        'shares': {target: _rounded(share) for target, share in of_slot.shares.items()},
      }
      for name, of_slot in zip(names, attended, strict=True)
    ],
    'metric': removal(scorer, tokens, index, task, labels),
    'similarity': _rounded(cosines),
    'norms': _rounded(norms),
  }
  if isinstance(model.head, TransformerHead):
    found['head'] = _rounded(mean_head_attention(model, vectors, index))
  return found


def attend(
  model: DiPair, table: TokenTable, items: np.ndarray, slot: int, progress: str
) -> AttendedTexts:
  """Encodes texts of one slot with their attention.

  Args:
    model: The student.
    table: Word pieces of the slot's items.
    items: [U] the items that are encoded.
    slot: The texts' place in a tuple.
    progress: The bar's name.
  """
  encoder, most = AttendingEncoder(model, slot), model.max_lengths[slot]
  k, width = model.feature_shape(slot)
  kept, reached = np.zeros([len(items), k, width], np.float32), np.zeros(k, int)
  sums = np.zeros([len(TARGETS), k])
  batch_size = max(1, min(128, _MOST_SCORES // most**2))
  lengths = batching.bucket_lengths(most)
  sizes = np.minimum(table.sizes(items) + 2, most)
  with tqdm(total=len(items), desc=progress, unit=' texts') as bar:
    for rows in batching.longest_first(sizes, batch_size):
      length = batching.bucket_of(lengths, sizes[rows[0]])
      attended = encoder(tf.constant(table.padded(items[rows], most, length)))
      kept[rows], size = attended.kept, sizes[rows]
      reached += (attended.positions < size[:, None]).sum(0)
      sums += _by_target(attended, size)
      bar.update(len(rows))
  return AttendedTexts(
    kept, dict(zip(TARGETS, sums / np.maximum(reached, 1), strict=True)), reached
  )


def _by_target(attended: Attended, size: np.ndarray) -> np.ndarray:
  """Rollout by `TARGETS`, summed over a batch of texts of `size` [b] tokens: [targets, k]."""
  positions, rollout = attended.positions, attended.rollout
  token = np.arange(rollout.shape[-1])  # [t]
  own = token == positions[..., None]  # [b, k, t]
  first, last = token == 0, token == size[:, None] - 1  # [t], [b, t]
  target = np.full(rollout.shape, TARGETS.index('other'))
  for name, where in (
    ('kept', own.any(1)[:, None]),
    ('sep', last[:, None]),
    ('cls', first),
    ('own', own),
  ):
    target = np.where(where, TARGETS.index(name), target)
  return np.array([(rollout * (target == i)).sum((0, 2)) for i in range(len(TARGETS))])


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
    model: A student with a transformer head.
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


def _rounded(values: np.ndarray) -> list:
  return np.round(np.asarray(values, np.float64), 5).tolist()


def tables(found: dict[str, Any]) -> list[Table]:
  """Figures of `inspect` as tables: positions, similarity, and the head's attention."""
  score, texts = found['metric'], found['texts']
  names = [f'{text["name"]} {i}' for text in texts for i in range(len(text['reached']))]
  columns = {
    'texts': [f'{count:,}' for text in texts for count in text['reached']],
    'without it': [metric(value) for of_slot in score['without'] for value in of_slot],
    'it alone': [metric(value) for of_slot in score['only'] for value in of_slot],
    'norm': [metric(value) for value in found['norms']],
  }
  for target in TARGETS:
    shares = [metric(share) for text in texts for share in text['shares'][target]]
    columns[f'to {target}'] = shares
  note = f'{found["tuples"]:,} tuples; {label(score["name"])} of all positions: '
  note += f'{metric(score["all"])}. To: shares of the attention rollout.'
  rows = [list(row) for row in zip(names, *columns.values(), strict=True)]
  matrices = {'Mean cosine.': found['similarity']}
  for number, layer in enumerate(found.get('head', [])):
    for head, attention in enumerate(layer):
      matrices[f'Layer {number} of the head, attention head {head}: row to column.'] = attention
  return [
    Table(note, ['position', *columns], rows),
    *(
      Table(
        title,
        ['', *names],
        [[name, *map(metric, row)] for name, row in zip(names, matrix, strict=True)],
      )
      for title, matrix in matrices.items()
    ),
  ]


if __name__ == '__main__':
  flags.command(main, InspectConfig)
