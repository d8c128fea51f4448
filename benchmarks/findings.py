"""What was found, in brief: the head of docs/results.md, each figure from the file of its section."""

from typing import Any

from benchmarks import compared, nearness
from benchmarks.committed import read
from common.evaluation.cells import change, digits, times
from experiments.study import tables as study_tables

_TEST, _PAIRS, _INT8, _TEXTS = 'Pearson (test)', 'Pairs/s', '× in int8', 'Texts/s'
_TRANSFORMER = 'DiPair, transformer'
_EQ_1, _SQUARED = "Eq. 1 on the run's soft labels", 'squared error'
_MARK = "Home Depot's quality is [transductive](#transductive-figures) in all that follows: to be measured again."
_LIMITS = """Not in these: students of large teachers, or of more than a few hundred thousand pairs; and a second seed, but where
three are named. Intervals draw pairs one at a time, but for those of the catalogue's run, of Home Depot's last
ones and of GLUE, which draw a left text with all its pairs. What is called alike differs by less than the paired bootstrap can see, which
is differences from about 1% on among the 7,552 pairs of Home Depot's test set."""

Cells = dict[str, dict[str, str]]  # of a comparison, by row and header


def findings() -> str:
  """The section; empty where a result that it tells of is missing."""
  try:
    found = [
      text()
      for text in (_nearness, _levers, _heads, _transformer, _labels, _losses, _encoders, _speed)
    ]
  except FileNotFoundError:
    return ''
  return '\n\n'.join(['## What was found, in brief', _MARK, '\n'.join(found), _LIMITS])


def _nearness() -> str:
  shipped, medquad = (_lost(name) for name in (nearness.SHIPPED, 'q2p'))
  first = change(_made(nearness.SHIPPED)['models'][1], 'test')
  (one, mean), (from_wide, _), (short_from_wide, _) = (
    nearness.of_teachers(_made(f'homedepot_{name}'))
    for name in ('nearest', '4x12_from_wide', '4x8_from_wide')
  )
  wider = _cells('narrow', 'students')['N4 M8 D256']['Delta (test)']
  averages = {row[0]: row[-2] for row in _made('glue')['table']['rows']}
  return f"""- **How near a student comes to its teacher**, on test ([each step](#home-depot-what-brings-the-student-near-its-teacher)): Home
  Depot {shipped} by the shipped config, and {first} after its stage 1 alone; [4 and 8 tokens of
  256](#home-depot-fewer-and-wider-tokens-by-the-shipped-recipe) by the same recipe {wider}. Of the mean of two teachers, with twice
  the tokens kept, {one} of one of them, {mean} of that mean (`configs/homedepot_wide.flags`); in the sizes of the
  paper's Tables 2 and 3, from that student's encoder, {from_wide} and {short_from_wide} of one. MedQuAD {medquad}. DSE's four GLUE tasks
  {averages['DSE (alpha = 0.5)']} in the mean, from a start that has seen such pairs, and of a teacher that [more steps
  would better on QQP](#glues-teachers-until-valid-stops-rising)."""


def _levers() -> str:
  cells, made = _cells('stage_1', 'students'), _made('homedepot_shipped_compared')
  whole, first, scores, tokens = (
    cells[name][_TEST]
    for name in ("as the run's", 'stage 1', 'stage 1 scores alone', 'stage 1 first tokens')
  )
  (_, before, _), (*_, gained) = compared.table(made, 'student').rows
  earlier = compared.table(made, 'student, stage 1').rows[0][1]
  return f"""- **What brings it near** ([more](#home-depot-the-shipped-config-and-what-it-was)): the titles of all products, without
  labels, and the mean in [CLS]'s place, {before} to {whole} together
  ({gained}). [After stage 1
  alone](#home-depot-what-the-shipped-config-has-after-stage-1) it comes to {first}, without the labels to {scores}, without the mean to
  {tokens}, without the mean and the titles to {earlier}. [Before
  these](#home-depot-what-brings-the-student-near-its-teacher), smaller blocks of more training pairs and several teachers did."""


def _heads() -> str:
  seeds, medquad = _cells('homedepot_seeds', 'table2'), _cells('q2p', 'table2')
  names = (_TRANSFORMER, 'LITE', 'Poly-encoder', 'MaxSim', 'DE-FFNN', 'DE-Cos')
  order = ', '.join(f'{name} {seeds[name][_TEST]}' for name in names)
  auc, own_auc = (medquad[name]['AUC-ROC (test)'] for name in ('LITE', _TRANSFORMER))
  lite, own = seeds['LITE'], seeds[_TRANSFORMER]
  whole = _cells('homedepot_whole', 'table2')
  trained = ', '.join(f'{name} {whole[name][_TEST]}' for name in names)
  return f"""- **Heads** on frozen encoders ([three seeds](#the-students-of-the-dipair-paper-on-home-depot-3-seeds)): {order}.
  By the whole recipe, encoders trained with them ([one seed](#home-depot-every-head-by-the-whole-recipe)): {trained}.
  LITE has {_more(lite, own, _PAIRS)} the transformer's pairs/s in float32, {_more(lite, own, _INT8)} in int8, and on
  [MedQuAD](#the-students-of-the-dipair-paper-on-medquad) its quality (AUC-ROC {auc} and {own_auc})."""


def _transformer() -> str:
  cells = _cells('homedepot_heads', 'table4')
  own, wide, narrow, one = (
    cells[_TRANSFORMER + change]
    for change in ('', ', 8x24 tokens', ', inner width: 256', ', layers: 1')
  )
  return f"""- **Of the transformer** ([more](#home-depot-heads-poly-encoders-temperature-and-length)) the tokens kept count most:
  {own[_TEST]} of 4 and 12, {wide[_TEST]} of 8 and 24, for twice the bytes. An inner width of 256 in place of 1,024 comes
  to {narrow[_TEST]}, one layer to {one[_TEST]} (not tested); in float32 they have {_rate(2, 256, 'litert')} and {_rate(1, 1024, 'litert')}
  the pairs/s ([by size](#heads-by-size)), in int8 with AMX {_rate(2, 256, 'litert-int8')} and {_rate(1, 1024, 'litert-int8')}.
  More attention heads give nothing that can be seen."""


def _labels() -> str:
  mixed = _cells('labels', 'students')
  alone, half = (mixed[name][_TEST] for name in ("as the run's", 'labels half'))
  both = _cells('both_stages', 'students')
  scores, labels = (both[f'both stages{name}'][_TEST] for name in ('', ' labels half'))
  long = _cells('shipped', 'students')
  whole, p_value = (long["as the run's"][header] for header in (_TEST, 'p (closest)'))
  return f"""- **Of the labels** ([three seeds](#home-depot-the-labels-beside-the-teachers-scores-three-seeds)): those of the training
  pairs among the pairs made, mixed in by `--alpha=0.5`, bring a student on frozen encoders from {alone} to {half},
  where its teacher has {mixed['teacher'][_TEST]}; with [both stages](#home-depot-the-labels-in-both-stages), of one seed, from {scores} to
  {labels}. [In long stages](#home-depot-the-labels-in-long-stages), of a better teacher, little is left: from
  {long['scores alone'][_TEST]} to {whole} (p {p_value}), where the teacher has {long['teacher'][_TEST]}."""


def _losses() -> str:
  cells = _cells('levers', 'losses')
  cross, squared, margin, lists = (
    cells[name][_TEST] for name in (_EQ_1, _SQUARED, 'margin-MSE', 'listwise KL')
  )
  catalogue = _cells('p2t', 'losses')
  first, second = (catalogue[name][_TEST] for name in (_EQ_1, _SQUARED))
  p_value = catalogue[_EQ_1]['p (closest)']
  return f"""- **Of the loss** ([three seeds](#home-depot-losses-of-distillation-and-other-levers-three-seeds)): on Home Depot Eq. 1 comes to
  {cross}, the squared error of logits to {squared}, not below it by each seed; [on the catalogue](study/p2t/study.md) Eq. 1 is above ({first}, {second}, p {p_value}). [No
  temperature](#home-depot-heads-poly-encoders-temperature-and-length) is better than 1. Losses that compare a query's candidates
  alone say little of a score over all pairs: {margin} and {lists} on Home Depot; on the catalogue they lose less."""


def _encoders() -> str:
  depths, cells = _cells('homedepot', 'figure3b'), _cells('encoders', 'students')
  own, lstm = cells["as the run's"], cells['bilstm']
  return f"""- **Of the encoder** ([more](#other-encoders-home-depot)): frozen, all 6 layers of MiniLM come to {depths['6'][_TEST]}, the first 4 to
  {depths['4'][_TEST]}; depth costs nothing when pairs are scored. A BiLSTM on MiniLM's embeddings comes to {lstm[_TEST]}
  where MiniLM has {own[_TEST]}, and encodes {_more(lstm, own, _TEXTS)} as many short texts a second."""


def _speed() -> str:
  rates = {row['name']: row.get('pairs_per_second') for row in _made('peers')['rows']}
  head, teacher = (
    digits(rates[f'{name}, litert-int8']) for name in ('DiPair head', "DiPair's teacher")
  )
  return f"""- **Speed** ([beside other libraries](#other-libraries-beside-ours-home-depot)): on two cores, in one run, {head} pairs/s of
  the head in int8 on stored vectors, {teacher} of its teacher in int8."""


def _made(name: str) -> dict[str, Any]:
  made = read(name)
  if made is None:
    raise FileNotFoundError(name)
  return made


def _lost(name: str) -> str:
  return change(_made(name)['models'][-1], 'test')


def _cells(study: str, key: str) -> Cells:
  table = study_tables.table(_made(f'study_{study}'), key)
  return {row[0]: dict(zip(table.headers, row, strict=True)) for row in table.rows}


def _rate(layers: int, inner: int, runtime: str) -> str:
  """Pairs/s of a head of 4 and 12 tokens of 128, as a multiple of the paper's of two layers of 1,024."""
  rates = {
    (row['layers'], row['inner']): row['heads'][runtime]['ratio']
    for row in _made('frontier')['rows']
    if (row['tokens'], row['dim'], row['activation']) == ([4, 12], 128, 'gelu')
  }
  return times(rates[layers, inner] / rates[2, 1024])


def _more(of: dict[str, str], against: dict[str, str], header: str) -> str:
  """How many times as many, as the two cells show it."""
  value, base = (float(cells[header].replace(',', '').strip('×')) for cells in (of, against))
  return times(value / base)
