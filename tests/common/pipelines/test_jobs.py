"""A job goes on with the units that it began with; others are refused."""

import dataclasses

import pytest

from common.errors import InputError
from common.pipelines import jobs, reading
from common.pipelines.jobs import FilesConfig, OutputConfig


@dataclasses.dataclass(frozen=True)
class Count:
  """Rows of a unit; the file that is damaged fails."""

  damaged: str = ''

  def load(self):
    return None

  def run(self, unit, model, shard):
    if self.damaged and unit.path.endswith(self.damaged):
      raise InputError(f'{unit.path}: damaged')
    return sum(1 for _ in reading.rows(unit, shard.refuse))


def test_a_job_goes_on_with_the_units_that_it_began_with(tmp_path, capsys):
  def run(unit_bytes=12, damaged=''):
    files = FilesConfig((f'{tmp_path}/*.tsv',), unit_bytes)
    jobs.run(Count(damaged), files.units(), OutputConfig(f'{tmp_path}/out'), {}, [])

  (tmp_path / 'a.tsv').write_text('text\nred\nboots\n')
  (tmp_path / 'b.tsv').write_text('text\nbl')
  with pytest.raises(InputError, match='b.tsv: damaged'):
    run(damaged='b.tsv')
  (tmp_path / 'b.tsv').write_text('text\nblue\n')  # mended, before a row of it is done
  run()
  (tmp_path / 'c.tsv').write_text('text\nnew\n')
  run()
  assert capsys.readouterr().out.splitlines()[-1].startswith('4 rows in 4 shards, 0 bad rows')
  message = f'^{tmp_path}/out: begun with other --input or --unit_bytes, or .*{{}}.tsv has changed'
  for unit_bytes, of in ((100, 'a'), (12, 'c')):
    with pytest.raises(InputError, match=message.format(of)):
      run(unit_bytes)
    (tmp_path / 'c.tsv').unlink(missing_ok=True)
  (tmp_path / 'c.tsv').write_text('text\nold\n')
  with pytest.raises(InputError, match=message.format('c')):
    run()
