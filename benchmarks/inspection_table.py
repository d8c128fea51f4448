"""The table of `experiments.inspect`'s numbers: what each side's output tokens carry."""

from typing import Any

import numpy as np

from common.evaluation.cells import label
from common.evaluation.tables import Table

_KINDS = ('without', 'only')


def tokens(made: dict[str, Any]) -> Table:
  """A row for each text's [CLS], and one for its positions after it."""
  metric, rows, near, first = made['metric'], [], [], 0
  attention = np.array(made['head']['mean']).mean(1)  # [layers, from, to]
  cosines = np.array(made['similarity'])
  for slot, text in enumerate(made['texts']):
    own = slice(first, first + text['positions'])
    between = cosines[own, own][1:, 1:]
    cosine = between[~np.eye(len(between), dtype=bool)].mean()
    near.append(f'{cosine:.2f} ({text["name"]})')
    first = own.stop
    elsewhere = 1 - attention[:, own, own].sum(-1)  # [layers, positions]
    for name, at in (('[CLS]', slice(0, 1)), (f'2 to {text["positions"]}', slice(1, None))):
      shares = [_range(text['shares'][key][at], '.0%') for key in ('cls', 'own')]
      rows.append(
        [f'{text["name"]}, {name}', *(_range(metric[k][slot][at], '.3f') for k in _KINDS)]
        + (shares if at.start else ['', ''])
        + [_range(layer[at], '.0%') for layer in elsewhere]
      )
  note = f'On {made["tuples"]:,} test pairs, {label(metric["name"])} {metric["all"]:.3f} with all. '
  note += f'Mean cosine between two positions of a text after the first: {", ".join(near)}.'
  headers = ['position', 'without it', 'with it alone', 'rollout ends at [CLS]', 'at its own word']
  layers = [f"layer {n}'s attention on the other text" for n in range(1, len(attention) + 1)]
  return Table(note, [*headers, *layers], rows)


def _range(values: Any, form: str) -> str:
  least, most = format(min(values), form), format(max(values), form)
  return least if least == most else f'{least} to {most}'
