"""A toy model, and a process that serves it for all tests: the local server's, or TF Serving's own.

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
  """Sums of rows and their halves; lengths of texts; rows by id."""

  @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, 'x')])
  def sums(self, x):
    return {'y': tf.reduce_sum(x, 1), 'half': tf.reduce_sum(x, 1) / 2}

  @tf.function(input_signature=[tf.TensorSpec([None], tf.string, 'text')])
  def lengths(self, text):
    return {'n': tf.strings.length(text, 'UTF8_CHAR')}

  @tf.function(input_signature=[tf.TensorSpec([None], tf.int32, 'ids')])
  def gathered(self, ids):
    return {'y': tf.gather(tf.constant([10.0, 20.0, 30.0]), ids)}


def save(path):
  module = Module()
  signatures = {
    'serving_default': module.sums,
    'lengths': module.lengths,
    'gathered': module.gathered,
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


@pytest.fixture(name='served', scope='session', params=SERVERS)
def _served(request, tmp_path_factory):
  base = tmp_path_factory.mktemp('server') / 'toy'
  save(f'{base}/1')
  args = ['--max_request_mb=1'] if request.param == 'local' else []
  server = Server(request.param, base, *args)
  yield server
  server.process.send_signal(signal.SIGTERM)
  assert server.process.wait(30) in (128 + signal.SIGTERM, *([0, -signal.SIGTERM] * server.real))
