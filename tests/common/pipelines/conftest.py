"""What jobs on Beam read: files, and DiPair's tiny export, for a job runs for one student."""

import pytest

from common.pipelines.jobs import FilesConfig


@pytest.fixture(name='exported', scope='session')
def _exported(export):
  return export('dipair')


@pytest.fixture(name='tsv', scope='session')
def _tsv():
  """A function (path, header, rows) to the flags of a TSV file, which it writes."""

  def write(path, header, rows):
    lines = ['\t'.join(row) for row in [header, *rows]]
    path.write_text('\n'.join(lines) + '\n', encoding='utf-8')
    return FilesConfig(input=(str(path),), unit_bytes=40)

  return write
