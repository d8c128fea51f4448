"""The table of `dipair.inspect`'s numbers: what each side's output tokens carry."""

from typing import Any

import numpy as np

from common.evaluation.tables import Table, label

_KINDS = ('without', 'only')


def tokens(made: dict[str, Any]) -> Table:
  """A row for each text's [CLS], and one for its positions after it."""
  metric, rows, first = made['metric'], [], 0
  attention = np.array(made['head']['mean']).mean(1)  # [layers, from, to]
  for slot, text in enumerate(made['texts']):
    own = slice(first, first + text['positions'])
    first = own.stop
    elsewhere = 1 - attention[:, own, own].sum(-1)  # [layers, positions]
    for name, at in (('[CLS]', slice(0, 1)), (f'2 to {text["positions"]}', slice(1, None))):
      shares = [_range(text['shares'][key][at], '.0%') for key in ('cls', 'own')]
      rows.append(
        [f'{text["name"]}, {name}', *(_range(metric[k][slot][at], '.3f') for k in _KINDS)]
        + (shares if at.start else ['', ''])
        + [_range(layer[at], '.0%') for layer in elsewhere]
      )
  cosines = np.array(made['similarity'])
  note = (
    f'On {made["tuples"]:,} test pairs, {label(metric["name"])} {metric["all"]:.3f} with all. Mean '
  )
  note += 'cosine between two positions of a text after the first: '
  note += ', '.join(
    f'{cosine:.2f} ({text["name"]})'
    for cosine, text in zip(_cosines(cosines, made['texts']), made['texts'], strict=True)
  )
  headers = ['position', 'without it', 'with it alone', 'rollout ends at [CLS]', 'at its own word']
  layers = [f"layer {n}'s attention on the other text" for n in range(1, len(attention) + 1)]
  return Table(note + '.', [*headers, *layers], rows)


def _range(values: Any, form: str) -> str:
  least, most = format(min(values), form), format(max(values), form)
  return least if least == most else f'{least} to {most}'


def _cosines(cosines: np.ndarray, texts: list[dict[str, Any]]) -> list[float]:
  found, first = [], 0
  for text in texts:
    after = cosines[first + 1 : first + text['positions'], first + 1 : first + text['positions']]
    found.append((after.sum() - len(after)) / (len(after) * (len(after) - 1)))
    first += text['positions']
  return found
