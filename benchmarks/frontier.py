"""Heads of many sizes for one teacher: what each scores a second, stores of a text, and gets right.

  python -m benchmarks.frontier --run_dir=runs/p2t --output=benchmarks/results/frontier.json

Each is trained on the run's distillation set as the run's own student was, exported, and measured
beside the others in one run: exact and in int8. What is trained already is not trained again. Speed is of
stored vectors; BERT-base has random weights and 128 tokens.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

from benchmarks import committed
from benchmarks.speed_tables import frontier
from common import flags
from common.distillation import measure
from common.distillation.run_folder import RunFolder
from common.evaluation import benchmark, report
from dipair.finished_run import FinishedRun
from dipair.scorer import Scorer
from experiments.study.plan import differing
from experiments.study.students import Judged, Student, Worth

_RUNTIMES = ('litert', 'litert-int8')


class Size(NamedTuple):
  """A student's sizes, by flags.

  Attributes:
    tokens: N, M.
    dim: D.
    layers: Transformer layers; none: the feed-forward head.
    inner: Width of their feed-forward, or of the feed-forward head's two layers.
    activation: Of the transformer's feed-forward.
  """

  tokens: tuple[int, int]
  dim: int
  layers: int
  inner: int
  activation: str = 'gelu'

  def __str__(self) -> str:
    head = f'{self.layers} layer{"s" * (self.layers > 1)} of' if self.layers else 'FFNN of'
    relu = ', ReLU' if self.layers and self.activation == 'relu' else ''
    return f'{"+".join(map(str, self.tokens))} tokens × {self.dim}, {head} {self.inner:,}{relu}'

  @property
  def flags(self) -> dict[str, Any]:
    """Those of the student that differ from the run's."""
    own = {'output_tokens': self.tokens, 'projection_dim': self.dim}
    if not self.layers:
      return {**own, 'head': 'ffnn', 'ffnn_dims': (self.inner, self.inner)}
    widths = {'head_layers': self.layers, 'head_inner_dim': self.inner}
    return {**own, **widths, 'head': 'transformer', 'head_activation': self.activation}


SIZES = [
  Size((1, 1), 128, 0, 128),
  Size((4, 12), 128, 0, 128),
  Size((1, 4), 64, 1, 256),
  Size((4, 12), 64, 1, 256),
  Size((4, 12), 128, 1, 1024),
  Size((4, 8), 64, 2, 256),
  Size((4, 12), 128, 2, 256),
  Size((4, 12), 128, 2, 1024),
  Size((4, 12), 128, 2, 1024, 'relu'),
  Size((4, 12), 256, 2, 1024),
  Size((8, 24), 128, 2, 1024),
]


@dataclasses.dataclass(frozen=True)
class FrontierConfig:
  """The run whose teacher all learn from."""

  run_dir: str = flags.option('runs/p2t', 'a finished run of dipair.run')
  output: str = flags.option('', 'JSON file of the figures')
  rounds: int = flags.option(5, 'rounds, of which the median is taken', bounds=(1, 1000))


def main(config: FrontierConfig) -> None:
  """Trains what is missing, measures all, prints the table, writes the file."""
  run = FinishedRun(config.run_dir)
  exports = []
  for number, size in enumerate(SIZES):
    print(f'{number + 1} of {len(SIZES)}: {size}')
    exports.append(_export(run, size))
  base = benchmark.cross_encoder('BERT-base', benchmark.BERT_BASE)
  scorers = [[Scorer.load(export, runtime) for runtime in _RUNTIMES] for export in exports]
  heads = [measure.head('', scorer) for of_size in scorers for scorer in of_size]
  base_rate, *rates = benchmark.rates([base, *heads], rounds=config.rounds)
  rows = []
  for number, (size, export) in enumerate(zip(SIZES, exports, strict=True)):
    plain = Scorer.load(export)
    of_size = dict(zip(_RUNTIMES, scorers[number], strict=True))
    worth, stored, _ = measure.compare(of_size, {'tensorflow': plain}, run.task, run.path('data'))
    own = rates[2 * number : 2 * number + 2]
    rows.append({
      'name': str(size),
      **size._asdict(),
      'bytes': {row['dtype']: sum(row['bytes'].values()) for row in stored},
      'heads': {
        runtime: {**rate, 'ratio': rate['pairs_per_second'] / base_rate['pairs_per_second'], **of}
        for runtime, rate, of in zip(_RUNTIMES, own, worth, strict=True)
      },
    })  # fmt: skip
  metric = run.results['primary_metric']
  teacher = run.results['models'][0]['test'][metric]
  made = {'metric': metric, 'teacher': teacher, 'base': base_rate, 'title': run.results['title']}
  print(report.grid(frontier({**made, 'rows': rows})))
  if config.output:
    committed.write(config.output, 'frontier', config, **made, rows=rows)


def _export(run: FinishedRun, size: Size) -> str:
  """The export of a student of that size, trained first where there is none."""
  folder = RunFolder(run.path('frontier'), FrontierConfig(), 'benchmarks.frontier', redo=False)
  student = Student(run, differing(run, size.flags), folder.file('features'))
  trained = folder.stage(student.name, Judged, student.make, student.depends_on)
  work = functools.partial(student.export, trained.folder)
  exported = folder.stage(f'{student.name}.export', Worth, work, {}, after=[trained])
  folder.make()
  return exported.folder


if __name__ == '__main__':
  flags.command(main, FrontierConfig)
