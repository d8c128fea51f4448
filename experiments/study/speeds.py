"""Speeds of a study's students side by side: heads by runtime, cross-attention, encoders."""

from collections.abc import Sequence
from typing import Any

from common.data.records import RecordSet
from common.distillation import measure
from common.distillation.teacher import Teacher
from common.evaluation import benchmark
from common.training import strategies
from dipair.scorer import Scorer
from experiments.study.plan import Plan
from experiments.study.rows import GIVEN
from experiments.study.students import RUNTIMES, CrossStudent

INT8 = RUNTIMES[2]
ENCODERS = ('tensorflow', INT8)
REAL, BASELINE = 'real lengths', f'{benchmark.BASELINE_TOKENS} tokens'


@strategies.precision()
def measured(plan: Plan) -> dict[str, Any]:
  """Pairs per second of the shown students.

  Args:
    plan: The students, made.

  Returns:
    {'base': BERT-base's row of `benchmark.rates`, 'teacher': the teachers' on test tuples at their
    real lengths, if there are some, 'students': {name: {runtime: row}}}. A student's row has
    'ratio', to BERT-base, and a head's its metric on 'valid' and 'test'. Of cross-attention the
    runtimes are '128 tokens', as BERT-base is measured, and 'real lengths', as the teacher is.
  """
  test = RecordSet(plan.run.path('data/test'))
  contenders = {('', 'base'): benchmark.cross_encoder('BERT-base', benchmark.BERT_BASE)}
  if teachers := plan.run.teachers():
    contenders['', 'teacher'] = measure.cross_attention(teachers, test)
  for name in plan.timed:
    student = plan.students[name]
    if isinstance(student, CrossStudent):
      trained = [Teacher.load(plan.stages[name].folder)]
      contenders[name, BASELINE] = benchmark.cross_encoder(name, student.pretrained.config)
      contenders[name, REAL] = measure.cross_attention(trained, test)
      continue
    for runtime in RUNTIMES:
      scorer = Scorer.load(plan.exports[name].folder, runtime)
      contenders[name, runtime] = measure.head(name, scorer)
  rates = benchmark.rates(list(contenders.values()), rounds=plan.config.rounds)
  found: dict[str, Any] = {'students': {}}
  for (name, runtime), rate in zip(contenders, rates, strict=True):
    if not name:
      found[runtime] = rate
      continue
    ratio = rate['pairs_per_second'] / found['base']['pairs_per_second']
    own = plan.exports[name].result.by_runtime[runtime] if name in plan.exports else {}
    row = {**rate, 'ratio': ratio, **own}
    found['students'].setdefault(name, {})[runtime] = row
  return found


@strategies.precision()
def encoding(plan: Plan) -> dict[str, dict[str, float]]:
  """Texts a second that the exports of `--students` encode, tokenization included, by runtime."""
  given = [of[0] for one, rows in plan.comparisons if one.key == GIVEN for of in rows]
  names = [name for name in dict.fromkeys(given) if name in plan.exports]
  texts = list(zip(*measure.sample(RecordSet(plan.run.path('data/test'))), strict=True))
  contenders = {
    (name, runtime): _encoder(plan.exports[name].folder, runtime, texts)
    for name in names
    for runtime in ENCODERS
  }
  rates = benchmark.rates(list(contenders.values()), rounds=3, seconds=0) if contenders else []
  found: dict[str, dict[str, float]] = {name: {} for name in names}
  for (name, runtime), rate in zip(contenders, rates, strict=True):
    found[name][runtime] = rate['pairs_per_second']
  return found


def _encoder(export: str, runtime: str, texts: Sequence[Sequence[str]]) -> benchmark.Contender:
  """An export's encoders on the distinct texts of each slot."""
  scorer = Scorer.load(export, encoder_runtime=runtime)
  distinct = {slot: [*dict.fromkeys(of)] for slot, of in zip(scorer.slots, texts, strict=True)}

  def encode() -> None:
    for slot, of_slot in distinct.items():
      scorer.encode(of_slot, slot)

  return benchmark.Contender('encoder', encode, sum(map(len, distinct.values())))
