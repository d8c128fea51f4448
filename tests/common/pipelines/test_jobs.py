"""A job's plan: another one's output is refused, by the name of what differs."""

import pytest

from common.data.tokenization import Tokenizer
from common.distillation.teacher import Teacher
from common.errors import InputError
from common.modeling import checkpoints
from common.pipelines import annotate, jobs, shards
from common.pipelines.jobs import FilesConfig, OutputConfig


@pytest.fixture(autouse=True)
def _interrupted(monkeypatch):
  def run(*_):
    raise KeyboardInterrupt

  monkeypatch.setattr(jobs, '_run', run)


def test_of_other_units_the_first_file_that_differs_is_named(tmp_path):
  def begin(unit_bytes=8):
    files = FilesConfig((f'{tmp_path}/*.tsv',), unit_bytes)
    todo, state = files.units()
    jobs.run(None, todo, OutputConfig(f'{tmp_path}/out'), {shards.FILES: state}, [])

  (tmp_path / 'a.tsv').write_text('text\nred\nboots\n')
  for _ in range(2):
    with pytest.raises(KeyboardInterrupt):
      begin()
  with pytest.raises(InputError, match=f'^{tmp_path}/out: begun with other --input or --unit_byt'):
    begin(unit_bytes=9)
  (tmp_path / 'b.tsv').write_text('text\nnew\n')
  with pytest.raises(InputError, match=rf'other files \({tmp_path}/b.tsv is new\); go on with'):
    begin()
  (tmp_path / 'a.tsv').write_text('text\nred\nboots\nmore\n')
  with pytest.raises(InputError, match=r'a.tsv is changed\)'):
    begin()
  (tmp_path / 'a.tsv').unlink()
  with pytest.raises(InputError, match=r'a.tsv is gone\)'):
    begin()


def test_an_annotation_goes_on_with_its_flags_alone(tmp_path, tsv):
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
