"""The local server in a process of its own: gRPC, REST, malformed requests."""

import socket

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import (
  get_model_metadata_pb2,
  get_model_status_pb2,
  model_service_pb2_grpc,
  prediction_service_pb2_grpc,
)

from common.errors import InputError
from common.local_server.__main__ import ServerConfig, serving
from common.serving.client import Client, ServingError, request_of
from tests import limits
from tests.robustness import malformed

X = np.array([[1, 2], [3, 4], [5, 6]], np.float32)


def test_grpc_answers_a_client_and_its_batches(served):
  client = Client(served.target, 'x', max_batch=2)
  np.testing.assert_allclose(client.call('toy', '', {'x': X})['y'], [3, 7, 11])
  texts = np.array([text.encode() for text in ('a', 'né', '')], object)
  assert client.call('toy', 'lengths', {'text': texts})['n'].tolist() == [1, 2, 0]
  assert client._batched('toy', 'serving_default', {'x': X})['y'].tolist() == [3, 7, 11]


def test_grpc_gives_the_version_and_the_outputs_that_are_asked_for(served):
  request = request_of('toy', '', {'x': X})
  request.model_spec.version.value = 1
  request.output_filter.append('half')
  with grpc.insecure_channel(served.target) as channel:
    predictions = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    answer = predictions.Predict(request, timeout=limits.ANSWER)
    asked = get_model_status_pb2.GetModelStatusRequest(model_spec=request.model_spec)
    status = model_service_pb2_grpc.ModelServiceStub(channel).GetModelStatus(asked)
    fields = {'model_spec': request.model_spec, 'metadata_field': ['signature_def']}
    metadata = predictions.GetModelMetadata(
      get_model_metadata_pb2.GetModelMetadataRequest(**fields)
    )
  assert (list(answer.outputs), answer.model_spec.version.value) == (['half'], 1)
  assert answer.model_spec.signature_name == 'serving_default'
  assert tf.make_ndarray(answer.outputs['half']).tolist() == [1.5, 3.5, 5.5]
  (state,) = status.model_version_status
  assert (state.version, state.state) == (1, get_model_status_pb2.ModelVersionStatus.AVAILABLE)
  signatures = get_model_metadata_pb2.SignatureDefMap()
  assert metadata.metadata['signature_def'].Unpack(signatures)
  assert signatures.signature_def['lengths'].outputs['n'].dtype == tf.int32.as_datatype_enum


def test_rows_and_columns(served):
  path = '/v1/models/toy:predict'
  assert served.post(path, b'{"instances": [[1, 2], [3, 4]]}') == (
    200,
    {'predictions': [{'y': 3.0, 'half': 1.5}, {'y': 7.0, 'half': 3.5}]},
  )
  code, found = served.post(path, b'{"instances": [{"x": [1, 2]}]}')
  assert (code, found['predictions'][0]['y']) == (200, 3)
  body = '{"signature_name": "lengths", "instances": ["ab", "é"]}'.encode()
  assert served.post(path, body) == (200, {'predictions': [2, 1]})
  code, found = served.post('/v1/models/toy/versions/1:predict', b'{"inputs": [[1, 2]]}')
  assert (code, found['outputs']['y']) == (200, [3.0])


def test_status_and_metadata(served):
  (state,) = served.get('/v1/models/toy')['model_version_status']
  assert (state['version'], state['state']) == ('1', 'AVAILABLE')
  signatures = served.get('/v1/models/toy/metadata')['metadata']['signature_def']['signature_def']
  assert {'serving_default', 'lengths', 'gathered'} <= signatures.keys()
  shape = signatures['serving_default']['inputs']['x']['tensor_shape']['dim']
  assert [int(one['size']) for one in shape] == [-1, 2]


def test_good_requests_among_malformed_ones(served):
  if served.real:
    pytest.skip("the real server's own")
  at, process = served.url.removeprefix('http://'), served.process
  server = malformed.Served(served.target, at, process.pid, 'toy', 'serving_default', {'x': X})
  found = malformed.run(server, malformed.MalformedConfig(cases=400))
  assert (found['faults'], found['lost']) == (0, {}), found
  assert found['good'] > 10 and found['memory_ratio'] < 1.5
  assert sum(sum(answers.values()) for answers in found['answers'].values()) == 400
  assert process.poll() is None


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


def test_a_body_that_does_not_end_does_not_hold_the_server_up(served):
  config = ServerConfig(models=(f'toy={served.base}',), port=0, rest_api_port=0)
  with serving(config) as (port, rest):
    connection = socket.create_connection(('127.0.0.1', rest), 20)
    line = b'POST /v1/models/toy:predict HTTP/1.1\r\nContent-Length: 9\r\n'
    connection.sendall(line + b'Expect: 100-continue\r\n\r\n')
    assert connection.recv(100).startswith(b'HTTP/1.1 100')  # it has begun
    connection.sendall(b'[')
  connection.close()
  with pytest.raises(ServingError, match="model 'toy', signature '', inputs x \\[3, 2\\]") as error:
    Client(f'127.0.0.1:{port}', 'x').call('toy', '', {'x': X})
  assert error.value.code == grpc.StatusCode.UNAVAILABLE


def test_what_the_command_refuses(refusals):
  refused = {
    'error: /none: no such folder; ': ['--models=a=/none'],
    '--models or --model_config_file: one of them': [],
  }
  found = refusals('common.local_server.__main__', list(refused.values()))
  for (status, said), message in zip(found, refused, strict=True):
    assert (status, message in said) == (2, True), said[-2000:]
