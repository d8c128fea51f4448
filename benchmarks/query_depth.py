"""The time of a query's encoding by the depth of its encoder alone (`--left_encoder_layers`).

  python -m benchmarks.query_depth --run_dir=runs/homedepot --output=benchmarks/results/query_depth.json

Students by a finished run's flags but for depths, as they start: what they learn changes no time.
"""

import dataclasses
import os
import tempfile
from collections.abc import Sequence

from tqdm import tqdm

from benchmarks import committed
from common import flags
from common.data.records import RecordSet
from common.evaluation import benchmark
from dipair.config import StudentConfig
from dipair.finished_run import FinishedRun
from dipair.scorer import Scorer
from dipair.student import DiPair
from experiments.study.speeds import ENCODERS


@dataclasses.dataclass(frozen=True)
class QueryDepthConfig:
  """The run, and the queries."""

  run_dir: str = flags.option('', 'a finished run of dipair.run')
  queries: int = flags.option(64, 'left texts of its test set', bounds=(1, 10**9))
  output: str = flags.option('', 'JSON file of the figures')


def main(config: QueryDepthConfig) -> None:
  """Measures each depth in turn, prints, writes."""
  run = FinishedRun(config.run_dir)
  queries = list(dict.fromkeys(texts[0] for texts in RecordSet(run.path('data/test')).texts()))
  depths = range(1, run.config(StudentConfig).encoder_layers + 1)
  contenders: dict[tuple[int, str], benchmark.Contender] = {}
  with tempfile.TemporaryDirectory() as folder:
    for layers in tqdm(depths, desc='export', unit=' students'):
      path = _export(run, os.path.join(folder, str(layers)), layers)
      for runtime in ENCODERS:
        scorer = Scorer.load(path, encoder_runtime=runtime)
        contenders[layers, runtime] = _one_by_one(scorer, queries[: config.queries])
    rates = benchmark.rates(list(contenders.values()))
  rows: dict[int, dict[str, float]] = {layers: {'layers': layers} for layers in depths}
  for (layers, runtime), rate in zip(contenders, rates, strict=True):
    rows[layers][runtime] = 1000 / rate['pairs_per_second']
  for layers, row in rows.items():
    times = ', '.join(f'{runtime} {row[runtime]:.2f} ms' for runtime in ENCODERS)
    print(f'layers: {layers}, {times}')
  if config.output:
    made = {'rows': list(rows.values()), 'queries': config.queries}
    committed.write(config.output, 'query_depth', config, **made)


def _export(run: FinishedRun, folder: str, layers: int) -> str:
  """A student whose left encoder has so many layers; of its right one, which is not timed, the first is enough."""
  config = run.config(StudentConfig, left_encoder_layers=layers, right_encoder_layers=1)
  widths = RecordSet(run.path('distill')).widths
  return run.export(folder, DiPair.from_pretrained(config, run.task.outputs, widths))


def _one_by_one(scorer: Scorer, queries: Sequence[str]) -> benchmark.Contender:
  """A query a call, tokenization included."""

  def encode() -> None:
    for query in queries:
      scorer.encode([query], scorer.slots[0])

  return benchmark.Contender('query', encode, len(queries))


if __name__ == '__main__':
  flags.command(main, QueryDepthConfig)
