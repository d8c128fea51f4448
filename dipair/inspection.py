"""What the kept output tokens of a student learn (the paper's §5 leaves it open), in numbers.

Dimensions: n tuples, U distinct texts of one place in the tuple, t tokens, k_i kept tokens of text
i, S = sum k_i, H encoder width, D projected width.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from common.data import batching
from common.data.examples import Example
from common.data.tokenization import Tokenizer
from common.distillation.inference import TupleScorer
from common.evaluation import metrics
from dipair.attention import AttendingEncoder, head_attention
from dipair.heads import TransformerHead
from dipair.model import DiPair

TARGETS = ('own', 'cls', 'sep', 'kept', 'other')  # what attention goes to; the first that fits
_EXAMPLES = 3  # tuples shown one by one
_PAIR_BATCH = 1024
_MOST_SCORES = 1 << 18  # b * t * t of a batch: what a layer's attention takes


class Column(NamedTuple):
  """The distinct texts of one place in the tuple, encoded.

  Attributes:
    kept: [U, k, H], the kept output tokens.
    attention: {'texts': [k] texts that are long enough; a share of rollout by `TARGETS`, [k];
      'offsets': [o] and 'relative': [k, o], rollout by distance from the own position}.
    examples: [{'pieces': [t], 'rollout': [k, t]}] of the first texts; k as far as the text goes.
  """

  kept: np.ndarray
  attention: dict[str, Any]
  examples: list[dict[str, Any]]


def inspect(
  scorer: TupleScorer, examples: Sequence[Example], task: str, names: Sequence[str]
) -> dict[str, Any]:
  """All numbers of an inspection.

  Args:
    scorer: Of a DiPair student.
    examples: Labelled tuples; the first few are shown one by one.
    task: Of the labels.
    names: Of the texts of a tuple.

  Returns:
    JSON values. For each text in `texts`: name, positions, `attention` and `examples` as of
    `Column`. `metric`: name, `all`, and without or with only a position of a text, [k_i] a text.
    `similarity` [S, S] and `norms` [S]. `head`, unless feed-forward: `mean` [layers, heads, S, S]
    and `examples`, [layers, heads, S, S] each, with the `pieces` [S] at their positions.
  """
  model = scorer.model
  places, index = distinct_texts(examples)
  columns = [encode(model, scorer.tokenizer, list(t), i, names[i]) for i, t in enumerate(places)]
  kept = [column.kept for column in columns]
  labels = np.array([example.label for example in examples])
  vectors = [project(x).numpy() for project, x in zip(model.projections, kept, strict=True)]
  cosines, norms = similarity(vectors, index)
  found = {
    'tuples': len(examples),
    'texts': [
      {'name': name, 'distinct': len(c.kept), 'attention': c.attention, 'examples': c.examples}
      for name, c in zip(names, columns, strict=True)
    ],
    'metric': removal(scorer, kept, index, task, labels),
    'similarity': cosines.tolist(),
    'norms': norms.tolist(),
  }
  if isinstance(model.head, TransformerHead):
    shown = [
      {'texts': e.texts, 'label': e.label, 'pieces': pieces, 'attention': attention.tolist()}
      for e, row in zip(examples[:_EXAMPLES], index, strict=False)
      for attention in [head_attention(model, *(v[r] for v, r in zip(vectors, row, strict=True)))]
      for pieces in [_kept_pieces(columns, row)]
    ]
    found['head'] = {'mean': mean_head_attention(model, vectors, index).tolist(), 'examples': shown}
  return found


def distinct_texts(examples: Sequence[Example]) -> tuple[list[dict[str, int]], np.ndarray]:
  """{text: row} of each place in the tuple, and the tuples' row numbers, [n, places]."""
