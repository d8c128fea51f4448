"""A job goes on with its own flags and units; others are refused, by the name of what differs."""

import dataclasses

import pytest

from common.data.tokenization import Tokenizer
from common.distillation.teacher import Teacher
from common.errors import InputError
from common.modeling import checkpoints
from common.pipelines import annotate, jobs, reading
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


def test_an_annotation_goes_on_with_its_flags_alone(tmp_path, tsv, monkeypatch):
  def interrupted(*_):
    raise KeyboardInterrupt

  monkeypatch.setattr(jobs, '_run', interrupted)
  pretrained, teacher = checkpoints.read('random-tiny'), str(tmp_path / 'teacher')
  tokenizer = Tokenizer(pretrained.vocabulary, pretrained.lower_case)
  Teacher(pretrained.config, tokenizer, 32, 1).save(teacher)
  files = tsv(tmp_path / 'pairs.tsv', ('left', 'right'), [('red', 'boots')])

  def begin(output, **given):
    out = OutputConfig(str(tmp_path / output))
    annotate.main(annotate.AnnotateConfig((teacher,), files, out=out, **given), [])

  for given in ({'teacher_max_length': 64}, {'classes': ('no', 'yes')}):
    (name,) = given
    for _ in range(2):
      with pytest.raises(KeyboardInterrupt):
        begin(name, **given)
    with pytest.raises(InputError, match=f'begun with other {name}; go on with those'):
      begin(name)
