"""The tables of `benchmarks.peers`: encoders, and scorers of pairs, theirs and ours."""

from typing import Any

from common.evaluation.cells import digits, times
from common.evaluation.tables import Table

KINDS = ('encoding', 'pairs', 'stored')  # texts; pairs from their text; pairs of stored vectors
_DTYPES = ('float32', 'int8')


def peers(made: dict[str, Any]) -> list[Table]:
  """Encoders of texts, and scorers of pairs.

  Args:
    made: 'rows' with 'kind', 'name', and what is known of 'pairs_per_second', 'least', 'most',
      'batch_size', 'bytes' of a right text by dtype and 'test' (Pearson); 'counts', 'versions' and
      'quantized'.
  """
  encoding, pairs, stored = ([r for r in made['rows'] if r['kind'] == kind] for kind in KINDS)
  batch = 'batch', [str(row['batch_size']) for row in encoding]
  scorers = [*pairs, *stored]
  sizes = [[f'{r["bytes"][d]:,.0f}' if 'bytes' in r else '' for r in scorers] for d in _DTYPES]
  max_sim = [row for row in stored if row['name'].startswith('MaxSim')]
  against = '× MaxSim', ['' if row in pairs else _times(row, max_sim[0]) for row in scorers]
  of_bytes = zip(('bytes a title, float32', 'int8'), sizes, strict=True)
  counts = made['counts']
  versions = ', '.join(f'{name} {version}' for name, version in made['versions'].items())
  encoded = f'{counts["texts"]:,} titles, {counts["threads"]} cores. {versions}; int8 of theirs: '
  scored = f'{counts["pairs"]:,} pairs from their text; {counts["candidates"]:,} stored titles for '
  return [
    _table(f'{encoded}{made["quantized"]}.', encoding, batch),
    _table(f'{scored}each of {counts["queries"]:,} queries.', scorers, against, *of_bytes),
  ]


def _table(note: str, rows: list[dict[str, Any]], *columns: tuple[str, list[str]]) -> Table:
  """Speeds, as multiples of the first row's too, then other columns, and the metric."""
  headers = ['', 'per second', 'range', f'× {rows[0]["name"]}', *(name for name, _ in columns)]
  cells = []
  for number, row in enumerate(rows):
    speed = digits(row['pairs_per_second']) if 'pairs_per_second' in row else ''
    span = f'{digits(row["least"])} to {digits(row["most"])}' if speed else ''
    test = f'{row["test"]:.3f}' if 'test' in row else ''
    more = [column[number] for _, column in columns]
    cells.append([row['name'], speed, span, _times(row, rows[0]), *more, test])
  return Table(note, [*headers, 'Pearson'], cells)


def _times(row: dict[str, Any], base: dict[str, Any]) -> str:
  """A row's speed as a multiple of another's; empty where it was not measured."""
  rate = row.get('pairs_per_second')
  return times(rate / base['pairs_per_second']) if rate else ''
