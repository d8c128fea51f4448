"""A run's folder: what is done again, what is not, and what is refused."""

import dataclasses
import os
import re
import shutil
import subprocess
import sys

import pytest

from common import flags
from common.distillation.run_folder import RunFolder
from common.errors import InputError

PROGRAM = 'toy.run'
ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), '..', '..', '..'))


@dataclasses.dataclass(frozen=True)
class Config:
  rate: float = flags.option(0.1, 'of the model')
  size: int = flags.option(3, 'of the data')
  title: str = flags.option('', 'of the report: no stage depends on it')
  redo: bool = flags.option(False, 'of one start', kept=False)


@dataclasses.dataclass(frozen=True)
class Found:
  name: str
  found: list[str]


class Run:
  """data → model → export, and data → figures; `calls` says what was done."""

  def __init__(self, path):
    self.path, self.calls, self.failing, self.checks = str(path), [], '', {}

  def __call__(self, config: Config | None = None, redo: bool = False, program: str = PROGRAM):
    config = config or Config()
    self.calls.clear()
    folder = RunFolder(self.path, config, program, redo)
    data = self.stage(folder, 'data', size=config.size, shape=(1, 2))
    model = self.stage(folder, 'model', data, rate=config.rate)
    self.stage(folder, 'export', model)
    self.stage(folder, 'figures', data)
    folder.make()
    return {stage.name: stage.result for stage in folder.stages}

  def stage(self, folder, name, *after, **depends_on):
    check = self.checks.get(name)
    return folder.stage(name, Found, self._work(name), depends_on, after=after, check=check)

  def _work(self, name: str):
    def work(folder: str):
      self.calls.append(name)
      assert os.path.basename(folder) == f'{name}.part'
      found = sorted(set(os.listdir(folder)) - {'stage.json'})
      with open(os.path.join(folder, f'step{len(found)}'), 'w', encoding='utf-8') as file:
        file.write(name)
      if self.failing == name:
        raise RuntimeError('interrupted')
      return Found(name, found)

    return work

  def files(self, name: str) -> list[str]:
    return sorted(os.listdir(os.path.join(self.path, name)))


ALL = ['data', 'model', 'export', 'figures']


@pytest.fixture
def run(tmp_path) -> Run:
  return Run(tmp_path / 'run')


def refused(call) -> str:
  with pytest.raises(InputError) as caught:
    call()
  assert '\n' not in str(caught.value)
  return str(caught.value)


def test_stages_run_once(run, capsys):
  results = run()
  assert run.calls == ALL
  assert results == {name: Found(name, []) for name in ALL}
  assert sorted(os.listdir(run.path)) == sorted([*ALL, 'flags.txt'])
  said = capsys.readouterr().out.splitlines()
  assert said[::2] == [f'{name}: starts' for name in ALL]
  for name, line in zip(ALL, said[1::2], strict=True):
    assert re.fullmatch(rf'{name}: made in \d+\.\d s; peak memory so far \d+\.\d+ GB', line)
  assert run() == results
  assert run.calls == []
  assert capsys.readouterr().out.splitlines() == [f'{name}: done' for name in ALL]


def test_flags_are_saved_under_their_command(run):
  run(Config(rate=0.5, title='T'))
  with open(os.path.join(run.path, 'flags.txt'), encoding='utf-8') as file:
    header = '# python -m toy.run --flagfile=flags.txt'
    assert file.read().splitlines() == [header, '--rate=0.5', '--size=3', '--title=T']


def test_an_interrupted_stage_goes_on_in_its_folder(run):
  run.failing = 'model'
  with pytest.raises(RuntimeError, match='interrupted'):
    run()
  assert run.calls == ['data', 'model']
  assert sorted(os.listdir(run.path)) == ['data', 'flags.txt', 'model.part']  # no whole `model`
  run.failing = ''
  assert run()['model'] == Found('model', ['step0'])
  assert run.calls == ['model', 'export', 'figures']
  assert run.files('model') == ['stage.json', 'step0', 'step1']


def test_a_lost_stage_is_made_again_alone(run):
  run()
  os.rename(os.path.join(run.path, 'export'), os.path.join(run.path, '..', 'taken'))
  run()
  assert run.calls == ['export']


@pytest.mark.parametrize(
  ('config', 'difference', 'stages'),
  [
    (Config(rate=0.2), 'rate was 0.1, is 0.2', 'model, export'),
    (Config(size=4), 'size was 3, is 4', 'data, model, export, figures'),
    (Config(size=4, rate=0.2), 'size was 3, is 4', 'data, model, export, figures'),
  ],
)
def test_changed_flags_are_refused_with_what_they_would_cost(config, difference, stages, run):
  run()
  before = run.files('.')
  assert refused(lambda: run(config)) == (
    f'--run_dir={run.path}: made with other flags ({difference}); '
    f'--redo makes {stages} anew, another --run_dir leaves them'
  )
  assert (run.calls, run.files('.')) == ([], before)
  run()  # the flags that made it are still its flags
  assert run.calls == []


def test_redo_replaces_what_depends_on_the_flag_alone(run, capsys):
  run()
  run(Config(rate=0.2), redo=True)
  assert run.calls == ['model', 'export']
  assert run.files('model') == ['stage.json', 'step0']  # nothing of the old one is left
  out = capsys.readouterr().out
  assert 'model: made anew (rate was 0.1, is 0.2)' in out
  assert 'export: made anew (an earlier stage changed)' in out
  run(Config(rate=0.2))
  assert run.calls == []


def test_an_output_that_the_run_cannot_use_is_refused_before_anything_is_removed(run):
  checked = []
  run.checks['data'] = checked.append
  run()
  assert checked == [os.path.join(run.path, 'data.part')]  # as soon as it is there
  run()
  assert len(checked) == 1  # there is nothing to make

  def refuse(folder):
    raise InputError(f'{os.path.basename(folder)} of two rows')

  run.checks['data'] = refuse
  assert refused(lambda: run(Config(rate=0.2), redo=True)) == 'data of two rows'
  assert run.calls == [] and os.path.exists(os.path.join(run.path, 'model'))
  shutil.rmtree(os.path.join(run.path, 'data'))
  assert refused(run) == 'data.part of two rows'
  assert not os.path.exists(os.path.join(run.path, 'data'))


def test_consent_to_redo_is_for_one_start(run):
  run()
  run(Config(rate=0.2, redo=True), redo=True)
  again = flags.parse(Config, {'flagfile': os.path.join(run.path, 'flags.txt'), 'rate': 0.3})
  assert 'rate was 0.2, is 0.3' in refused(lambda: run(again, redo=again.redo))
  assert flags.changed(Config(redo=True)) == []


def test_a_flags_file_is_known_by_what_it_holds_wherever_it_lies(run):
  def started(path, digest='x', rate=0.1):
    given = {'train_file': path, 'valid_file': path, f'sha256 of {path}': digest}
    folder = RunFolder(run.path, Config(), PROGRAM, False)
    run.stage(folder, 'model', run.stage(folder, 'data', **given), rate=rate)
    folder.make()

  started('a.jsonl')
  started('/data/b.jsonl')
  assert run.calls == ['data', 'model']
  assert '(rate was 0.1, is 0.2); --redo makes model anew' in refused(
    lambda: started('/data/b.jsonl', rate=0.2)
  )
  for other in (('a.jsonl', 'y'), ('a.jsonl.gz', 'x')):
    name, digest = other
    held = f'{name.removeprefix("a")} of sha256 {digest}'
    assert f'(train_file was .jsonl of sha256 x, is {held}, valid_file was' in refused(
      lambda other=other: started(*other)
    )


def test_an_interrupted_stage_of_other_flags_is_refused_too(run):
  run.failing = 'model'
  with pytest.raises(RuntimeError):
    run()
  run.failing = ''
  assert '(rate was 0.1, is 0.2); --redo makes model anew' in refused(lambda: run(Config(rate=0.2)))
  assert run(Config(rate=0.2), redo=True)['model'].found == []


def test_a_stage_that_ended_on_its_first_input_costs_nothing(run, monkeypatch):
  def end(folder: str):
    os.makedirs(os.path.join(folder, 'train'))
    with open(os.path.join(folder, 'train', 'rows.tmp'), 'w', encoding='utf-8') as file:
      file.write('not whole')
    raise InputError('no such column')

  monkeypatch.setattr(run, '_work', lambda name: end)
  assert refused(run) == 'no such column'
  monkeypatch.undo()
  run(Config(size=4))
  assert run.calls == ALL


def test_a_flag_that_no_stage_depends_on_changes_nothing(run):
  run()
  run(Config(title='another'))
  assert run.calls == []


def test_foreign_folders_are_refused(run):
  os.makedirs(run.path)
  with open(os.path.join(run.path, 'thesis.txt'), 'w', encoding='utf-8') as file:
    file.write('mine')
  assert refused(run) == f'--run_dir={run.path}: holds files but no flags.txt; name a new folder'
  assert run.files('.') == ['thesis.txt']


def test_a_run_killed_before_its_flags_were_whole_is_begun_again(run):
  os.makedirs(run.path)
  with open(os.path.join(run.path, 'flags.txt.tmp'), 'w', encoding='utf-8') as file:
    file.write('# python')
  run()
  assert run.calls == ALL


def test_a_stage_half_removed_is_neither_whole_nor_gone_on_with(run, monkeypatch):
  run()
  run.failing = 'export'
  with pytest.raises(RuntimeError, match='interrupted'):
    run(Config(rate=0.2), redo=True)
  run.failing = ''
  assert run.files('.') == ['data', 'export.part', 'figures', 'flags.txt', 'model']

  remove = shutil.rmtree

  def killed(folder, **_):
    if os.path.exists(os.path.join(folder, 'stage.json')):
      os.remove(os.path.join(folder, 'stage.json'))
      raise KeyboardInterrupt
    remove(folder, ignore_errors=True)

  for _ in ('model', 'export.part'):
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
      patch.setattr(shutil, 'rmtree', killed)
      run(Config(rate=0.3), redo=True)
  results = run(Config(rate=0.3), redo=True)
  assert [results[name].found for name in ALL] == [[], [], [], []]
  assert run.files('.') == sorted([*ALL, 'flags.txt'])


def test_remains_of_a_finished_stage_are_removed(run):
  run()
  os.makedirs(os.path.join(run.path, 'export.part', 'head'))
  run()
  assert run.files('.') == sorted([*ALL, 'flags.txt'])


_AT_WORK = """
import dataclasses, sys, time
from common.distillation.run_folder import RunFolder

@dataclasses.dataclass(frozen=True)
class Config:
  pass

def work(folder):
  print('at work', flush=True)
  time.sleep(600)

run = RunFolder(sys.argv[1], Config(), 'toy.run', False)
run.stage('data', Config, work, {})
run.make()
"""


def test_one_process_at_a_time_works_in_a_folder_and_a_killed_one_leaves_it_free(run):
  command = [sys.executable, '-c', _AT_WORK, run.path]
  with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as other:
    try:
      assert [other.stdout.readline() for _ in range(2)] == ['data: starts\n', 'at work\n']
      assert refused(run) == (
        f'--run_dir={run.path}: another process works in it; wait for its end, or name another'
      )
      assert run.calls == []
    finally:
      other.kill()
  run(redo=True)
  assert run.calls == ALL


def test_a_file_is_no_folder(run):
  with open(run.path, 'w', encoding='utf-8') as file:
    file.write('mine')
  assert refused(run) == f'--run_dir={run.path}: a file; name a new folder'
  with pytest.raises(InputError, match='^--run_dir=gs://b/run: a folder of this machine is needed'):
    RunFolder('gs://b/run', Config(), PROGRAM, redo=False)


@pytest.mark.parametrize('name', ['a[1]', 'a*', 'a?', 'a\\b', 'a[1]/run'])
def test_a_path_that_tensorflow_takes_for_a_pattern_is_refused_before_the_first_stage(
  tmp_path, name
):
  run = Run(tmp_path / name)
  message = f'--run_dir={run.path}: TensorFlow takes {name[1]!r} in a path for a pattern; name'
  assert refused(run).startswith(message)
  assert run.calls == [] and not list(tmp_path.iterdir())


def test_an_empty_folder_will_do(run):
  os.makedirs(run.path)
  run()
  assert run.calls == ALL


def test_another_programs_run_is_refused(run):
  run()
  made_by = 'python -m toy.run --flagfile=flags.txt'
  message = f'--run_dir={run.path}: made by `{made_by}`; name another folder'
  assert refused(lambda: run(program='other.run')) == message


def test_a_run_does_not_start_from_what_it_makes(tmp_path):
  run = Run(tmp_path / 'run')
  run()
  for redo in (False, True):
    folder = RunFolder(run.path, Config(), PROGRAM, redo)
    run.stage(folder, 'model')
    run.stage(folder, 'export', **{f'contents of {tmp_path}/other/../run/model': 'x'})
    with pytest.raises(
      InputError, match='run/model is made here, and cannot be what this run star'
    ):
      folder.make()
  assert os.path.exists(tmp_path / 'run' / 'model')
