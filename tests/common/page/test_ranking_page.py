"""The page in a real browser: a query typed, a ranking shown, markup harmless; and its API."""

import contextlib
import dataclasses
import json
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import numpy as np
import pytest

from common.data.tokenization import Tokenizer
from common.distillation import export_teacher
from common.distillation.teacher import Teacher
from common.errors import InputError
from common.modeling import checkpoints
from common.page.__main__ import serving
from common.page.ranking_page import PageConfig, RankingPage
from common.scoring.scorer import PairScorer
from common.vectors.store import VectorStore
from tests import limits

CHROMIUM = shutil.which('chromium') or shutil.which('google-chrome')
TEXTS = {'a': 'red shoe', 'b': 'blue queen blanket', 'c': '<img src=x onerror="window.hurt=1">'}


@pytest.fixture(name='exported', scope='module')
def _exported(export):
  """DiPair's, whose attention the page shows."""
  return export('dipair')


@pytest.fixture(name='config', scope='module')
def _config(exported, tmp_path_factory):
  folder = tmp_path_factory.mktemp('page')
  rows = (json.dumps({'id': key, 'text': text}) for key, text in TEXTS.items())
  (folder / 'texts.jsonl').write_text('\n'.join(rows) + '\n')
  tiny = checkpoints.read(checkpoints.RANDOM_TINY)
  teacher = Teacher(tiny.config, Tokenizer(tiny.vocabulary, tiny.lower_case), 32, outputs=1)
  export_teacher.write(str(folder / 'teacher'), teacher)
  return PageConfig(
    export_dir=(exported[0], exported[0]),
    input=str(folder / 'texts.jsonl'),
    store=(str(folder / 'one'), str(folder / 'one')),
    teacher=str(folder / 'teacher'),
    runtime='litert',
    port=0,
  )


@pytest.fixture(name='url', scope='module')
def _url(config):
  with serving(config) as port:
    yield f'http://127.0.0.1:{port}'


def ask(url, path, body):
  request = urllib.request.Request(url + path, json.dumps(body).encode())
  try:
    with urllib.request.urlopen(request, timeout=limits.ANSWER) as answer:
      return answer.status, json.load(answer)
  except urllib.error.HTTPError as error:
    return error.code, json.load(error)


def test_ranking_is_the_scorers(url, exported):
  code, found = ask(url, '/demo/rank', {'query': 'shoe', 'model': 1, 'top_k': 2})
  scorer = PairScorer.load(exported[0])
  expected = scorer.rank('shoe', list(TEXTS.values()), 2)
  assert code == 200 and [one['id'] for one in found['results']] == [
    list(TEXTS)[row] for row, _ in expected
  ]
  scores = [one['score'] for one in found['results']]
  np.testing.assert_allclose(scores, [score for _, score in expected], atol=2e-2)  # int8 vectors
  assert all(found['ms'][name] >= 0 for name in ('encode', 'rank'))


def test_the_teacher_and_attention(url, exported, config):
  code, found = ask(url, '/demo/teacher', {'query': 'shoe', 'ids': ['b', 'a']})
  assert code == 200 and len(found['scores']) == 2
  code, found = ask(url, '/demo/pair', {'query': 'red', 'id': 'a', 'model': 0})
  model, tokenizer = exported[1:3]
  vectors = [
    model.encode(tokenizer.encode([text], length).to_tensor(tokenizer.pad_id), slot)[0].numpy()
    for slot, (text, length) in enumerate(zip(('red', TEXTS['a']), (16, 32), strict=True))
  ]
  expected = model.head.attention([v[None] for v in vectors])[0].numpy().mean(1)  # [layers, S, S]
  there = [bool(v.any()) for side in vectors for v in side]
  np.testing.assert_allclose(np.array(found['attention'])[:, there], expected[:, there], atol=1e-3)
  assert found['left'][0] == '[CLS]' and len(found['left'] + found['right']) == len(there)


@pytest.mark.parametrize(
  ('path', 'body', 'message'),
  [
    ('rank', [], 'the body must be a JSON object'),
    ('rank', {'query': ' '}, '"query" is a text of 1 to 500'),
    ('rank', {'query': '\ud800'}, 'half of a surrogate pair'),
    ('rank', {'query': 'x', 'model': 2}, '"model": 2; 0 to 1'),
    ('rank', {'query': 'x', 'model': 1.0}, '"model": 1.0; 0 to 1'),
    ('rank', {'query': 'x', 'top_k': 0}, '"top_k" is a number'),
    ('teacher', {'query': 'x', 'ids': 'a'}, '"ids" is a list of 1 to 100'),
    ('teacher', {'query': 'x', 'ids': []}, '"ids" is a list of 1 to 100'),
    ('pair', {'query': 'x', 'id': 'z'}, "no text of id 'z'"),
  ],
)
def test_what_the_api_refuses(url, path, body, message):
  code, found = ask(url, f'/demo/{path}', body)
  assert code == 400 and message in found['error']


def test_what_is_no_path_is_refused(url):
  assert ask(url, '/v1/models/x:predict', {}) == (
    404,
    {'error': 'POST /v1/models/x:predict: no such path; the page is at /'},
  )


def test_a_store_is_of_the_pages_texts(config, tmp_path):
  rows = {**TEXTS, 'd': 'new boots'}
  changed = dataclasses.replace(
    config,
    export_dir=config.export_dir[:1],
    teacher='',
    input=str(tmp_path / 'texts.jsonl'),
    store=(str(tmp_path / 'store'),),
  )
  shutil.copytree(config.store[0], changed.store[0])
  for extra, text in (('d', 'new boots'), ('a', 'an oak lamp')):
    rows[extra] = text
    lines = (json.dumps({'id': key, 'text': of}) for key, of in rows.items())
    (tmp_path / 'texts.jsonl').write_text('\n'.join(lines) + '\n')
    if extra == 'a':
      with pytest.raises(InputError, match="id 'a' is there with another text"):
        RankingPage(changed)
    else:
      vectors = RankingPage(changed)._rankers[0]._vectors
      assert (vectors.values.dtype, len(vectors)) == ('int8', 4)  # held as the store holds them
      assert len(VectorStore(changed.store[0])) == 4  # what it lacked is added


def test_what_the_command_refuses(config, url, tmp_path, monkeypatch):
  with pytest.raises(InputError, match='--export_dir, --store and --input are needed'):
    RankingPage(PageConfig())
  for most, rows, message in (
    (9, [], ': no rows'),
    (9, ['a', 'b', 'a'], ":3: id 'a' stands twice"),
    (2, ['a', 'b', 'c', 'not read'], ':3: the page takes 2 texts at the most'),
  ):
    monkeypatch.setattr('common.page.ranking_page._TEXTS', most)
    lines = [json.dumps({'id': key, 'text': 'x'}) if len(key) == 1 else key for key in rows]
    (table := tmp_path / 'rows.jsonl').write_text(''.join(f'{line}\n' for line in lines))
    with pytest.raises(InputError, match=message):
      RankingPage(dataclasses.replace(config, input=str(table)))
  with pytest.raises(InputError, match='--store: a folder for each'):
    PageConfig(export_dir=config.export_dir, input=config.input)
  monkeypatch.undo()
  taken = dataclasses.replace(config, port=int(url.split(':')[-1]), teacher='')
  with pytest.raises(InputError, match='cannot be listened to'), serving(taken):
    pass


def test_the_command_serves_until_it_is_told_to_stop(config):
  command = [sys.executable, '-m', 'common.page', f'--export_dir={config.export_dir[0]}']
  command += [f'--input={config.input}', f'--store={config.store[0]}', '--port=0']
  with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
    address = process.stdout.readline().strip().removeprefix('the page: ')
    assert ask(address, '/demo/rank', {'query': 'shoe'})[0] == 200
    with urllib.request.urlopen(address) as page:
      assert b'<label for="query"' in page.read()
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 128 + signal.SIGTERM


@pytest.fixture(name='page')
def _page(url):
  if not CHROMIUM:
    pytest.skip('no chromium on this machine')
  from playwright.sync_api import sync_playwright

  quiet = ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-sync']
  with contextlib.ExitStack() as stack:
    browser = stack.enter_context(sync_playwright()).chromium.launch(
      executable_path=CHROMIUM, args=[*quiet, '--disable-component-update', '--no-first-run']
    )
    page = browser.new_page()
    errors = []
    page.on('pageerror', lambda error: errors.append(str(error)))
    page.on('console', lambda said: said.type == 'error' and errors.append(said.text))
    page.goto(url)
    yield page
    browser.close()
  assert not errors


def test_a_query_is_typed_and_ranked(page):
  page.get_by_label('Query').press_sequentially('red shoe')
  rows = page.locator('#model-0 li')
  rows.nth(2).wait_for()
  assert sorted(rows.locator('button > span:nth-child(2)').all_inner_texts()) == sorted(
    TEXTS.values()
  )
  assert page.locator('#model-1 li').count() == 3
  assert 'encode' in page.locator('#model-0 .times').inner_text()
  page.get_by_label("teacher's scores").check()
  page.locator('.of-teacher', has_text='0.').first.wait_for()
  page.keyboard.press('/')
  page.keyboard.press('ArrowDown')
  page.keyboard.press('Enter')
  maps = page.locator('dialog table')
  maps.nth(1).wait_for()
  assert maps.locator('tbody tr').count() == 2 * 7
  page.keyboard.press('Escape')
  assert not page.locator('dialog').is_visible()


def test_markup_is_text(page):
  page.get_by_label('Query').fill(
    '<script>window.hurt=1</script><img src=x onerror="window.hurt=1">'
  )
  page.locator('#model-0 li').nth(2).wait_for()
  page.locator('#model-0 li button').first.click()
  page.locator('dialog table').first.wait_for()
  assert page.locator('img, main script').count() == 0
  assert page.evaluate('window.hurt') is None
  assert '<script>' in page.locator('#pair-text').inner_text()


def test_a_server_that_does_not_answer_is_said_and_shows_no_earlier_ranking(page):
  page.get_by_label('Query').fill('red shoe')
  page.locator('#model-0 li').nth(2).wait_for()
  page.evaluate("() => { window.fetch = () => Promise.reject(new TypeError('Failed to fetch')) }")
  page.locator('#model-0 li button').first.click()
  said = page.locator('#model-0 .times.error')
  assert said.inner_text() == 'The server does not answer.'
  page.get_by_label('Query').fill('blue')
  page.locator('#model-1 .times.error').wait_for()
  assert page.locator('li').count() == 0


def test_a_narrow_window_is_not_wider_than_it_is(page):
  page.set_viewport_size({'width': 320, 'height': 700})
  page.get_by_label('Query').fill('red shoe')
  text = page.locator('#model-0 .row > span:nth-child(2)').first
  text.evaluate("made => made.textContent = 'w'.repeat(300)")
  assert page.evaluate('document.documentElement.scrollWidth') == 320
