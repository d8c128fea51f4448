"""Cost of scoring many pairs, by the head and by cross-encoders: time, machines, storage, money.

  python -m benchmarks.cost --pairs=1e9,1e12 --lefts=1e6 --rights=1e7 \\
    --output=benchmarks/results/cost.json --picture=docs/explanation/cost.svg

Arithmetic on measured rates (benchmarks/results: scoring.json, homedepot.json, score_job.json,
peers.json) and on the flags' assumptions, all of which is printed. A rate is a core's; the head's
is the scoring job's. More cores are taken to be as many times as fast, since nothing is shared but
the reading of files. Cross-encoders take 128 tokens a pair: MiniLM-L6, the default teacher, and
BERT-base.
"""

import dataclasses
import math
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from benchmarks import committed
from common import flags
from common.evaluation.cells import digits
from common.evaluation.tables import Table
from common.vectors.values import DTYPES

_ENCODER = 'litert-int8'
_TEACHER = 'MiniLM-L6 cross-encoder, 128 tokens'
_IN_INT8 = f'{_TEACHER}, int8'
_BASELINE = 'BERT-base cross-encoder, 128 tokens'
_COLORS = {0: '#1d4ed8', 1: '#c2570c', 3: '#6b7280'}  # by row of `costs`
_RATES = (  # titles and sources of the fields of `Rates`
  ('job, pairs/s a core', 'score_job.json: the head in int8, and all around it'),
  ('MiniLM-L6, pairs/s a core', f'scoring.json, {_TEACHER}'),
  (
    'the same in int8',
    "as many times that as peers.json has of a run's teacher, on another machine and shorter pairs",
  ),
  ('BERT-base, pairs/s a core', f'scoring.json, {_BASELINE}'),
  ('texts/s a core', f'homedepot.json, {_ENCODER}: titles, lefts taken as these'),
)


@dataclasses.dataclass(frozen=True)
class CostConfig:
  """Assumptions."""

  pairs: tuple[float, ...] = flags.option((1e9, 1e12), 'pairs to be scored', bounds=(1, 10**18))
  lefts: float = flags.option(1e6, 'distinct left texts, each encoded once', bounds=(1, 10**18))
  rights: float = flags.option(1e7, 'distinct right texts, each encoded once', bounds=(1, 10**18))
  left_tokens: int = flags.option(
    4, 'vectors kept of a left text: N of the measured head', bounds=(1, 8192)
  )
  right_tokens: int = flags.option(
    8, 'vectors kept of a right text: M of the measured head', bounds=(1, 8192)
  )
  dim: int = flags.option(256, 'width of a vector: D of the measured head', bounds=(1, 16_384))
  hours: float = flags.option(24.0, 'hours in which it is to be done', bounds=(0.01, 10**6))
  core_hour_usd: float = flags.option(
    0.05,
    "price of a core with its memory: a round number; put in your provider's",
    bounds=(0, 1000),
  )
  written_bytes: float = flags.option(
    0.0,
    'bytes of a pair in Parquet; 0: as score_job.json has it, ids of 13 bytes',
    bounds=(0, 10**6),
  )
  output: str = flags.option('', 'JSON file of the figures')
  picture: str = flags.option('', 'SVG file: hours over pairs, also with ten times the texts')


@dataclasses.dataclass(frozen=True)
class Rates:
  """Rates of one core."""

  pairs: float  # a second, in the job
  teacher_pairs: float
  int8_teacher_pairs: float
  baseline_pairs: float
  texts: float  # encoded a second


def main(config: CostConfig) -> None:
  """Computes, prints, writes."""
  asked, (config, rates) = config, measured(config)
  assumed = [
    [f'--{field.name}', _plain(getattr(config, field.name)), field.metadata['help']]
    for field in dataclasses.fields(config)
    if field.name not in ('output', 'picture')
  ]
  assumed += [
    [title, digits(rate), source]
    for (title, source), rate in zip(_RATES, dataclasses.astuple(rates), strict=True)
  ]
  rows = [row for pairs in config.pairs for row in costs(pairs, config, rates)]
  stores = [stored(dtype, config) for dtype in DTYPES]
  tables = [costs_table(rows, config), stores_table(stores)]
  for table in (Table('', ['Assumed or measured', '', ''], assumed), *tables):
    print(f'{table}\n')
  if config.output:
    committed.write(
      config.output,
      'benchmarks.cost',
      asked,
      assumed=dataclasses.asdict(config),
      rates=dataclasses.asdict(rates),
      rows=rows,
      stores=stores,
      tables=[table._asdict() for table in tables],
    )
  if config.picture:
    draw(config, rates, config.picture)


def measured(config: CostConfig) -> tuple[CostConfig, Rates]:
  """The config with nothing left open, and the rates."""
  scoring, encoding, scored = (
    committed.read(name) for name in ('scoring', 'homedepot', 'score_job')
  )
  job = scored['rows'][-1]  # of the most pairs
  written = config.written_bytes or round(job['written_bytes_per_pair'], 1)
  config = dataclasses.replace(config, written_bytes=written)
  speed = {row['name']: row['pairs_per_second'] for row in scoring['rows']}
  texts = next(r['texts_per_second'] for r in encoding['encoders'] if r['name'] == _ENCODER)
  cores = scoring['environment']['cores']
  of = {row['name']: row.get('pairs_per_second', 0) for row in committed.read('peers')['rows']}
  exact, int8 = (of[f"DiPair's teacher, {runtime}"] for runtime in ('tensorflow', 'litert-int8'))
  return config, Rates(
    job['pairs_per_second'] / scored['environment']['cores'],
    speed[_TEACHER] / cores,
    speed[_TEACHER] / cores * int8 / exact,
    speed[_BASELINE] / cores,
    texts / encoding['environment']['cores'],
  )


def costs(pairs: float, config: CostConfig, rates: Rates) -> list[dict[str, Any]]:
  """Costs of the head, its texts' encoding included, and of the cross-encoders, which have none.

  core hours = pairs / (pairs/s of a core) / 3,600, + texts / (texts/s of a core) / 3,600
  """
  encoding = (config.lefts + config.rights) / rates.texts / 3600
  found = []
  for name, rate, encoded in (
    ('DiPair, int8', rates.pairs, encoding),
    (_IN_INT8, rates.int8_teacher_pairs, 0.0),
    (_TEACHER, rates.teacher_pairs, 0.0),
    (_BASELINE, rates.baseline_pairs, 0.0),
  ):
    hours = pairs / rate / 3600 + encoded
    found.append(
      {
        'name': name,
        'pairs': pairs,
        'encoding_core_hours': encoded,
        'core_hours': hours,
        'cores': math.ceil(hours / config.hours),
        'usd': hours * config.core_hour_usd,
        'written_bytes': pairs * config.written_bytes,
      }
    )
  # A join moves the stores once, and then at the most both texts' vectors for each pair.
  of = stored('int8', config)
  found[0]['joined_bytes'] = of['bytes'] + pairs * (of['left_bytes'] + of['right_bytes'])
  return found


def stored(dtype: str, config: CostConfig) -> dict[str, Any]:
  """Bytes of the stores, as `common.vectors.store` has them."""
  width = {'float32': 4 * config.dim, 'float16': 2 * config.dim, 'int8': config.dim + 4}[dtype]
  left, right = config.left_tokens * width, config.right_tokens * width
  total = config.lefts * left + config.rights * right
  return {'dtype': dtype, 'left_bytes': left, 'right_bytes': right, 'bytes': total}


def costs_table(rows: list[dict[str, Any]], config: CostConfig) -> Table:
  """A row a model and number of pairs."""
  headers = ['', 'pairs', 'one core', 'of it encoding', f'cores for {config.hours:g} h', 'USD']
  headers += ['scores written', 'moved by `--join`, at most']
  cells = [
    [row['name'], _plain(row['pairs']), _time(row['core_hours'])]
    + [_time(row['encoding_core_hours']), digits(row['cores']), digits(row['usd'])]
    + [_size(row['written_bytes']), _size(row.get('joined_bytes', 0))]
    for row in rows
  ]
  note = f'{_plain(config.lefts)} left and {_plain(config.rights)} right texts, encoded once. '
  return Table(f'{note}USD: at {config.core_hour_usd:g} a core and hour.', headers, cells)


def stores_table(stores: list[dict[str, Any]]) -> Table:
  """A row a dtype."""
  cells = [
    [s['dtype'], f'{s["left_bytes"]:,}', f'{s["right_bytes"]:,}', _size(s['bytes'])] for s in stores
  ]
  return Table('', ['vectors in', 'bytes a left text', 'bytes a right text', 'all'], cells)


def draw(config: CostConfig, rates: Rates, path: str) -> None:
  """Core-hours over pairs, both in powers of ten; the student's also with ten times the texts."""
  figure = Figure(figsize=(8, 4.5), layout='constrained')
  axes = figure.add_subplot(xscale='log', yscale='log', xlabel='pairs', ylabel='hours of one core')
  pairs = np.logspace(6, 12, 61)
  more = dataclasses.replace(config, lefts=10 * config.lefts, rights=10 * config.rights)
  texts = config.lefts + config.rights
  for own, row, style, of in (
    (config, 3, '-', ''),
    (config, 1, '-', ''),
    (config, 0, '-', f', {_plain(texts)} texts'),
    (more, 0, '--', f', {_plain(10 * texts)} texts'),
  ):
    rows = [costs(count, own, rates)[row] for count in pairs]
    hours, name = [row['core_hours'] for row in rows], rows[0]['name']
    axes.plot(pairs, hours, style, color=_COLORS[row], label=name + of)
  axes.spines[['top', 'right']].set_visible(False)
  axes.grid(color='#c3cad2', alpha=0.4)
  axes.legend(frameon=False)
  figure.savefig(path, format='svg', metadata={'Date': None})


def _plain(value: Any) -> str:
  if isinstance(value, tuple):
    return ', '.join(map(_plain, value))
  if isinstance(value, float) and value >= 1e6:
    mantissa, exponent = f'{value:.3e}'.split('e')
    front = f'{float(mantissa):g}'
    return (f'{front} · ' if front != '1' else '') + '10' + str(int(exponent)).translate(_RAISED)
  return f'{value:g}'


_RAISED = str.maketrans('0123456789', '⁰¹²³⁴⁵⁶⁷⁸⁹')


def _time(hours: float) -> str:
  if hours >= 24 * 365:
    return f'{digits(hours / 24 / 365)} years'
  return f'{digits(hours / 24)} days' if hours >= 48 else f'{digits(hours)} h' if hours else 'none'


def _size(count: float) -> str:
  for unit in ('bytes', 'kB', 'MB', 'GB'):
    if count < 1000:
      return f'{digits(count)} {unit}' if count else ''
    count /= 1000
  return f'{digits(count)} TB' if count < 1000 else f'{digits(count / 1000)} PB'


if __name__ == '__main__':
  flags.command(main, CostConfig)
