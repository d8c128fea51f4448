"""The local server in a process of its own: both fronts, version swaps, a clean stop."""

import dataclasses
import json
import re
import shutil
import signal
import threading
import time
import urllib.request

import numpy as np
import pytest

from common.errors import InputError
from common.local_server.__main__ import ServerConfig, main
from common.serving import load_test
from common.serving.client import Client, Grpc, Rest, ServingError

X = np.array([[1, 2], [3, 4], [5, 6]], np.float32)


@pytest.mark.usefixtures('interruptible')
def test_a_signal_ends_the_command_while_models_load(monkeypatch):
  module = 'common.local_server.__main__'
  monkeypatch.setattr(f'{module}._keep_freed_memory', lambda: None)
  monkeypatch.setattr(f'{module}.Predictor', lambda *of: signal.raise_signal(signal.SIGINT))
  with pytest.raises(KeyboardInterrupt):
    main(ServerConfig(models=('toy=toy',), port=0, rest_api_port=0))


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
  assert served.post(path, b'{"instances": [[1, 2], [3, 4]]}') == (
    200,
    {'predictions': [{'y': 3.0, 'version': 1.0}, {'y': 7.0, 'version': 1.0}]},
  )
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


def test_metrics_and_health(served):
  if served.real:
    pytest.skip("the real server's own")
  assert served.post('/other', b'{}')[0] == 404
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
  (tmp_path / 'b.jsonl').write_text('[' * 200_000)
  with pytest.raises(InputError, match='b.jsonl: no requests: RecursionError'):
    load_test.main(config)
  (tmp_path / 'b.jsonl').write_text('{"inputs": {}}')
  with pytest.raises(InputError, match='b.jsonl: a request without inputs'):
    load_test.main(config)
  (tmp_path / 'b.jsonl').write_text('')
  with pytest.raises(InputError, match=r'b\.jsonl: no request in .*b\.jsonl'):
    load_test.main(dataclasses.replace(config, payload=f'{tmp_path}/b.jsonl'))


@pytest.mark.parametrize(
  ('config', 'message'),
  [
    (b'\xff\xfe', "can't decode"),
    (b'model_config_list {}', 'no model_config_list in it'),
    (b'model_config_list {' + 2 * b'config {name: "a"}' + b'}', 'each name once; a, a'),
  ],
)
def test_a_config_of_no_models_is_refused(config, message, tmp_path):
  (tmp_path / 'models').write_bytes(config)
  with pytest.raises(InputError, match=f'--model_config_file=.*models: .*{message}'):
    ServerConfig(model_config_file=str(tmp_path / 'models')).folders()


def test_a_line_of_a_load_is_what_rest_takes():
  body = {'signature_name': 'left', 'inputs': {'text': [{'b64': 'cmVk'}, 'x']}}
  assert load_test._request(body, '')[1]['text'].tolist() == [b'red', b'x']
  types = {
    ('right_ids', 'ids'): np.int32,
    ('serving_default', 'right'): np.float32,
    ('one_to_many_int8', 'right'): np.int8,
  }
  for (signature, name), expected in types.items():
    _, inputs = load_test._request({'inputs': {name: [[1, 2]]}}, signature)
    assert inputs[name].dtype == expected


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
    served.add_version(version)
    for _ in range(200):
      if version in seen:
        break
      time.sleep(0.1)
  stop.set()
  for thread in threads:
    thread.join()
  assert not lost and seen >= {1.0, 2.0, 3.0}


def test_a_stop_finishes_what_was_accepted(local_server):
  server, answers = local_server, []

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


def test_what_the_command_refuses(refusals):
  refused = {
    "/none: model 'a' cannot be served: no version folder such as 1/ in it": ['--models=a=/none'],
    '--models or --model_config_file: one of them': [],
  }
  found = refusals('common.local_server.__main__', list(refused.values()))
  for (status, said), message in zip(found, refused, strict=True):
    assert (status, message in said) == (2, True), said[-2000:]
