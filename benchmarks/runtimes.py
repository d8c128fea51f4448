"""Speed and quality of a student's head and encoders, by runtime, and of its vectors, by dtype.

  python -m benchmarks.runtimes --run_dir=runs/homedepot \\
    --output=runtimes.json

As the benchmark stage of a run; here of a finished run's student, exported anew.
"""

import dataclasses
import tempfile

from benchmarks import committed
from common import flags
from common.distillation import measure
from common.evaluation import report, tables
from dipair.finished_run import FinishedRun
from dipair.scorer import Scorer


@dataclasses.dataclass(frozen=True)
class RuntimesConfig:
  """The finished run to measure."""

  run_dir: str = flags.option('', 'a finished run of dipair.run')
  output: str = flags.option('', 'JSON file of the figures')


def main(config: RuntimesConfig) -> None:
  """Exports, measures, prints, writes."""
  run = FinishedRun(config.run_dir)
  with tempfile.TemporaryDirectory() as folder:
    run.export(folder)
    found = measure.of_export(
      Scorer,
      'DiPair',
      folder,
      run.path('data'),
      run.task,
      run.teachers(),
    )
  base = found.rates[0]['pairs_per_second']
  speed = [{**row, 'ratio': row['pairs_per_second'] / base} for row in found.rates]
  shown = tables.tables({**run.results, **dataclasses.asdict(found), 'speed': speed})
  for title in ('Speed', 'Stored vectors', 'Encoders'):
    print(f'{report.grid(shown[title])}\n')
  if config.output:
    rows = [*speed, *found.stored, *found.encoders]
    committed.write(config.output, 'runtimes', config, rows=rows)


if __name__ == '__main__':
  flags.command(main, RuntimesConfig)
