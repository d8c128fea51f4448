"""The commit that results are of."""

import subprocess

from common.distillation import provenance


def test_the_commit_is_this_repositorys_own(tmp_path, monkeypatch):
  assert provenance.commit()
  subprocess.run(['git', 'init', '-q', tmp_path], check=True)
  (tmp_path / 'provenance.py').touch()  # installed in a repository of another's
  monkeypatch.setattr(provenance, '__file__', str(tmp_path / 'provenance.py'))
  assert provenance.commit() == ''
