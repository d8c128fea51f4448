"""Speeds of a study's students side by side: heads by runtime, cross-attention, encoders."""

from collections.abc import Sequence
from typing import Any

from common.data.records import RecordSet
from common.distillation import measure
from common.distillation.teacher import Teacher
from common.evaluation import benchmark
from common.training import strategies
from dipair.scorer import Scorer
from experiments.finished_run import FinishedRun
from experiments.study.rows import GIVEN, Comparison
from experiments.study.students import RUNTIMES, CrossStudent, Model, Student

INT8 = RUNTIMES[2]
ENCODERS = {name: f'encoder, {name}' for name in ('tensorflow', INT8)}  # runtime: key of its row
REAL, BASELINE = 'real lengths', f'{benchmark.BASELINE_TOKENS} tokens'
Comparisons = list[tuple[Comparison, list[list[Model]]]]  # with each row's students, one a seed


def timed(comparisons: Comparisons) -> list[Model]:
  """Students whose speeds are measured: of each row of a timed comparison the first seed's."""
  firsts = [of[0] for comparison, of_rows in comparisons if comparison.timed for of in of_rows]
  return list(dict.fromkeys(firsts))


@strategies.precision()
def measured(run: FinishedRun, comparisons: Comparisons, rounds: int) -> dict[str, Any]:
  """Pairs per second of the timed students, which are made, and texts per second of the given ones.

  Args:
    run: The run that they stand on.
    comparisons: The study's.
    rounds: Rounds, of which the median is taken.

  Returns:
    {'base': BERT-base's row of `benchmark.rates`, 'teacher': the teachers' on test tuples at their
    real lengths, if there are some, 'students': {name: {runtime: row}}}; empty where none is timed.
    A student's row has 'ratio', to BERT-base, and a head's its metric on 'valid' and 'test'. Of
    cross-attention the runtimes are '128 tokens', as BERT-base is measured, and 'real lengths', as
    the teacher is. Students of `--students` have their encoders' texts a second by `ENCODERS`, as
    exported, tokenization included.
  """
  shown = timed(comparisons)
  if not shown:
    return {}
  given = timed([of for of in comparisons if of[0].key == GIVEN])
  test = RecordSet(run.path('data/test'))
  texts = measure.sample(test) if given else []
  contenders = {('', 'base'): benchmark.cross_encoder('BERT-base', benchmark.BERT_BASE)}
  if teachers := run.teachers():
    contenders['', 'teacher'] = measure.cross_attention(teachers, test)
  for student in shown:
    name = student.name
    if isinstance(student, CrossStudent):
      trained = [Teacher.load(student.stage.folder)]
      contenders[name, BASELINE] = benchmark.cross_encoder(name, student.pretrained.config)
      contenders[name, REAL] = measure.cross_attention(trained, test)
    elif isinstance(student, Student):
      export = student.exported.folder
      for runtime in RUNTIMES:
        contenders[name, runtime] = measure.head(name, Scorer.load(export, runtime))
      for runtime, key in ENCODERS.items() if student in given else ():
        contenders[name, key] = _encoder(Scorer.load(export, encoder_runtime=runtime), texts)
  rates = benchmark.rates(list(contenders.values()), rounds=rounds)
  found: dict[str, Any] = {'students': {student.name: {} for student in shown}}
  for (name, key), rate in zip(contenders, rates, strict=True):
    if not name:
      found[key] = rate
    elif key in ENCODERS.values():
      found['students'][name][key] = {'texts_per_second': rate['pairs_per_second']}
    else:
      ratio = rate['pairs_per_second'] / found['base']['pairs_per_second']
      found['students'][name][key] = {**rate, 'ratio': ratio}
  for student in shown:
    if isinstance(student, Student):
      for runtime, worth in student.exported.result.by_runtime.items():
        found['students'][student.name][runtime] |= worth
  return found


def _encoder(scorer: Scorer, tuples: Sequence[tuple[str, ...]]) -> benchmark.Contender:
  """An export's encoders on the distinct texts of each slot."""
  of_slots = zip(scorer.slots, zip(*tuples, strict=True), strict=True)
  distinct = {slot: list(dict.fromkeys(texts)) for slot, texts in of_slots}

  def encode() -> None:
    for slot, texts in distinct.items():
      scorer.encode(texts, slot)

  return benchmark.Contender('encoder', encode, sum(map(len, distinct.values())))
