"""MultiWorkerMirrored over two processes of this machine, on a shared run folder."""

import json
import os
import signal
import socket
import time

import numpy as np
import pytest

from common import flags


def free_port():
  with socket.socket() as listener:
    listener.bind(('127.0.0.1', 0))
    return listener.getsockname()[1]


def cluster_of_two():
  """TF_CONFIG of each of two workers."""
  cluster = {'worker': [f'127.0.0.1:{free_port()}' for _ in range(2)]}
  return [
    json.dumps({'cluster': cluster, 'task': {'type': 'worker', 'index': index}})
    for index in range(2)
  ]


def finish(processes):
  done = [process.wait() for process in processes]
  assert [one.returncode for one in done] == [0] * len(done), [one.stderr[-2000:] for one in done]


def test_two_workers_train_one_student(tmp_path, start):
  arguments = [
    '--flagfile=configs/smoke.flags',
    f'--run_dir={tmp_path / "run"}',
    '--distribution_strategy=multi_worker_mirrored',
    *('--max_lengths=16,16', '--head=ffnn'),
    *('--teacher_steps=4', '--teacher_eval_every=2'),
    *('--stage1_steps=4', '--stage1_eval_every=2'),
  ]
  command = ['-m', 'dipair.run', *arguments]
  finish([start(*command, TF_CONFIG=config) for config in cluster_of_two()])
  with open(tmp_path / 'run' / 'results.json', encoding='utf-8') as file:
    results = json.load(file)
  assert [len(phase['history']) for phase in results['training']] == [3, 3, 3]
  assert (tmp_path / 'run' / 'export' / 'head' / '1' / 'saved_model.pb').exists()


_TRAIN = """
import json, sys
from tests.dipair.two_stages import train
from common import flags
from dipair.config import StudentConfig
config = flags.build(StudentConfig, json.loads(sys.argv[3]))
train(config, sys.argv[1], sys.argv[2], distribution_strategy='multi_worker_mirrored')
"""


def test_two_workers_end_with_the_weights_of_one_process(tiny, trained, tmp_path, start, last_step):
  """Of the same global batch, to a thousandth of a step: the sums' order differs."""
  config = json.dumps(flags.flat(tiny()[0].config))
  command = ['-c', _TRAIN, str(tmp_path), str(trained / 'distill'), config]
  finish([start(*command, TF_CONFIG=task) for task in cluster_of_two()])
  for stage, rate in (('stage1', 1e-2), ('stage2', 1e-3)):
    one, two = last_step(trained / 'student' / stage), last_step(tmp_path / stage)
    weights = [name for name in one if name.startswith('variables/') and 'SLOT' not in name]
    assert weights and one.keys() == two.keys()
    for name in weights:
      np.testing.assert_allclose(two[name], one[name], atol=rate / 1000, err_msg=name)


_ENDLESS = """
import sys
sys.path.insert(0, sys.argv[1])
from common import termination
termination.expect()
import test_loop
from common.training import loop, strategies
strategy = strategies.create(strategies.DeviceConfig('multi_worker_mirrored'))
with strategy.scope():
  line = test_loop.task(batches=lambda start: test_loop.batches().rebatch(2).repeat())
phase = loop.PhaseConfig(learning_rate=1e-3, batch_size=4, steps=10**6, eval_every=10**6)
make = loop.train_step
def train_step(*arguments):
  step = make(*arguments)
  def run(batch):
    step(batch)
    open(sys.argv[2] + '/stepped', 'w').close()
  return run
loop.train_step = train_step
loop.fit(line, phase, sys.argv[2], strategy=strategy)
"""


@pytest.mark.parametrize('asked', [0, 1])
def test_a_worker_that_is_asked_to_end_takes_the_other_along(tmp_path, start, asked):
  loop = os.path.join(os.path.dirname(__file__), '..', 'common', 'training')
  command = ['-c', _ENDLESS, loop, str(tmp_path / 'phase')]
  workers = [start(*command, TF_CONFIG=task) for task in cluster_of_two()]
  while not (tmp_path / 'phase' / 'stepped').exists():
    assert [one.poll() for one in workers] == [None, None]
    time.sleep(0.1)
  os.kill(workers[asked].number, signal.SIGTERM)
  done = [one.wait() for one in workers]
  assert [one.returncode for one in done] == [143, 143], [one.stderr[-2000:] for one in done]
  state = (tmp_path / 'phase' / 'checkpoints' / 'checkpoint').read_text()
  assert 'model_checkpoint_path: "ckpt-0"' not in state
