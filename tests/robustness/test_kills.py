"""Work that is killed before each of its steps that write, by either signal, and done again."""

import json
import os

import numpy as np
import pytest

from common import files
from common.distillation.mining import MiningConfig
from common.errors import InputError
from common.pipelines import shards
from common.vectors.writer import VectorWriter
from dipair import mine

RUN = """
import dataclasses, os, sys
from common import files, flags, termination
from common.distillation.run_folder import RunFolder

@dataclasses.dataclass(frozen=True)
class Config:
  run_dir: str = flags.option('', 'folder of the run')

@dataclasses.dataclass(frozen=True)
class Made:
  count: int

def write(folder):
  os.makedirs(os.path.join(folder, 'sets'), exist_ok=True)
  files.write_json(os.path.join(folder, 'sets', 'numbers.json'), [1, 2])
  return Made(2)

def add(folder):
  numbers = files.read_json(os.path.join(data.folder, 'sets', 'numbers.json'))
  files.write_json(os.path.join(folder, 'sum.json'), sum(numbers))
  return Made(1)

termination.expect()
run = RunFolder(sys.argv[1], Config(sys.argv[1]), 'toy.run', False)
data = run.stage('data', Made, write, {})
run.stage('sum', Made, add, {}, after=[data])
run.make()
"""
STORE = """
import os, sys
import numpy as np
from common import termination
from common.vectors.writer import VectorWriter

def encode(texts):
  return np.array([[len(text), ord(text[-1])] for text in texts], np.float32)

termination.expect()
begun = os.path.exists(f'{sys.argv[1]}/manifest.json')
for number in (2,) if begun else (1, 2):  # the second call replaces texts of the first
  rows = ((str(i), f'thing {i * number}') for i in range(12 * number))
  writer = VectorWriter(sys.argv[1], [2], 'float32', 'f', 'right')
  writer.fill(rows, encode, replace=True, shard_size=5)
"""
KILLS = """
import json, sys
from tests.robustness import kills
program, output, count, *arguments = sys.argv[1:]
found = kills.kills(program, arguments, output, int(count))
with open(output + '.json', 'w') as file:
  json.dump(found, file)
"""


@pytest.fixture(name='killed')
def _killed(python, tmp_path):
  """A function of a program, kills (0: before each step) and arguments to its kills, one by one."""

  def run(program, count, *arguments):
    output = str(tmp_path / 'output')
    done = python('-c', KILLS, program, output, str(count), *(a.format(output) for a in arguments))
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads((tmp_path / 'output.json').read_text())
    assert len(found['kills']) == (count or found['steps'])
    return found['kills']

  return run


def assert_equal(found):
  assert [kill for kill in found if kill['wrong']] == []
  assert {kill['status'] for kill in found} == {-9, 143}


def test_a_runs_folder_before_each_step(killed):
  found = killed(RUN, 0, '{}')
  assert_equal(found)
  steps = [kill['step'] for kill in found]
  assert steps[0].startswith('os.mkdir') and 'os.rename data.part' in steps, steps


def test_a_vector_store(killed):
  assert_equal(killed(STORE, 10, '{}'))


def test_a_job(killed, export, tmp_path):
  lines = ['id\ttext', *(f'{i}\tthing {i}' for i in range(20))]
  (tmp_path / 'texts.tsv').write_text('\n'.join(lines) + '\n')
  flags = (
    f'--export_dir={export("dipair").folder}',
    f'--input={tmp_path}/texts.tsv',
    '--threads=1',
  )
  flags += ('--unit_bytes=100', '--output={}')
  assert_equal(killed('common.pipelines.encode', 4, *flags))


def test_a_folder_at_work_is_refused_to_another_process(tmp_path):
  folder = str(tmp_path)
  writer = VectorWriter(folder, [1], 'float32', 'x', 'right')

  def job():
    with shards.alone(folder):
      pass

  for work in (
    lambda: writer.fill([('1', 'a')], lambda texts: np.zeros([1, 1], np.float32)),
    lambda: mine.main(mine.MineConfig(folder, mining=MiningConfig(mine_from=folder))),
    job,
  ):
    with files.alone(folder), pytest.raises(InputError, match='another process.* works in it'):
      work()
  assert os.listdir(folder) == []
