"""What the local server refuses, by both fronts: one line each, and it serves on."""

import http.client
import json
import re
import socket

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2, tensor_shape_pb2, types_pb2
from tensorflow_serving.apis import predict_pb2

from common.serving.client import Client, ServingError, request_of
from tests import limits

PREDICT = '/tensorflow.serving.PredictionService/Predict'
PATH = '/v1/models/toy:predict'
X = np.array([[1, 2], [3, 4], [5, 6]], np.float32)


def declared(signature, name, dtype, sizes, **values):
  """A request with one tensor, whose shape says more than it carries."""
  request = predict_pb2.PredictRequest()
  request.model_spec.name, request.model_spec.signature_name = 'toy', signature
  dimensions = [{'size': size} for size in sizes]
  shape = tensor_shape_pb2.TensorShapeProto(dim=dimensions)
  tensor = tensor_pb2.TensorProto(dtype=dtype, tensor_shape=shape, **values)
  request.inputs[name].CopyFrom(tensor)
  return request


FLOAT, INT32 = types_pb2.DT_FLOAT, types_pb2.DT_INT32


def predict(model='toy', signature='', **inputs):
  return request_of(model, signature, inputs)


REFUSED = {
  'wrong size': (predict(x=X[:, :1]), r'has the shape \[3, 1\]'),
  'wrong type': (predict(x=X.astype(np.int32)), 'is int32, not float32'),
  'no input': (predict(), "input 'x' is missing; it takes x: float32"),
  'another input': (predict(x=X, z=X), "there is no input 'z'"),
  'no rows': (predict(x=X[:0]), 'is empty'),
  'no signature': (
    predict(signature='no', x=X),
    "no signature 'no'; it has gathered, lengths",
  ),
  'a huge shape': (
    declared('', 'x', FLOAT, [1 << 29, 2], float_val=[1]),
    "input 'x' is no tensor: its shape makes the inputs larger than 1,048,576 bytes",
  ),
  'a huge shape of texts': (
    declared('lengths', 'text', types_pb2.DT_STRING, [1 << 30], string_val=[b'a']),
    'larger than 1,048,576 bytes',
  ),
  'a shape beyond 64 bits': (
    declared('', 'x', FLOAT, [1 << 62, 1 << 62], tensor_content=b'aaaa'),
    'larger than 1,048,576 bytes',
  ),
  'a long text for many': (
    declared('lengths', 'text', types_pb2.DT_STRING, [1 << 10], string_val=[b'a' * 1025]),
    'larger than 1,048,576 bytes',
  ),
  'more values than its shape': (
    declared('', 'x', FLOAT, [1, 2], float_val=[1] * 5),
    "input 'x' is no tensor",
  ),
  'a long name': (predict(model='m' * 5000), "no model 'm{100}'; there are toy"),
  'more texts than an encoder has memory for': (
    predict(signature='lengths', text=np.array([b''] * 1025, object)),
    "input 'text' has 1,025 rows; 1,024 are the most",
  ),
  'an open shape': (
    declared('', 'x', FLOAT, [-1, 2], float_val=[1]),
    r'its shape \[-1, 2\] leaves sizes open',
  ),
  'a value beyond its type': (
    declared('', 'x', types_pb2.DT_UINT8, [1, 2], int_val=[-7]),
    "input 'x' is no tensor: .*-7 out of bounds",
  ),
  'no type': (declared('', 'x', 999, [1, 2]), "input 'x' is no tensor"),
  'id too large': (
    declared('gathered', 'ids', INT32, [1], int_val=[10**6]),
    r'the model refuses it: indices\[0\] = 1000000 is not in \[0, 3\)',
  ),
  'no message': (predict(x=X).SerializeToString()[:-3], 'are no PredictReq'),
}


@pytest.mark.parametrize('name', REFUSED)
def test_what_grpc_refuses(served, name):
  request, message = REFUSED[name]
  data = request if isinstance(request, bytes) else request.SerializeToString()
  with grpc.insecure_channel(served.target) as channel:
    call = channel.unary_unary(PREDICT)
    with pytest.raises(grpc.RpcError) as refused:
      call(data, timeout=limits.ANSWER)
  if served.real:
    return
  unknown = name in ('no signature', 'a long name')
  assert refused.value.code().name == ('NOT_FOUND' if unknown else 'INVALID_ARGUMENT')
  assert re.search(message, refused.value.details())
  assert len(refused.value.details()) <= 500


BODIES = {
  b'{"instances": ': (400, 'not JSON'),
  b'{"inputs": [[1, 2]], "inputs": [[3, 4]]}': (400, "not JSON: the key 'inputs' stands twice"),
  b'[1]': (400, 'must be a JSON object'),
  b'{"instances": [[1, 2]], "inputs": [[1, 2]]}': (400, 'either "instances"'),
  b'{"instances": []}': (400, 'one or more'),
  b'{"instances": [[1, 2], [3]]}': (400, 'is not float32'),
  b'{"instances": [["a", "b"]]}': (400, 'is not float32'),
  b'{"instances": [{"x": [1, 2]}, {"y": 1}]}': (400, 'different inputs'),
  b'{"signature_name": "lengths", "instances": [3]}': (400, 'is no text'),
  b'{"inputs": [[NaN, 1]]}': (400, 'NaN is no number there'),
  b'{"inputs": [[1e39, 1]]}': (400, r'1e\+39 is beyond float32'),
  b'{"inputs": [[3e38, 3e38]]}': (500, 'the model gave NaN or infinity'),
  b'{"inputs": %s1%s}' % (b'[' * 500, b']' * 500): (400, r'\[\[.* is no float32'),
  b'{"inputs": %s1%s}' % (b'[' * 10**5, b']' * 10**5): (400, 'not JSON: maximum recursion'),
  b'{"inputs": [[1, "%s"]]}' % (b'a' * 10**5): (400, "'aaa.*aaa' is no float32"),
  b'{"inputs": [[1, true]]}': (400, 'True is no float32'),
  b'{"inputs": [1, 2]}': (400, r'has the shape \[2\], not float32'),
  b'{"inputs": {"%s": 1, "x": [[1, 2]]}}' % (b'z' * 10**5): (400, "there is no input 'z{100}'; it"),
  b'{"signature_name": "%s", "inputs": 1}' % (b'z' * 10**5): (404, "no signature 'z{100}'; it has"),
  b'{"signature_name": "gathered", "inputs": [%s]}' % (b'9' * 5000): (400, 'not JSON: .* 5000 dig'),
  b'{"signature_name": "gathered", "inputs": [%d]}' % 10**4000: (400, r'100000.* is beyond int32'),
  b'{"signature_name": "gathered", "inputs": [3]}': (400, r'indices\[0\] = 3 is not in \[0, 3\)'),
}


@pytest.mark.parametrize('body', BODIES, ids=lambda body: body[:60].decode())
def test_what_rest_refuses(served, body):
  code, found = served.post(PATH, body)
  if not served.real:
    assert code == BODIES[body][0]
    assert re.search(BODIES[body][1], found['error'])
  assert code >= 400


def test_paths_sizes_and_methods(served):
  if served.real:
    pytest.skip("the real server's own")
  assert served.post('/v1/models/none:predict', b'{}')[0] == 404
  assert served.post('/v1/models/toy/versions/9:predict', b'{"instances": [[1, 2]]}')[0] == 404
  assert served.post('/other', b'{}')[0] == 404
  assert served.post('/v1/models/toy', b'{}')[0] == 405
  host = served.url.removeprefix('http://')
  for headers, code in (({'Content-Length': str(100 << 20)}, 413), ({'Content-Length': 'x'}, 400)):
    connection = http.client.HTTPConnection(host, timeout=limits.ANSWER)
    connection.putrequest('POST', PATH)
    for name, value in headers.items():
      connection.putheader(name, value)
    connection.endheaders()
    assert connection.getresponse().status == code
  with pytest.raises(ServingError) as refused:
    Client(served.target, '').call('toy', '', {'x': np.zeros([200_000, 2], np.float32)})
  assert refused.value.code == grpc.StatusCode.RESOURCE_EXHAUSTED


def peak_bytes(server):
  """Most memory that the server's process has had at any time."""
  with open(f'/proc/{server.process.pid}/status', encoding='utf-8') as file:
    return int(re.search(r'VmHWM:\s+(\d+) kB', file.read())[1]) << 10


def test_a_huge_shape_is_refused_before_anything_is_made(served):
  if served.real:
    pytest.skip("the real server's own")
  request = declared('', 'x', FLOAT, [1 << 29, 2], float_val=[1]).SerializeToString()
  assert len(request) < 50
  before = peak_bytes(served)
  with grpc.insecure_channel(served.target) as channel, pytest.raises(grpc.RpcError):
    channel.unary_unary(PREDICT)(request, timeout=limits.ANSWER)
  assert peak_bytes(served) - before < 1 << 29  # of 4 GB


def test_one_value_may_stand_for_all(served):
  request = declared('', 'x', FLOAT, [3, 2], float_val=[2]).SerializeToString()
  with grpc.insecure_channel(served.target) as channel:
    answer = predict_pb2.PredictResponse.FromString(channel.unary_unary(PREDICT)(request))
  assert tf.make_ndarray(answer.outputs['y']).tolist() == [4, 4, 4]


def test_nan_is_computed_in_its_own_row(served):
  rows = np.array([[np.nan, 1], [1, 2], [np.inf, 0]], np.float32)
  outputs = Client(served.target, '').call('toy', '', {'x': rows})
  assert [str(value) for value in outputs['y'].tolist()] == ['nan', '3.0', 'inf']


def raw(server, request):
  """Status, headers and body of whatever is sent to the REST port."""
  host, port = server.url.removeprefix('http://').split(':')
  with socket.create_connection((host, int(port)), 20) as connection:
    connection.sendall(request)
    answer = http.client.HTTPResponse(connection)
    answer.begin()
    return answer.status, answer.headers, answer.read()


REQUESTS = {
  'PUT /v1/models/toy HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}': (405, 'PUT /v1/models/toy: GET'),
  f'GET /{"x" * 60_000} HTTP/1.1\r\n\r\n': (404, 'GET /xxx'),
  f'POST {PATH} HTTP/1.1\r\nContent-Length: {2 << 20}\r\n\r\n{"x" * (2 << 20)}': (
    413,
    'a request has 1,048,576 bytes at the most',
  ),
  f'POST {PATH} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n'
  f'{2 << 20:x}\r\n{"x" * (2 << 20)}\r\n0\r\n\r\n': (413, 'a request has 1,048,576 bytes'),
  f'POST {PATH} HTTP/1.1\r\n\r\n': (400, 'the body is not JSON'),
}


@pytest.mark.parametrize('request_text', REQUESTS, ids=lambda text: text[:40])
def test_what_is_refused_is_refused_in_json(served, request_text):
  if served.real:
    pytest.skip("the real server's own")
  code, message = REQUESTS[request_text]
  status, headers, body = raw(served, request_text.encode())
  assert (status, headers['Content-Type']) == (code, 'application/json')
  found = json.loads(body)
  assert list(found) == ['error'] and len(found['error']) <= 1000
  assert re.search(message, found['error'])
  assert (headers['Allow'] == 'GET') == (code == 405)
