"""The commit that results are of."""

import subprocess

from common.distillation import results


def test_the_commit_is_this_repositorys_own(tmp_path, monkeypatch):
  assert results.commit()
  subprocess.run(['git', 'init', '-q', tmp_path], check=True)
  (tmp_path / 'results.py').touch()  # installed in a repository of another's
  monkeypatch.setattr(results, '__file__', str(tmp_path / 'results.py'))
  assert results.commit() == ''
