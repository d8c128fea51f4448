"""A disk that is full or cannot be written, and folders that go while work is done in them."""

import contextlib
import subprocess

import pytest

SMOKE = ('-m', 'dipair.run', '--flagfile=configs/smoke.flags')
STORE = """
import sys
from common.errors import told
from common.vectors.writer import VectorWriter
import numpy as np
with told():
  writer = VectorWriter(sys.argv[1], [256], 'float32', 'x', 'right')
  rows = ((str(i), f'text {i}') for i in range(400))
  writer.fill(rows, lambda texts: np.ones([len(texts), 256], np.float32), shard_size=100)
"""
RUN = """
import dataclasses, os, shutil, sys
from common import files
from common.distillation.run_folder import RunFolder
from common.errors import told

@dataclasses.dataclass(frozen=True)
class Config:
  pass

def write(folder):
  shutil.rmtree(sys.argv[1])
  if sys.argv[2] == 'made again':
    os.makedirs(folder)
  files.write_json(os.path.join(folder, 'numbers.json'), [1])
  return Config()

with told():
  run = RunFolder(sys.argv[1], Config(), 'toy.run', False)
  run.stage('data', Config, write, {})
  run.make()
"""


@pytest.fixture(name='disk')
def _disk(tmp_path):
  """A function of a mount's options to a folder that is a disk of its own; where root may mount."""
  with contextlib.ExitStack() as stack:

    def mount(options):
      folder = tmp_path / 'disk'
      folder.mkdir(exist_ok=True)
      command = ['mount', '-t', 'tmpfs', '-o', options, 'tmpfs', str(folder)]
      try:
        subprocess.run(command, check=True, capture_output=True)
      except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f'a disk of its own cannot be mounted here: {error}')
      if 'remount' not in options:
        stack.callback(subprocess.run, ['umount', '-l', str(folder)], check=True)
      return folder

    yield mount


def refused(done):
  """The one line in which a command ended."""
  lines = [line for line in done.stderr.splitlines() if line.startswith('error: ')]
  assert (done.returncode, len(lines)) == (2, 1), done.stderr[-3000:]
  assert 'Traceback' not in done.stderr
  return lines[0]


@pytest.mark.parametrize(('size', 'within'), [('64k', '/data.part'), ('400k', '/teacher.part')])
def test_a_run_on_a_full_disk_names_the_file(disk, python, size, within):
  folder = disk(f'size={size}')
  line = refused(python(*SMOKE, f'--run_dir={folder}/run'))
  assert line.startswith(f'error: {folder}/run{within}') and 'No space left on device' in line
  assert not (folder / 'run' / within[1:].removesuffix('.part')).exists()


def test_a_store_on_a_full_disk_is_gone_on_with_where_there_is_room(disk, python):
  folder = disk('size=250k')
  line = refused(python('-c', STORE, f'{folder}/store'))
  assert line == f'error: {folder}/store/vectors-00002.arrow.tmp: No space left on device'
  assert not (folder / 'store' / 'manifest.json').exists()
  disk('remount,size=2m')
  done = python('-c', STORE, f'{folder}/store')
  assert done.returncode == 0, done.stderr[-2000:]


def test_a_disk_that_cannot_be_written_is_named(disk, python, export):
  folder = disk('ro,size=64k')
  (folder.parent / 'texts.tsv').write_text('id\ttext\n1\ta\n')
  (folder.parent / 'qa.tsv').write_text('question\tanswer\na\tb\n')
  encode = (f'--export_dir={export("dipair").folder}', f'--input={folder.parent}/texts.tsv')
  for command in (
    (*SMOKE, f'--run_dir={folder}/out'),
    ('-m', 'dipair.mine', f'--mine_from={folder.parent}', f'--run_dir={folder}/out'),
    ('-m', 'common.pretrain', '--flagfile=configs/pretrain.flags', f'--run_dir={folder}/out'),
    ('-m', 'common.pipelines.encode', *encode, f'--output={folder}/out'),
  ):
    line = refused(python(*command))
    assert line.startswith(f'error: {folder}/out') and line.endswith('Read-only file system'), line


def test_a_folder_below_a_file_is_named(tmp_path, python):
  (tmp_path / 'file').write_text('mine')
  line = refused(python(*SMOKE, f'--run_dir={tmp_path}/file/run'))
  assert line == f'error: {tmp_path}/file/run: Not a directory'


@pytest.mark.parametrize('then', ['gone', 'made again'])
def test_a_folder_removed_under_a_run_is_named_and_not_whole(tmp_path, python, then):
  line = refused(python('-c', RUN, f'{tmp_path}/run', then))
  assert line == f'error: {tmp_path}/run: removed while a process worked in it'
  assert not (tmp_path / 'run' / 'data').exists()
