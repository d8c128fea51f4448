"""The README's tables: what students lose and gain, and which model to take."""

from typing import Any

from benchmarks.committed import markdown, read
from benchmarks.nearness import SHIPPED
from common.evaluation import speeds
from common.evaluation.cells import change, label, metric, percent, times
from experiments.study import tables as study_tables

_RESULTS = {  # runs that are judged by pairs that nothing has learnt from
  'homedepot_products': 'Home Depot, new products',
  'homedepot_queries': 'Home Depot, new queries',
  'p2t': 'synthetic catalogue',
  'q2p': 'MedQuAD, answer or not',
}
_GLUE = {'mrpc': 'MRPC, paraphrase or not', 'snli': 'SNLI, entailment'}
RUNS = {  # whose speeds docs/results.md shows
  'p2t': 'synthetic catalogue',
  'q2p': 'MedQuAD, mined',
  SHIPPED: 'Home Depot',
  'homedepot_nearest': 'Home Depot, of two teachers, twice the tokens',
  'homedepot': "Home Depot, of training texts and the teacher's scores alone",
  'homedepot_4x12_from_wide': "Home Depot, of two teachers, from the wider student's encoder",
}
_MODELS = {  # of MedQuAD's study
  'teacher': 'cross-encoder, the teacher',
  'DiPair, transformer': 'DiPair',
  'LITE': 'DiPair, `--head=lite`',
  'MaxSim': 'late interaction, `--head=max_sim`',
  'Poly-encoder': 'Poly-encoder, `--head=poly_encoder`',
  'DE-FFNN': 'one vector of each text, two layers',
}


def results() -> str:
  """A row a task: quality of teacher and student, and the ratio of their speeds in float32."""
  rows = [_run(made, title) for name, title in _RESULTS.items() if (made := read(name))]
  if made := read('retrieval'):
    rows.append(_reranking(made))
  if made := read('glue'):
    rows += [_run(made['results'][task], f'DSE: {shown}') for task, shown in _GLUE.items()]
  headers = ['task', 'metric', 'teacher', 'student', 'change', 'pairs/s, × its teacher']
  return markdown(headers, rows)


def models() -> str:
  """A row a model that MedQuAD's study trained: quality, pairs a second, bytes of two texts."""
  made = read('study_q2p')
  if not made:
    return ''
  table = study_tables.table(made, 'table2')
  cells = {row[0]: dict(zip(table.headers, row, strict=True)) for row in table.rows}
  columns = ['AUC-ROC (test)', 'Pairs/s', 'Bytes a text']
  rows = [[shown, *(cells[name][c] for c in columns)] for name, shown in _MODELS.items()]
  return markdown(['model', 'AUC-ROC', 'pairs/s', 'bytes of question + answer'], rows)


def _run(made: dict[str, Any], title: str) -> list[str]:
  primary = made['primary_metric']
  teacher, student = made['models'][0], made['models'][-1]
  ratio, _ = speeds.multiples(made, speeds.heads(made)[0])
  return [
    *(title, label(primary), metric(teacher['test'][primary]), metric(student['test'][primary])),
    *(change(student, 'test'), times(ratio)),
  ]


def _reranking(made: dict[str, Any]) -> list[str]:
  """MRR of candidates that student and teacher rerank; their speeds are of other arithmetic."""
  of = {row['name']: row['metrics']['mrr@10']['value'] for row in made['rows']}
  title = f'MedQuAD, {made["depth"]} candidates a question reranked'
  lost = percent(of['student'] / of['teacher'] - 1)
  return [title, label('mrr@10'), metric(of['teacher']), metric(of['student']), lost, '']
