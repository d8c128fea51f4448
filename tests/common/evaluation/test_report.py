"""The report, the card and the summary: their numbers, their escaping, parts that are absent."""

import base64
import os
import re
from html.parser import HTMLParser

import huggingface_hub
import numpy as np
import pytest
import yaml
from huggingface_hub import EvalResult

from common.evaluation import report, tables
from common.evaluation.results import Results


def _history(best: float) -> list[dict]:
  first = {'step': 50, 'loss': 0.7, 'learning_rate': 1e-5}
  return [first, {'step': 100, 'loss': 0.51, 'learning_rate': 0.0, 'valid': {'pearson': best}}]


def _results() -> dict:
  return {
    'title': 'DiPair on p2t',
    'student': 'dipair',
    'task': 'regression',
    'primary_metric': 'pearson',
    'commit': 'abc1234',
    'command': 'python -m dipair.run --flagfile=configs/p2t.flags',
    'environment': {'python': '3.11.7', 'cores': 2},
    'flags': {'projection': 256, 'data': 'p2t', 'columns': ['a', 'b'], 'redo': False},
    'data': {'train': 8000, 'distillation': 40448},
    'models': [
      {'name': 'teacher', 'valid': {'pearson': 0.5741}, 'test': {'pearson': 0.5668}},
      {
        'name': 'student',
        'valid': {'pearson': 0.555},
        'test': {'pearson': 0.5475, 'log_loss': float('nan')},
        'delta': {'valid': -0.033, 'test': -0.0342},
      },
    ],
    'speed': [
      {'name': 'BERT-base, 128 tokens', 'pairs_per_second': 15.1, 'ratio': 1.0},
      {'name': 'teacher, MiniLM', 'pairs_per_second': 133.2, 'ratio': 8.82},
      {'name': 'DiPair head', 'pairs_per_second': 15604.3, 'ratio': 1033.4},
      {'name': 'DiPair head, int8', 'pairs_per_second': 40612.0, 'ratio': 2689.5},
    ],
    'training': [
      {
        'name': name,
        'seconds': 4205.0,
        'pairs_per_second': 133.0,
        'best_step': 100,
        'history': _history(best),
      }
      for name, best in (('teacher', 0.57), ('stage 1', 0.54), ('stage 2', 0.55))
    ],
    'export': {
      'max_difference': 1.2e-7,
      'encoder_bytes': 9.04e7,
      'head_bytes': 4.1e6,
      'vector_bytes': {'left': 4096, 'right': 8192},
    },
  }


def _scores() -> dict[str, np.ndarray]:
  random = np.random.default_rng(0)
  teacher = random.random(60)
  student = np.clip(teacher + random.normal(0, 0.1, 60), 0, 1)
  return {'label': np.round(teacher), 'teacher': teacher, 'student': student}


class _Page(HTMLParser):
  """The elements of a page, with their attributes, and its text."""

  def __init__(self, text: str):
    super().__init__()
    self.elements, self.text = [], ''
    self.feed(text)

  def handle_starttag(self, tag, attrs):
    self.elements.append((tag, dict(attrs)))

  def handle_data(self, data):
    self.text += data + '\n'

  def all(self, tag: str) -> list[dict]:
    return [attrs for name, attrs in self.elements if name == tag]


def _report(results, scores, folder) -> _Page:
  path = folder / 'report.html'
  report.write_report(Results.of_json(results), scores, str(path))
  assert os.listdir(folder) == ['report.html']  # the temporary name is gone
  return _Page(path.read_text(encoding='utf-8'))


def _summary(results: dict) -> str:
  return report.summary_table(Results.of_json(results))


def _tables(results: dict) -> dict[str, tables.Table]:
  return tables.tables(Results.of_json(results))


@pytest.fixture
def results() -> dict:
  return _results()


@pytest.fixture
def scores() -> dict[str, np.ndarray]:
  return _scores()


@pytest.fixture(scope='module')
def page(tmp_path_factory) -> _Page:
  """The whole report, drawn once for the tests that read it."""
  return _report(_results(), _scores(), tmp_path_factory.mktemp('whole'))


def _card(results, folder) -> tuple[dict, str]:
  path = folder / 'README.md'
  report.write_model_card(Results.of_json(results), str(path))
  _, front, body = path.read_text(encoding='utf-8').split('---\n', 2)
  return yaml.safe_load(front), body


def test_the_report_shows_its_numbers(page):
  text = page.text
  for shown in ('0.547', '-3.4%', '1,030×', '15,600', '8.82×', '90.4 MB', '40,448', '1 h 10 min'):
    assert shown in text
  assert 'as fast as its teacher: DiPair head, int8' in text  # the fastest, beside the default
  assert 'test tuples at their real lengths' in text and 'once per text, is not in' in text
  assert 'n/a' in text  # the log loss that is nan
  assert '--projection=256' in text


def test_the_report_holds_its_pictures(page):
  captions = [image['alt'] for image in page.all('img')]
  assert [caption.split(',')[0].split(';')[0] for caption in captions] == [
    'Quality against speed',
    'Student against teacher on test',
    'Distribution of scores on test',
    'Teacher',
    'Stage 1',
    'Stage 2',
  ]
  for image in page.all('img'):
    kind, data = image['src'].split(',')
    assert kind == 'data:image/svg+xml;base64'
    assert b'<svg' in base64.b64decode(data)


def test_the_report_needs_nothing_outside_it(page):
  assert not page.all('script') and not page.all('link')
  links = [a[k] for _, a in page.elements for k in ('src', 'href') if k in a]
  assert all(link.startswith('data:') for link in links)
  style = page.text.split('color-scheme', 1)[1]
  assert 'url(' not in style and '@import' not in style
  assert any(meta.get('name') == 'viewport' for meta in page.all('meta'))


def test_text_is_escaped(results, scores, tmp_path):
  results['title'] = '<script>alert(1)</script>'
  results['flags']['query'] = '"><img src=x onerror=alert(1)>'
  results['models'][1]['name'] = results['training'][2]['name'] = '<b onclick="x">'
  results['models'][1]['test']['<script>metric'] = 0.5
  results['data'] = {'<script>column': 8000}
  page = _report(results, scores, tmp_path)
  assert not page.all('script') and {'onclick': 'x'} not in page.all('b')
  assert all(image['src'].startswith('data:') for image in page.all('img'))
  assert '<script>alert(1)</script>' in page.text and '<script>metric' in page.text


def test_the_card_escapes_too(results, tmp_path):
  results['title'] = '<script>\n---\nlicense: none'
  results['models'][1]['name'] = 'a|b'
  results['flags']['query'] = 'x\n```\n# free'
  front, body = _card(results, tmp_path)
  assert 'license' not in front
  assert '# &lt;script&gt; --- license: none\n' in body
  assert '| a\\|b | 0.555 |' in body
  assert '--query=x ``` # free\n' in body


def test_the_card_front_matter_and_tables(results, tmp_path):
  front, body = _card(results, tmp_path)
  assert 'license' not in front and front['library_name'] == 'dipair'  # the run knows of none
  assert {'dipair', 'regression', 'knowledge-distillation'} <= set(front['tags'])
  assert 'dipair.Scorer.load("export")' in body
  assert '| student | 0.555 | -3.3% | 0.547 | -3.4% | 117× | 1,030× |' in body
  for heading in ('Limits', 'Training data', 'How it was made'):
    assert f'\n## {heading}\n' in body
  assert 'Commit `abc1234`' in body and results['command'] in body and '--data=p2t\n' in body
  for block in re.findall(r'(?:^\|.*\n)+', body, re.MULTILINE):  # as many cells in every row
    assert len({row.count('|') for row in block.splitlines()}) == 1


def test_the_hub_reads_the_metadata_of_the_card(results, tmp_path):
  results['title'] = 'DiPair on "A": 1'
  results['metadata'] = {'base_model': 'org/base', 'datasets': ['org/a'], 'language': 'no'}
  results['models'][1]['ranking'] = {'test': {'ndcg@10': {'value': 0.8125}}}
  for task, kind in (('regression', 'text-ranking'), ('multiclass', 'text-classification')):
    front, body = _card(results | {'task': task}, tmp_path)
    card = huggingface_hub.ModelCard((tmp_path / 'README.md').read_text('utf-8'))
    assert huggingface_hub.ModelCard(str(card)).data.to_dict() == card.data.to_dict() == front
    data = card.data
    assert (data.pipeline_tag, data.library_name) == (kind, 'dipair')
    assert (data.base_model, data.datasets, data.language) == ('org/base', ['org/a'], 'no')
    assert data.model_name == 'DiPair on "A": 1'
    of = {'task_type': kind, 'dataset_type': 'org/a', 'dataset_name': '"A": 1'}
    assert data.eval_results == [  # the log loss is nan
      EvalResult(**of, metric_type='pearsonr', metric_name='Pearson', metric_value=0.5475),
      EvalResult(**of, metric_type='ndcg@10', metric_name='NDCG@10', metric_value=0.8125),
    ]
  del results['metadata']
  _card(results, tmp_path)
  data = huggingface_hub.ModelCard.load(tmp_path / 'README.md').data
  assert (data.base_model, data.datasets, data.language, data.license) == (None,) * 4
  assert {result.dataset_type for result in data.eval_results} == {'unknown'}


def test_the_card_loads_what_the_run_has(results, tmp_path):
  results['flags'] = {'text_columns': ['user', 'title'], 'vector_columns': ['user:users.npy']}
  _, body = _card(results, tmp_path)
  assert 'left = scorer.encode(vectors, side="left")' in body
  assert """right = scorer.encode(['a text'], side="right")""" in body
  for own in ({'shared_encoder': False}, {'shared_encoder': True, 'max_lengths': [32, 128]}):
    front, body = _card(results | {'student': 'dse', 'flags': own}, tmp_path)
    assert front['library_name'] == 'dse'
    assert 'dse.Embedder.load("export")' in body and 'Scorer' not in body
    assert """embedder.encode(['a text'], "right")""" in body and 'vectors[:1]' not in body


def test_the_card_shows_a_test_pair_and_no_folder_of_this_machine(results, tmp_path):
  results['example'] = {'texts': ["men's \n shoe", 'nike 42'], 'score': 0.97}
  results['flags'] = {'train_file': '/home/a/t.tsv', 'unlabelled_texts': ['b:/c/d.tsv', 'b:e/f']}
  results['flags'] |= {'embedder': 'https://tfhub.dev/a/1'}
  results['command'] = "python -m dipair.run --train_file='/home/my a/t.tsv' --run_dir=runs/a"
  _, body = _card(results, tmp_path)
  assert r"""scorer.encode(["men's \n shoe"], side="left")""" in body
  assert """scorer.encode(['nike 42'], side="right")\n""" in body
  assert 'scorer.score(left, right)  # once per pair: 0.97\n' in body
  assert '--train_file=t.tsv\n--unlabelled_texts=b:d.tsv,b:e/f\n' in body
  assert '--embedder=https://tfhub.dev/a/1\n' in body
  assert '/home' not in body and '--run_dir=runs/a' in body


def test_the_summary(results):
  lines = _summary(results).split('\n')
  assert lines[0] == 'DiPair on p2t'
  assert lines[2].split('  ')[0] == 'Model' and lines[2].endswith(
    '× its teacher  × BERT-base at 128'
  )
  assert lines[-2].split() == ['student', '0.555', '-3.3%', '0.547', '-3.4%', '117×', '1,030×']
  assert len({len(line) for line in lines[2:6]}) == 1  # aligned
  # 15,604.3 / 133.2 = 117.1 and 40,612 / 133.2 = 304.9 times the teacher's pairs a second
  assert '×: pairs/s of DiPair head (DiPair head, int8: 305×, 2,690×)' in lines[-1]


def test_without_a_teacher(results, scores, tmp_path):
  del results['models'][0], results['models'][0]['delta'], scores['teacher'], results['training'][0]
  page = _report(results, scores, tmp_path)
  captions = ' '.join(image['alt'] for image in page.all('img'))
  assert 'teacher' not in captions and 'Quality' not in captions
  assert 'Distribution' in captions and 'Stage 2' in captions
  assert 'Delta' not in _summary(results)  # no empty column
  assert '1,030×' in _summary(results)
  assert 'as fast as BERT-base at 128 tokens: DiPair head' in page.text
  assert 'its teacher' not in page.text  # nothing is a multiple of what was not measured


def test_the_least_a_run_may_give(results, tmp_path):
  needed = ('title', 'student', 'task', 'primary_metric', 'models')
  results = {name: results[name] for name in needed}
  page = _report(results, {}, tmp_path)
  assert not page.all('img') and '0.547' in page.text
  front, body = _card(results, tmp_path)
  assert front['library_name'] == 'dipair' and '0.547' in body


def test_a_failure_leaves_the_old_report(results, scores, tmp_path):
  path = tmp_path / 'report.html'
  path.write_text('old')
  scores['student'] = scores['student'][:-1]
  with pytest.raises(ValueError):
    report.write_report(Results.of_json(results), scores, str(path))
  assert path.read_text() == 'old' and os.listdir(tmp_path) == ['report.html']


def test_the_same_run_gives_the_same_bytes(results, scores, tmp_path):
  del results['training'], results['speed']
  for name in ('a.html', 'b.html'):
    report.write_report(Results.of_json(results), scores, str(tmp_path / name))
  assert (tmp_path / 'a.html').read_bytes() == (tmp_path / 'b.html').read_bytes()


@pytest.mark.parametrize(
  'delta, shown', [(-0.0342, '-3.4%'), (0.002, '+0.2%'), (-0.0001, '0.0%'), (float('nan'), 'n/a')]
)
def test_deltas_read_as_in_the_paper(results, delta, shown):
  results['models'][1]['delta'] = {'test': delta}
  assert f' {shown} ' in _summary(results)


def test_a_delta_stands_with_its_interval_and_p(results):
  results['models'][1] |= {
    'delta': {'test': -0.0342}, 'interval': {'test': [-0.05, 0.002]}, 'p_value': {'test': 0.0}
  }  # fmt: skip
  against = {'model': 'student', 'baseline': 'student, stage 1'}
  results['significance'] = {**against, 'delta': 0.01, 'low': 0.0, 'high': 0.02, 'p_value': 0.041}
  shown = _summary(results)
  assert re.search(r' -3\.4% \[-5\.0, 0\.2\] +<0\.001 ', shown)
  assert _tables(results)['Results'].note.count(
    'On test, student is +1.0% [0.0, 2.0] against student, stage 1, p 0.041.'
  )


def test_flat_scores_do_not_break_the_pictures(results, scores, tmp_path):
  del results['training']
  scores['student'] = np.full(60, 0.5)
  page = _report(results, scores, tmp_path)
  assert any('r = n/a' in image['alt'] for image in page.all('img'))


def _calibrated(task: str, **changes) -> dict:
  """A row of a bin, and around 0.7, of each model."""
  low = {'from': 0.2, 'to': 0.3, 'count': 1200, 'score': 0.25, 'outcome': 0.125}
  asked = {'from': 0.65, 'to': 0.75, 'count': 50, 'score': 0.7, 'outcome': 0.58}
  of = {'ece': 0.0712, 'bins': [low, {**asked, 'from': 0.7, 'to': 0.8}], 'asked': asked}
  models = {'teacher': {**of, 'bins': [low]}, 'student': of, 'student, uncalibrated': of}
  return {'temperature': 1.0, 'models': models, **changes}


@pytest.mark.parametrize(
  ('task', 'meaning', 'cell'),
  [
    (
      'binary',
      'Of test pairs scored 0.65 to 0.75 by the student, 58% are positive (50 pairs).',
      '58%',
    ),
    (
      'regression',
      'Test pairs scored 0.65 to 0.75 by the student have a mean label of 0.58',
      '0.58',
    ),
    (
      'multiclass',
      'whose likeliest class the student scores 0.65 to 0.75, 58% have it right',
      '58%',
    ),
  ],
)
def test_what_a_score_means_stands_in_report_and_card(task, meaning, cell, results, tmp_path):
  del results['training'], results['speed']
  results |= {'task': task, 'calibration': _calibrated(task, temperature=1.53)}
  best = {'threshold': 0.3456, 'best_on_valid': True, 'count': 1000, 'precision': None}
  if task == 'binary':
    results['calibration']['thresholds'] = [{**best, 'recall': 0.5, 'f1': 0.625}]
  page = _report(results, {}, tmp_path)
  text = ' '.join(page.text.split())
  assert meaning in text and 'its logits are divided by 1.53' in text
  assert f'0.7 to 0.8 50 {cell} 50 {cell}' in text  # the teacher has none there
  assert 'Expected calibration error 0.071 0.071 0.071' in text
  assert ('0.346, best F1 on valid 1,000 n/a 0.500 0.625' in text) == (task == 'binary')
  assert 'Calibration on test; dotted: a score is its outcome' in [
    image['alt'] for image in page.all('img')
  ]
  _, body = _card(results, tmp_path)
  assert '## Calibration' in body and meaning in body


def test_a_report_says_where_no_pair_has_the_score(results):
  found = _calibrated('regression')
  found['models']['student']['asked'] = {'from': 0.65, 'to': 0.75, 'count': 0}
  note = _tables({**results, 'calibration': found})['Calibration'].note
  assert note.startswith('There is no test pair scored 0.65 to 0.75 by the student. ')


def test_ranking_stands_in_report_card_and_summary(results, tmp_path):
  del results['training'], results['speed']
  ndcg = {'value': 0.8125, 'interval': [0.75, 0.9]}
  changed = {'delta': -0.05, 'delta_interval': [-0.1, 0.0], 'p_value': 0.03}
  teacher, student = results['models']
  teacher['ranking'] = {'test': {'ndcg@10': ndcg}}
  student['ranking'] = {'test': {'ndcg@10': {**ndcg, 'value': 0.77, **changed}}}
  red = {'text': '<b>red</b> shoe', 'label': 0.75, 'teacher': 1, 'student': 4}
  worst = {'text': 'shoe', 'teacher': 1.0, 'student': 0.5, 'candidates': [red], 'more': 7}
  counts = {'queries': 1200, 'candidates': 5000, 'one_candidate': 3, 'none_relevant': 20}
  results['ranking'] = {'test': {**counts, 'worst': {'metric': 'ndcg@10', 'queries': [worst]}}}
  page = _report(results, {}, tmp_path)
  for shown in (
    'NDCG@10, student 0.770 [0.750, 0.900] -5.0% [-10.0, 0.0] 0.03',
    'shoe 1.000 0.500 <b>red</b> shoe (0.75, 1 → 4); and 7 more',
    'the 1,200 queries (left texts) of test with two candidates or more, 5,000 candidates',
    '3 queries with one are left out, 20 without a relevant one count 0',
  ):
    assert shown in ' '.join(page.text.split())
  assert "Ranking of test's 1,200 queries: NDCG@10 0.770" in _summary(results)
  report.write_model_card(Results.of_json(results), str(tmp_path / 'README.md'))
  assert '| NDCG@10, teacher | 0.812 [0.750, 0.900] |' in (tmp_path / 'README.md').read_text()


def test_long_texts_of_the_worst_queries_are_cut_and_names_are_as_they_are_written(results):
  candidate = {'text': 'word ' * 200, 'label': 1.0, 'teacher': 1, 'student': 3}
  query = {'text': 'q' * 201, 'teacher': 1.0, 'student': 0.5, 'candidates': [candidate], 'more': 0}
  counts = dict.fromkeys(('queries', 'candidates', 'one_candidate', 'none_relevant'), 1)
  results['ranking'] = {'test': {**counts, 'worst': {'metric': 'ndcg@10', 'queries': [query]}}}
  results['environment'] = {'peak_memory_gb': 6.1, 'cpu': 'x'}
  found = _tables(results | {'models': results['models'][:1]})
  ((asked, *_, shown),) = found['Worst queries'].rows
  assert asked == f'{"q" * 200}…' and shown == f'{("word " * 40).rstrip()}… (1, 1 → 3)'
  assert [name for name, _ in found['Environment'].rows] == ['Peak memory GB', 'CPU']


def test_unseen_texts_stand_in_report_and_card_parts_alike_once(results, tmp_path):
  student = {'value': 0.478, 'interval': [0.4, 0.55]}
  changed = {'delta': -0.076, 'delta_interval': [-0.148, 0.006], 'p_value': 0.07}
  models = {'teacher': {'value': 0.517, 'interval': [0.45, 0.6]}, 'student': student | changed}
  of_test = {'set': 'test', 'unseen': 'left', 'tuples': 724, 'models': models}
  few = {'set': 'valid', 'learnt': 'train', 'unseen': 'both', 'tuples': 12}
  results['unseen'] = [
    {**of_test, 'learnt': 'train'},
    {**of_test, 'learnt': 'distillation'},
    few,
    {**few, 'unseen': 'right', 'tuples': 0},
  ]
  results['left_out'] = {'train': 190, 'distillation': 0}
  found = _tables(results)
  assert found['Unseen texts'].rows == [
    [
      'test: left text not in train or the distillation set',
      '724',
      '0.517 [0.450, 0.600]',
      '0.478 [0.400, 0.550]',
      '-7.6% [-14.8, 0.6]',
      '0.07',
    ],
    ['valid: both texts not in train', '12', '', '', '', ''],
  ]
  assert ['Left out of train', '190'] in found['Data'].rows
  line = (
    'Unseen, test: left text not in the distillation set: student 0.478 [0.400, 0.550], teacher'
  )
  assert line in _summary(results)
  _, body = _card(results, tmp_path)
  assert '## Unseen texts' in body and 'Left out: tuples that stand in valid or test.' in body
