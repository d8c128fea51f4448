"""The examples and the tutorial at toy size, run as their readers do."""

import json
import pathlib
import re
import shutil

import pytest

from tests.conftest import ENCODES_LITTLE, PRODUCTS
from tests.test_snippets import STAND_INS

ANSWERS = pathlib.Path(__file__).parent.parent / 'examples' / 'answers.tsv'
TUTORIAL = pathlib.Path(__file__).parent.parent / 'docs' / 'tutorial.ipynb'
SCRIPT = """
import runpy, sys
sys.path.insert(0, 'examples')  # as `python examples/NAME.py` has it
runpy.run_path(f'examples/{sys.argv.pop(1)}.py', run_name='__main__')
"""
TOY = """
ROWS = {'train': 128, 'valid': 32, 'test': 32, 'distillation': 512}
FLAGS = {'flagfile': 'smoke', 'teacher_steps': 4, 'stage1_steps': 4, 'stage2_steps': 2,
  'max_lengths': (16, 16), 'head': 'ffnn'}
"""
LAST = 'print(scores.shape, len(store), *dict(best))'


def finished(made, *, reads=True):
  """Code that gives a finished run's folder to the runs after it, in place of training."""
  return f'from tests import forks\nforks.finish_runs_by({str(made)!r}, {reads=})\n'


@pytest.fixture(name='example', scope='module')
def _example(python, tmp_path_factory):
  """A function of an example's name and run folder to all that it prints."""
  base = tmp_path_factory.mktemp('examples')

  def example(name, run, *flags, made=''):
    code = (finished(made) if made else '') + SCRIPT
    done = python('-c', code, name, '--toy', f'--run_dir={base / run}', *flags)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout

  return example


def test_products_are_ranked_for_each_query_and_the_nearest_first(example, smoke_run):
  said = example('product_search', 'search', made=smoke_run / 'copy')
  ranked = said.split('\n\n')[-3:]
  assert [part.splitlines()[0] for part in ranked] == [
    'nike shoes',
    'black leather bag',
    'large wooden desk',
  ]
  for part in ranked:
    scores = [float(row.split()[0]) for row in part.splitlines()[1:]]
    assert len(scores) == 3 and scores == sorted(scores)[::-1]
  said = example('nearest_first', 'search', made=smoke_run / 'copy')
  lines = re.findall(r'(\d+) of (\d+) scored: recall@10 (.+)', said)
  (few, count, least), (_, _, more), (every, _, whole) = lines
  assert int(few) == int(count) // 20 and every == count
  assert float(least) <= float(more) <= float(whole) == 1


def test_products_may_be_vectors(example, smoke_run, vector_run, tmp_path):
  search = shutil.copytree(smoke_run / 'copy', tmp_path / 'search')
  lines = example('product_vectors', search, '--width=3', made=vector_run).splitlines()[-3:]
  assert [line.split(': ')[0] for line in lines[:2]] == ['texts', 'vectors']
  assert re.fullmatch(r'.+: product \d+, [01]\.\d+', lines[2])


def test_the_first_ranking_shows_three_answers_of_the_table(python, export):
  done = python('-c', SCRIPT, 'first_ranking', 'red', f'--export_dir={export("dipair").folder}')
  assert done.returncode == 0, done.stderr[-3000:]
  scores, texts = zip(*(line.split('  ') for line in done.stdout.splitlines()), strict=True)
  assert [*scores] == sorted(scores)[::-1] and len({*texts}) == 3
  assert all(f'\t{text}\n' in ANSWERS.read_text('utf-8') for text in texts)


@pytest.mark.parametrize(
  ('changes', 'same'),
  [
    ({'head': 'max_sim', **ENCODES_LITTLE}, True),
    ({'head': 'cosine', 'output_tokens': (1, 1), **ENCODES_LITTLE}, True),
    ({}, False),
  ],
)
def test_qdrant_has_the_order_of_rank_where_it_can_hold_the_head(
  python, export, tmp_path, changes, same
):
  pytest.importorskip('qdrant_client')
  table, folder = tmp_path / 't.tsv', export('dipair', **changes).folder
  table.write_text('\n'.join(['text', *PRODUCTS, 'x']))  # of 'x' and '' some tokens are padding
  done = python('-c', SCRIPT, 'engine_qdrant', '', f'--export_dir={folder}', f'--input={table}')
  if same:
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1] == 'the same order as rank, of 5 texts'
  else:
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(f'error: {folder}: another order than rank has')


def test_the_readmes_first_line_ranks_by_the_trained_model_that_it_ships(python):
  readme = (pathlib.Path(__file__).parent.parent / 'README.md').read_text('utf-8')
  shown = re.findall(r"'what causes gout'\n```\n\n```\n(.+?)```", readme, re.DOTALL)[0]
  done = python('-c', SCRIPT, 'first_ranking', 'what causes gout')
  assert done.returncode == 0, done.stderr[-3000:]
  for line, expected in zip(done.stdout.splitlines(), shown.splitlines(), strict=True):
    (score, text), (of_readme, beginning) = (row.split('  ', 1) for row in (line, expected))
    assert float(score) == pytest.approx(float(of_readme), abs=0.01)  # int8 rounds by the machine
    assert text.startswith(beginning.rstrip(' …'))


def test_the_first_ranking_refuses_a_table_in_one_line(python, tmp_path):
  table = tmp_path / 't.tsv'
  table.write_text('title\n12" pipe\n')
  for path, message in (
    (table, f"{table}:1: no column 'text'; it has title"),
    (tmp_path, tmp_path),
  ):
    done = python('-c', SCRIPT, 'first_ranking', 'red', f'--input={path}')
    assert done.returncode == 2 and done.stderr.startswith(f'error: {message}')


def test_the_public_data_are_tables_that_the_flagfiles_read(python, tmp_path):
  rows = [f'{i},{100 + i},"Caf\xe9  {i % 20}, 3\x85in.",Red {i % 40},2.33' for i in range(60)]
  table = '\n'.join(['id,product_uid,product_title,search_term,relevance', *rows])
  (tmp_path / 'train.csv').write_text(table, 'latin-1')
  (tmp_path / 'of').mkdir()
  pairs = '<QAPair><Question>Why ?</Question><Answer>So\tit\nis.</Answer></QAPair>'
  pairs += '<QAPair><Question>Who ?</Question><Answer> </Answer></QAPair>'
  (tmp_path / 'of/1.xml').write_text(f'<Document><QAPairs>{2 * pairs}</QAPairs></Document>')
  for name, source in (('homedepot', tmp_path / 'train.csv'), ('medquad', tmp_path)):
    done = python('-c', SCRIPT, 'public_data', name, str(source), f'--output={tmp_path}')
    assert done.returncode == 0, done.stderr[-3000:]
  found = {}
  for split in ('train', 'valid', 'test'):
    _, *lines = (tmp_path / f'homedepot/{split}.tsv').read_text('utf-8').splitlines()
    found[split] = [line.split('\t') for line in lines]
  titles = [{cells[2] for cells in found[split]} for split in found]
  assert sum(map(len, titles)) == 20 and sum(map(len, found.values())) == 60
  assert set.union(*titles) == {f'Caf\xe9 {i}, 3 in.' for i in range(20)}
  asked = {}
  for split in ('train', 'valid', 'test'):
    _, *lines = (tmp_path / f'homedepot_queries/{split}.tsv').read_text('utf-8').splitlines()
    asked[split] = [line.split('\t')[2:4] for line in lines]
  train = {cell for cells in asked['train'] for cell in cells}
  for split in ('valid', 'test'):
    assert asked[split] and train.isdisjoint(cell for cells in asked[split] for cell in cells)
  assert (
    tmp_path / 'medquad/questions_answers.tsv'
  ).read_text() == 'question\tanswer\nWhy ?\tSo it is.\n'


def test_no_question_is_its_own_duplicate(example):
  lines = example('duplicate_questions', 'questions').splitlines()[-20:]
  _, texts, others = zip(*(line.split('  ') for line in lines), strict=True)
  assert len({*texts}) == 20 and {*others} <= {*texts}
  assert all(text != other for text, other in zip(texts, others, strict=True))


def test_a_cross_encoder_of_sentence_transformers_teaches(python, smoke_run, tmp_path):
  name, stand_in = 'teacher_from_sentence_transformers', 'sentence_transformers.py'
  folder = tmp_path / 'examples'
  folder.mkdir()
  shutil.copy(ANSWERS.parent / f'{name}.py', folder)
  (folder / stand_in).write_text(STAND_INS[stand_in])
  code = finished(smoke_run / 'copy', reads=False) + f'import os\nos.chdir({str(tmp_path)!r})'
  done = python('-c', code + SCRIPT, name)
  assert done.returncode == 0, done.stderr[-3000:]
  lines = done.stdout.splitlines()[-4:]
  assert lines[0].startswith("{'pearson': ")
  assert all(line.split()[1] in ('black', 'white') for line in lines[1:])


def test_graded_lists_are_learnt_from_and_judged_by_ndcg(example):
  found = re.findall(r'^(\w+): NDCG@10 (0\.\d+)$', example('graded_lists', 'lists'), re.M)
  assert [name for name, _ in found] == ['teacher', 'student']
  assert all(0.3 < float(ndcg) < 1 for _, ndcg in found)


def test_the_tutorial_runs_from_top_to_bottom_as_it_was_when_its_outputs_were_kept(
  python, smoke_run, tmp_path
):
  cells = json.loads(TUTORIAL.read_text('utf-8'))['cells']
  cells = [cell for cell in cells if cell['cell_type'] == 'code']
  assert [cell['execution_count'] for cell in cells] == [*range(1, len(cells) + 1)]
  parameters, *others = [''.join(cell['source']) for cell in cells]
  program = [parameters, TOY, f'RUN_DIR = {str(tmp_path / "run")!r}', *others, LAST]
  done = python('-c', finished(smoke_run / 'copy') + '\n'.join(program))
  assert done.returncode == 0, done.stderr[-3000:]
  shape, count, *rows = re.findall(r'\(32, 2\)|\d+', done.stdout.splitlines()[-1])
  assert shape == '(32, 2)' and len({*rows}) == 3 and all(int(row) < int(count) for row in rows)


def test_made_queries_are_new_and_hold_words_of_one_title(python, tmp_path):
  titles = ['Red Door of Oak, 3 ft.', 'blue door', 'a steel hinge for the door']
  rows = [f'{q}\t{t}' for q in ('oak door', 'hinge') for t in titles]
  (tmp_path / 'train.tsv').write_text('\n'.join(['q\tt', *rows]) + '\n', 'utf-8')
  output = tmp_path / 'made.tsv'
  table = [str(tmp_path / 'train.tsv'), '--left=q', '--right=t', f'--output={output}']
  done = python('-c', SCRIPT, 'made_queries', *table)
  assert done.returncode == 0, done.stderr[-3000:]
  column, *found = output.read_text('utf-8').splitlines()
  words = [{'red', 'door', 'oak', '3', 'ft.'}, {'blue', 'door'}, {'steel', 'hinge', 'door'}]
  assert column == 'q' and len(set(found)) == len(found) and 'hinge' not in found
  assert all(any({*query.split()} <= of for of in words) for query in found)
  pairs = {'red door', 'red oak', 'red 3', 'red ft.', 'door oak', 'door 3', 'door ft.', 'oak 3'}
  pairs |= {'oak ft.', '3 ft.', 'blue door', 'steel hinge', 'steel door', 'hinge door'}
  singles = set.union(*words) - {'hinge'}
  assert set(found) == pairs | singles  # all there are of one and two words, as queries have
