"""The local server in a process of its own: both fronts, refusals, version swaps, a clean stop.

Where TF_MODEL_SERVER names a real `tensorflow_model_server`, it is asked the same.
"""

import contextlib
import dataclasses
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2

from common.errors import InputError
from common.serving import load_test
from common.serving.client import Client, Grpc, Rest, ServingError

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
REAL = os.environ.get('TF_MODEL_SERVER')
SERVERS = ['local', *(['real'] if REAL else [])]


class Module(tf.Module):
  """Sums of rows, times the version; lengths of texts; a signature that takes its time."""

  def __init__(self, version):
    super().__init__()
    self.version = tf.Variable(float(version))

  @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, 'x')])
  def sums(self, x):
    return {'y': tf.reduce_sum(x, 1) * self.version, 'version': 0 * x[:, 0] + self.version}

  @tf.function(input_signature=[tf.TensorSpec([None], tf.string, 'text')])
  def lengths(self, text):
    return {'n': tf.strings.length(text, 'UTF8_CHAR')}

  @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, 'x')])
  def slow(self, x):
    steps = tf.range(1500)
    grown = tf.foldl(lambda a, _: tf.tanh(a @ a), steps, tf.ones([64, 64]) / 64 + x[0, 0])
    return {'y': x[:, 0] + 0 * grown[0, 0]}


def save(base, version, **changes):
  module = Module(version)
  signatures = {'serving_default': module.sums, 'lengths': module.lengths, 'slow': module.slow}
  part = f'{base}/.{version}'
  tf.saved_model.save(module, part, signatures)
  os.rename(part, f'{base}/{version}')


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
    command = [REAL] if kind == 'real' else [sys.executable, '-m', 'common.serving.local_server']
    flags = [f'--model_config_file={config}', f'--port={ports[0]}', f'--rest_api_port={ports[1]}']
    self.log = open(base.parent / 'server.log', 'ab')  # noqa: SIM115
    environment = {**os.environ, 'PYTHONPATH': ROOT}
    self.process = subprocess.Popen(
      [*command, *flags, *args], cwd=ROOT, stdout=self.log, stderr=self.log, env=environment
    )
    self.target, self.url = f'127.0.0.1:{ports[0]}', f'http://127.0.0.1:{ports[1]}'
    self.base = base
    self.wait()

  def wait(self):
    for _ in range(600):
      assert self.process.poll() is None, (self.base.parent / 'server.log').read_text()[-3000:]
      with contextlib.suppress(OSError, KeyError):
        states = self.get('/v1/models/toy')['model_version_status']
        if any(state['state'] == 'AVAILABLE' for state in states):
          return
      time.sleep(0.1)
    raise AssertionError('the server has not started')

  def get(self, path):
    with urllib.request.urlopen(self.url + path, timeout=10) as answer:
      return json.load(answer)

  def post(self, path, body, **headers):
    request = urllib.request.Request(self.url + path, body, headers)
    try:
      with urllib.request.urlopen(request, timeout=20) as answer:
        return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
      return error.code, json.load(error)

  def stop(self):
    self.process.send_signal(signal.SIGTERM)
    return self.process.wait(30)


@pytest.fixture(name='served', scope='module', params=SERVERS)
def _served(request, tmp_path_factory):
  base = tmp_path_factory.mktemp('server') / 'toy'
  base.mkdir()
  save(base, 1)
  server = Server(
    request.param, base, *(['--max_request_mb=1'] if request.param == 'local' else [])
  )
  yield server
  if server.process.poll() is None:
    assert server.stop() in (0, -signal.SIGTERM)


X = np.array([[1, 2], [3, 4], [5, 6]], np.float32)


@pytest.mark.parametrize('transport', ['grpc', 'rest'])
def test_both_fronts_answer_alike(served, transport):
  client = Client(served.target if transport == 'grpc' else served.url, 'x', max_batch=2)
  np.testing.assert_allclose(client.call('toy', '', {'x': X})['y'], [3, 7, 11])
  texts = np.array([text.encode() for text in ('a', 'né', '')], object)
  outputs = client.call('toy', 'lengths', {'text': texts})
  assert next(iter(outputs.values())).tolist() == [1, 2, 0]
  assert client._batched('toy', 'serving_default', {'x': X})['y'].tolist() == [3, 7, 11]


def test_rows_and_columns(served):
  path = '/v1/models/toy:predict'
  if not REAL:  # which takes no bare rows of a signature of two outputs
    code, found = served.post(path, b'{"instances": [[1, 2], [3, 4]]}')
    assert code == 200
    assert found == {'predictions': [{'y': 3.0, 'version': 1.0}, {'y': 7.0, 'version': 1.0}]}
  code, found = served.post(path, b'{"instances": [{"x": [1, 2]}]}')
  assert (code, found['predictions'][0]['y']) == (200, 3)
  body = b'{"signature_name": "lengths", "instances": ["ab", {"b64": "w6k="}]}'
  assert served.post(path, body) == (200, {'predictions': [2, 1]})
  code, found = served.post('/v1/models/toy/versions/1:predict', b'{"inputs": [[1, 2]]}')
  assert (code, found['outputs']['y']) == (200, [3.0])


def test_status_and_metadata(served):
  (state,) = served.get('/v1/models/toy')['model_version_status']
  assert (state['version'], state['state']) == ('1', 'AVAILABLE')
  signatures = served.get('/v1/models/toy/metadata')['metadata']['signature_def']['signature_def']
  assert {'serving_default', 'lengths', 'slow'} <= signatures.keys()
  shape = signatures['serving_default']['inputs']['x']['tensor_shape']['dim']
  assert [int(one['size']) for one in shape] == [-1, 2]


def predict(model='toy', signature='', **inputs):
  request = predict_pb2.PredictRequest()
  request.model_spec.name, request.model_spec.signature_name = model, signature
  for name, value in inputs.items():
    request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
  return request


REFUSED = {
  'wrong rank': (
    predict(x=X[0]),
    'INVALID_ARGUMENT',
    r'has the shape \[2\], not float32 \[\?, 2\]',
  ),
  'wrong size': (predict(x=X[:, :1]), 'INVALID_ARGUMENT', r'has the shape \[3, 1\]'),
  'wrong type': (predict(x=X.astype(np.int32)), 'INVALID_ARGUMENT', 'is int32, not float32'),
  'no input': (predict(), 'INVALID_ARGUMENT', "input 'x' is missing; it takes x: float32"),
  'another input': (predict(x=X, z=X), 'INVALID_ARGUMENT', "there is no input 'z'"),
  'no rows': (predict(x=X[:0]), 'INVALID_ARGUMENT', 'is empty'),
  'no signature': (predict(signature='no', x=X), 'NOT_FOUND', "no signature 'no'; it has lengths"),
  'no model': (predict(model='other', x=X), 'NOT_FOUND', "no model 'other'; there are toy"),
  'no message': (predict(x=X).SerializeToString()[:-3], 'INVALID_ARGUMENT', 'are no PredictReq'),
}


@pytest.mark.parametrize('name', REFUSED)
def test_what_grpc_refuses(served, name):
  request, code, message = REFUSED[name]
  data = request if isinstance(request, bytes) else request.SerializeToString()
  with grpc.insecure_channel(served.target) as channel:
    call = channel.unary_unary('/tensorflow.serving.PredictionService/Predict')
    with pytest.raises(grpc.RpcError) as refused:
      call(data, timeout=10)
  if REAL:
    return
  assert refused.value.code().name == code
  assert re.search(message, refused.value.details())


BODIES = {
  b'{"instances": ': (400, 'not JSON'),
  b'[1]': (400, 'either "instances"'),
  b'{"instances": [[1, 2]], "inputs": [[1, 2]]}': (400, 'either "instances"'),
  b'{"instances": []}': (400, 'one or more'),
  b'{"instances": [[1]]}': (400, r'shape \[1, 1\]'),
  b'{"instances": [[1, 2], [3]]}': (400, 'is not float32'),
  b'{"instances": [["a", "b"]]}': (400, 'is not float32'),
  b'{"instances": [{"x": [1, 2]}, {"y": 1}]}': (400, 'different inputs'),
  b'{"inputs": {"z": [[1, 2]]}}': (400, "'x' is missing"),
  b'{"signature_name": "lengths", "instances": [3]}': (400, 'is no text'),
  b'{"signature_name": "lengths", "instances": [{"b64": "?"}]}': (400, 'b64'),
  b'{"signature_name": "no", "instances": [3]}': (404, "no signature 'no'"),
}


@pytest.mark.parametrize('body', BODIES)
def test_what_rest_refuses(served, body):
  code, found = served.post('/v1/models/toy:predict', body)
  if not REAL:
    assert code == BODIES[body][0]
    assert re.search(BODIES[body][1], found['error'])
  assert code >= 400


def test_paths_sizes_and_methods(served):
  if REAL:
    pytest.skip("the real server's own")
  assert served.post('/v1/models/none:predict', b'{}')[0] == 404
  assert served.post('/v1/models/toy/versions/9:predict', b'{"instances": [[1, 2]]}')[0] == 404
  assert served.post('/other', b'{}')[0] == 404
  assert served.post('/v1/models/toy', b'{}')[0] == 405
  host = served.url.removeprefix('http://')
  for headers, code in (({'Content-Length': str(100 << 20)}, 413), ({'Content-Length': 'x'}, 400)):
    connection = http.client.HTTPConnection(host, timeout=10)
    connection.putrequest('POST', '/v1/models/toy:predict')
    for name, value in headers.items():
      connection.putheader(name, value)
    connection.endheaders()
    assert connection.getresponse().status == code
  too_large = predict(x=np.zeros([200_000, 2], np.float32))
  with pytest.raises(ServingError) as refused:
    Grpc(served.target).predict('toy', '', {'x': np.zeros([200_000, 2], np.float32)}, 10)
  assert refused.value.code == grpc.StatusCode.RESOURCE_EXHAUSTED and too_large.ByteSize() > 1 << 20
  with urllib.request.urlopen(served.url + '/monitoring/prometheus/metrics') as answer:
    text = answer.read().decode()
  assert re.search(r'requests_total\{api="rest",code="404",model=""\} [1-9]', text)
  with urllib.request.urlopen(served.url + '/healthz') as answer:
    assert answer.read() == b'ok\n'


def test_load(served, tmp_path, capsys):
  np.savez(tmp_path / 'a.npz', x=X)
  line = {'signature_name': 'serving_default', 'inputs': {'x': X[:1].tolist()}}
  (tmp_path / 'b.jsonl').write_text(json.dumps(line) + '\n')
  config = load_test.LoadConfig(served.target, 'toy', payload=f'{tmp_path}/*.*', concurrency=4)
  config = dataclasses.replace(config, requests=100, output=str(tmp_path / 'out'))
  load_test.main(config)
  found = json.loads((tmp_path / 'out').read_text())
  assert (found['requests'], found['errors']) == (100, {})
  assert found['rows_per_second'] == pytest.approx(2 * found['requests_per_second'])
  assert 0 < found['p50'] <= found['p95'] <= found['p99'] < found['seconds']
  with pytest.raises(InputError, match='5 NOT_FOUND; the first: '):
    load_test.main(dataclasses.replace(config, model='none', requests=5))


def test_versions_are_swapped_without_losing_a_request(served):
  transports = [Grpc(served.target), Rest(served.url)]
  stop, lost, seen = threading.Event(), [], set()

  def ask(transport):
    while not stop.is_set():
      try:
        outputs = transport.predict('toy', '', {'x': X}, 20)
        version = outputs['version'][0]
        assert outputs['y'].tolist() == [3 * version, 7 * version, 11 * version]
        seen.add(version)
      except Exception as error:
        lost.append(error)

  threads = [threading.Thread(target=ask, args=(t,)) for t in transports * 2]
  for thread in threads:
    thread.start()
  (served.base / '9').mkdir()  # half copied: the one before is served on
  (served.base / '9' / 'saved_model.pb').write_bytes(b'half')
  time.sleep(2)
  states = served.get('/v1/models/toy')['model_version_status']
  assert any(state['state'] == 'AVAILABLE' and state['version'] == '1' for state in states)
  shutil.rmtree(served.base / '9')
  for version in (2, 3):
    save(served.base, version)
    for _ in range(200):
      if version in seen:
        break
      time.sleep(0.1)
  stop.set()
  for thread in threads:
    thread.join()
  assert not lost and seen >= {1.0, 2.0, 3.0}


def test_a_stop_finishes_what_was_accepted(tmp_path):
  base = tmp_path / 'toy'
  base.mkdir()
  save(base, 1)
  server, answers = Server('local', base), []

  def ask(transport):
    answers.append(transport.predict('toy', 'slow', {'x': X}, 30))

  threads = [
    threading.Thread(target=ask, args=(t,)) for t in (Grpc(server.target), Rest(server.url))
  ]
  for thread in threads:
    thread.start()
  time.sleep(0.05)
  assert server.stop() == 0
  for thread in threads:
    thread.join()
  assert len(answers) == 2
  with pytest.raises(ServingError) as refused:
    Client(server.target, 'x', deadline=0.5).call('toy', '', {'x': X})
  assert re.match(
    r"model 'toy', signature '', inputs x \[3, 2\], tried \d times", str(refused.value)
  )


def test_the_client_repeats_what_may_be_repeated(monkeypatch):
  calls = []

  class Flaky:
    def predict(self, model, signature, inputs, seconds):
      calls.append(seconds)
      if len(calls) < 3:
        raise ServingError('busy', grpc.StatusCode.UNAVAILABLE)
      if len(calls) == 4:
        raise ServingError('wrong', grpc.StatusCode.INVALID_ARGUMENT)
      return {'y': np.ones(1)}

  client = Client('localhost:1', 'toy')
  client._transport = Flaky()
  assert client.call('head', '', {})['y'] == 1 and len(calls) == 3
  with pytest.raises(ServingError, match="model 'toy_head', signature '', inputs : wrong"):
    client.call('head', '', {})
  assert len(calls) == 4


def test_what_the_command_refuses(refusals):
  refused = {
    "/none: model 'a' cannot be served: no version folder such as 1/ in it": ['--models=a=/none'],
    '--models or --model_config_file: one of them': [],
  }
  found = refusals('common.serving.local_server.__main__', list(refused.values()))
  for (status, said), message in zip(found, refused, strict=True):
    assert (status, message in said) == (2, True), said[-2000:]
