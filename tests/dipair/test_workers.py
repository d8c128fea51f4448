"""MultiWorkerMirrored over two processes of this machine, on a shared run folder."""

import json
import os
import socket
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def free_port():
  with socket.socket() as listener:
    listener.bind(('127.0.0.1', 0))
    return listener.getsockname()[1]


def test_two_workers_train_one_student(tmp_path):
  cluster = {'worker': [f'127.0.0.1:{free_port()}' for _ in range(2)]}
  processes = []
  for index in range(2):
    task = {'cluster': cluster, 'task': {'type': 'worker', 'index': index}}
    arguments = [
      '--flagfile=configs/smoke.flags',
      f'--run_dir={tmp_path / "run"}',
      '--distribution_strategy=multi_worker_mirrored',
    ]
    processes.append(
      subprocess.Popen(
        [sys.executable, '-m', 'dipair.run', *arguments],
        cwd=ROOT,
        env={**os.environ, 'TF_CONFIG': json.dumps(task)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
      )
    )
  try:
    outputs = [process.communicate(timeout=300)[0] for process in processes]
  finally:
    for process in processes:
      process.kill()
  assert [process.returncode for process in processes] == [0, 0], outputs[0][-2000:] + outputs[1]
  with open(tmp_path / 'run' / 'results.json', encoding='utf-8') as file:
    results = json.load(file)
  assert [len(phase['history']) for phase in results['training']] == [3, 3, 3]
  assert (tmp_path / 'run' / 'export' / 'head' / '1' / 'saved_model.pb').exists()
