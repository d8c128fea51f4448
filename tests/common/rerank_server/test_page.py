"""The page in a real browser, on real servers: a search typed, documents reranked, a key asked."""

import contextlib
import json
import re
import shutil
import threading
import time
import urllib.request

import pytest
import uvicorn

from common.rerank_server.__main__ import ServeConfig, ranking_of
from common.rerank_server.app import application
from common.scoring.scorer import PairScorer
from common.vectors.values import Stored, narrowed

CHROMIUM = shutil.which('chromium') or shutil.which('google-chrome')
QUIET = ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-sync']
QUIET += ['--disable-component-update', '--no-first-run']
TEXTS = {'a': 'red shoe', 'b': 'blue queen blanket', 'c': '<img src=x onerror="window.hurt=1">'}
pytestmark = pytest.mark.skipif(not CHROMIUM, reason='no chromium on this machine')


@contextlib.contextmanager
def serving(config, keys=()):
  """A server's address, while the block runs."""
  server = uvicorn.Server(
    uvicorn.Config(application(ranking_of(config), keys), port=0, log_level='error')
  )
  thread = threading.Thread(target=server.run)
  thread.start()
  try:
    while not server.started:
      time.sleep(0.01)
    yield f'http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}'
  finally:
    server.should_exit = True
    thread.join()


@pytest.fixture(name='exported', scope='module')
def _exported(export):
  return export('dipair')[0]


@pytest.fixture(name='searched', scope='module')
def _searched(exported, tmp_path_factory):
  """The address of a server with a store, an index and texts."""
  folder = tmp_path_factory.mktemp('page')
  rows = (json.dumps({'id': key, 'text': text}) for key, text in TEXTS.items())
  (folder / 'texts.jsonl').write_text('\n'.join(rows) + '\n')
  paths = {'store': 'store', 'index': 'indexes/store.faiss', 'input': 'texts.jsonl'}
  config = ServeConfig(
    export=exported,
    runtime='litert',
    encoder_runtime='litert',
    **{flag: str(folder / name) for flag, name in paths.items()},
  )
  with serving(config) as url:
    yield url


@pytest.fixture(name='reranked', scope='module')
def _reranked(exported):
  """The address of a server without a store, which wants a key."""
  config = ServeConfig(export=exported, runtime='litert', encoder_runtime='litert')
  with serving(config, ['secret']) as url:
    yield url


@pytest.fixture(name='browser', scope='module')
def _browser():
  from playwright.sync_api import sync_playwright

  with sync_playwright() as started:
    browser = started.chromium.launch(executable_path=CHROMIUM, args=QUIET)
    yield browser
    browser.close()


@pytest.fixture(name='page')
def _page(browser):
  """A tab; scripts must not fail, nor the policy of the server be broken."""
  page = browser.new_page(viewport={'width': 360, 'height': 700})
  errors = []
  page.on('pageerror', lambda error: errors.append(str(error)))
  page.on('console', lambda said: 'Policy' in said.text and errors.append(said.text))
  yield page
  page.close()
  assert not errors


def texts(page, of):
  return page.locator(f'#{of} .text').all_inner_texts()


def test_a_search_shows_our_order_and_the_first_stages(page, searched, exported):
  page.goto(searched)
  page.get_by_label('Query').press_sequentially('red shoe')
  page.locator('#ours li').nth(2).wait_for()
  scorer = PairScorer.load(exported, 'litert', encoder_runtime='litert')
  stored = Stored(*narrowed(scorer.encode(list(TEXTS.values()), 'right'), 'int8'))
  ranked = scorer.rank('red shoe', stored)
  page.wait_for_function("document.querySelectorAll('#theirs li').length === 3")
  ours, theirs = texts(page, 'ours'), texts(page, 'theirs')
  assert ours == [list(TEXTS.values())[row] for row, _ in ranked]
  scores = [float(score) for score in page.locator('#ours .score').all_inner_texts()]
  assert scores == pytest.approx([score for _, score in ranked], abs=2e-2)
  for place, (text, moved) in enumerate(
    zip(ours, page.locator('#ours .moved').all_inner_texts(), strict=True), 1
  ):
    before = 1 + theirs.index(text)
    arrow = '↑' if before > place else '↓'
    assert moved == ('= same' if before == place else f'{arrow} from {before}')
  moved = [f'now {1 + ours.index(text)}' for text in theirs]
  assert page.locator('#theirs .moved').all_inner_texts() == moved
  times = r'\d+ ms round trip: encode [\d.]+, first stage [\d.]+, head [\d.]+'
  assert re.fullmatch(times, page.locator('#status').inner_text())
  assert 'What a score of 0.70 means: the label' in page.locator('#meaning').inner_text()
  assert page.url.endswith('?q=red%20shoe')


def test_documents_are_encoded_once_and_a_key_is_asked_for_once(page, reranked):
  page.goto(reranked)
  for key in ('wrong', 'secret'):
    page.get_by_label('API key').fill(key)
    assert 'a key is needed' in page.locator('#status').inner_text()
    page.keyboard.press('Enter')
    page.wait_for_load_state()
  page.get_by_label('Documents').fill('blue throw\n\n  \n' + 'w' * 300 + '\nred shoe')
  for encoded in (3, 0):
    page.get_by_role('button', name='Rerank').click()
    page.get_by_text(f'ms round trip: {encoded} of 3 documents encoded').wait_for()
  assert sorted(texts(page, 'ours')) == ['blue throw', 'red shoe', 'w' * 300]
  assert not page.locator('#first').is_visible()
  assert page.evaluate('document.documentElement.scrollWidth') == 360
  page.reload()
  page.get_by_label('Query').wait_for()


def test_markup_is_text_and_other_hosts_are_not_asked(page, searched):
  page.goto(searched)
  page.get_by_label('Query').fill('<script>window.hurt=1</script>')
  page.locator('#ours li').nth(2).wait_for()
  assert page.locator('img, main script').count() == 0 and page.evaluate('window.hurt') is None
  with urllib.request.urlopen(searched) as answer:
    policy = answer.headers['Content-Security-Policy']
  assert "default-src 'none'" in policy and "script-src 'self';" in policy


def test_a_refusal_is_shown_and_no_earlier_ranking(page, searched):
  page.goto(f'{searched}?q=red')
  page.locator('#ours li').nth(2).wait_for()
  page.get_by_label('Query').fill('x' * 100_001)
  page.get_by_text('query: String should have at most 100000 characters').wait_for()
  assert not page.locator('#ours').is_visible()
  page.route('**/v1/search', lambda route: route.abort())
  page.get_by_label('Query').fill('blue')
  page.get_by_text('The server does not answer.').wait_for()
