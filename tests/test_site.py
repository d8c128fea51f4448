"""The site: built without a warning, of the files as they are."""

import os
import subprocess
import sys
from pathlib import Path

from common import console

ROOT = Path(__file__).parents[1]


def test_the_site_builds_without_a_warning_and_has_the_api(tmp_path):
  command = [sys.executable, '-m', 'mkdocs', 'build', '--strict', '--site-dir', str(tmp_path)]
  environment = {**os.environ, 'NO_MKDOCS_2_WARNING': '1'}
  done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
  assert done.returncode == 0, done.stderr[-3000:]
  api = (tmp_path / 'reference' / 'api' / 'index.html').read_text('utf-8')
  for name in (
    'common.scoring.scorer.PairScorer.rank',
    'common.vectors.store.VectorStore.delete',
    'common.training.loop.Callback',
  ):
    assert f'id="{name}"' in api
  home = (tmp_path / 'index.html').read_text('utf-8')
  assert 'id="which-model"' in home and 'href="how-to/rerank_server/"' in home
  assert 'href="tutorial/"' in home
  tutorial = (tmp_path / 'tutorial' / 'index.html').read_text('utf-8')
  assert (
    'correlation 0.99' in tutorial
    and '<th>float32</th>' in tutorial
    and '<style scoped' not in tutorial
  )
  assert 'href="../tutorial.ipynb"' in tutorial and (tmp_path / 'tutorial.ipynb').exists()
  results = (tmp_path / 'results' / 'index.html').read_text('utf-8')
  assert 'benchmarks/results' in results and 'href="../benchmarks' not in results
  commands = (tmp_path / 'reference' / 'commands' / 'index.html').read_text('utf-8')
  for module in [of for own in console.COMMANDS.values() for of in own.values()]:
    assert f'>{module}<' in commands
  assert '<code>--stage2_steps</code>' in commands and 'experiments.study' in commands
