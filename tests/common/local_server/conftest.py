"""A toy model, and a process that serves it: the local server's, or TF Serving's own.

Where TF_MODEL_SERVER names a real `tensorflow_model_server`, it is asked the same.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
import tensorflow as tf

from tests import limits

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
REAL = os.environ.get('TF_MODEL_SERVER')
SERVERS = ['local', *(['real'] if REAL else [])]


class Module(tf.Module):
  """Sums of rows and their halves; lengths of texts; rows by id; one that takes its time."""

  @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, 'x')])
  def sums(self, x):
    return {'y': tf.reduce_sum(x, 1), 'half': tf.reduce_sum(x, 1) / 2}

  @tf.function(input_signature=[tf.TensorSpec([None], tf.string, 'text')])
  def lengths(self, text):
    return {'n': tf.strings.length(text, 'UTF8_CHAR')}

  @tf.function(input_signature=[tf.TensorSpec([None], tf.int32, 'ids')])
  def gathered(self, ids):
    return {'y': tf.gather(tf.constant([10.0, 20.0, 30.0]), ids)}

  @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, 'x')])
  def slow(self, x):
    steps = tf.range(40_000)  # some seconds
    grown = tf.foldl(lambda a, _: tf.tanh(a @ a), steps, tf.ones([64, 64]) / 64 + x[0, 0])
    return {'y': x[:, 0] + 0 * grown[0, 0]}


def save(path):
  module = Module()
  signatures = {
    'serving_default': module.sums,
    'lengths': module.lengths,
    'gathered': module.gathered,
    'slow': module.slow,
  }
  tf.saved_model.save(module, path, signatures)


def free_ports(count):
  with contextlib.ExitStack() as stack:
    sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
    for one in sockets:
      one.bind(('127.0.0.1', 0))
    return [one.getsockname()[1] for one in sockets]


class Server:
  """A process, its gRPC target and its REST address."""

  def __init__(self, kind, base, *args):
    ports = free_ports(2)
    config = base.parent / 'models.config'
    config.write_text(
      f'model_config_list {{ config {{ name: "toy" base_path: "{base}" '
      'model_platform: "tensorflow" } }'
    )
    command = [REAL] if kind == 'real' else [sys.executable, '-m', 'common.local_server']
    flags = [f'--model_config_file={config}', f'--port={ports[0]}', f'--rest_api_port={ports[1]}']
    self.log = open(base.parent / 'server.log', 'ab')  # noqa: SIM115
    environment = {**os.environ, 'PYTHONPATH': ROOT}
    self.process = subprocess.Popen(
      [*command, *flags, *args], cwd=ROOT, stdout=self.log, stderr=self.log, env=environment
    )
    self.target, self.url = f'127.0.0.1:{ports[0]}', f'http://127.0.0.1:{ports[1]}'
    self.base, self.real = base, kind == 'real'
    self.wait()

  def wait(self):
    until = time.monotonic() + limits.PROCESS
    while time.monotonic() < until:
      assert self.process.poll() is None, (self.base.parent / 'server.log').read_text()[-3000:]
      with contextlib.suppress(OSError, KeyError):
        states = self.get('/v1/models/toy')['model_version_status']
        if any(state['state'] == 'AVAILABLE' for state in states):
          return
      time.sleep(0.1)
    raise AssertionError('the server has not started')

  def get(self, path):
    with urllib.request.urlopen(self.url + path, timeout=limits.ANSWER) as answer:
      return json.load(answer)

  def post(self, path, body, **headers):
    request = urllib.request.Request(self.url + path, body, headers)
    try:
      with urllib.request.urlopen(request, timeout=limits.ANSWER) as answer:
        return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
      return error.code, json.load(error)

  def stop(self):
    self.process.send_signal(signal.SIGTERM)
    return self.process.wait(30)


def start(kind, folder, *args):
  """A server of a model `toy` of one version."""
  base = folder / 'toy'
  save(f'{base}/1')
  return Server(kind, base, *args)


@pytest.fixture(name='served', scope='module', params=SERVERS)
def _served(request, tmp_path_factory):
  args = ['--max_request_mb=1', '--grace_seconds=3'] if request.param == 'local' else []
  server = start(request.param, tmp_path_factory.mktemp('server'), *args)
  yield server
  if server.process.poll() is None:
    assert server.stop() in (0, -signal.SIGTERM)


@pytest.fixture(name='local_server')
def _local_server(tmp_path):
  """A local server that the test may stop."""
  server = start('local', tmp_path)
  yield server
  if server.process.poll() is None:
    server.stop()
