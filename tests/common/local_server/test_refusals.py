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

from common.local_server import json_tensors
from common.serving.client import Grpc, ServingError
from tests import limits

PREDICT = '/tensorflow.serving.PredictionService/Predict'
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


FLOAT, INT32, INT64 = types_pb2.DT_FLOAT, types_pb2.DT_INT32, types_pb2.DT_INT64


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
  'no signature': (
    predict(signature='no', x=X),
    'NOT_FOUND',
    "no signature 'no'; it has gathered, lengths",
  ),
  'no model': (predict(model='other', x=X), 'NOT_FOUND', "no model 'other'; there are toy"),
  'a huge shape': (
    declared('', 'x', FLOAT, [1 << 29, 2], float_val=[1]),
    'INVALID_ARGUMENT',
    "input 'x': .* are of 4,294,967,296 bytes; a request has 1,048,576 at the most",
  ),
  'a huge shape of texts': (
    declared('lengths', 'text', types_pb2.DT_STRING, [1 << 30], string_val=[b'a']),
    'INVALID_ARGUMENT',
    'are of 9,663,676,415 bytes',
  ),
  'a shape beyond 64 bits': (
    declared('', 'x', FLOAT, [1 << 62, 1 << 62], tensor_content=b'aaaa'),
    'INVALID_ARGUMENT',
    'bytes; a request has',
  ),
  'a long text for many': (
    declared('lengths', 'text', types_pb2.DT_STRING, [1 << 10], string_val=[b'a' * 1025]),
    'INVALID_ARGUMENT',
    'are of 1,056,767 bytes',
  ),
  'texts of resources': (
    declared('', 'x', FLOAT, [1, 2], resource_handle_val=[{'name': 'a'}]),
    'INVALID_ARGUMENT',
    'field 14 has 3 bytes; 0 are the most',
  ),
  'more values than its shape': (
    declared('', 'x', FLOAT, [1, 2], float_val=[1] * 5),
    'INVALID_ARGUMENT',
    r'5 values for the shape \[1, 2\]',
  ),
  'more dimensions than arrays have': (
    declared('', 'x', FLOAT, [1] * 65, float_val=[1]),
    'INVALID_ARGUMENT',
    '65 dimensions; 64 are the most',
  ),
  'many fields of two bytes': (
    b'\x12\x00' * 20_000,
    'INVALID_ARGUMENT',
    'a request has 16,384 fields and texts at the most',
  ),
  'a long name': (predict(model='m' * 5000), 'INVALID_ARGUMENT', '5,003 bytes; 4,096 are the most'),
  'more texts than are run together': (
    predict(signature='lengths', text=np.array([b''] * 1025, object)),
    'INVALID_ARGUMENT',
    "input 'text' has 1,025 rows; 1,024 are the most",
  ),
  'an open shape': (
    declared('', 'x', FLOAT, [-1, 2], float_val=[1]),
    'INVALID_ARGUMENT',
    r'its shape \[-1, 2\] leaves sizes open',
  ),
  'too short': (
    declared('', 'x', FLOAT, [1, 2], tensor_content=b'aaaa'),
    'INVALID_ARGUMENT',
    "input 'x' is no tensor",
  ),
  'a value beyond its type': (
    declared('', 'x', types_pb2.DT_UINT8, [1, 2], int_val=[-7]),
    'INVALID_ARGUMENT',
    "input 'x' is no tensor: .*-7 out of bounds",
  ),
  'no type': (declared('', 'x', 999, [1, 2]), 'INVALID_ARGUMENT', 'its type is number 999'),
  'id too large': (
    declared('gathered', 'ids', INT32, [1], int_val=[10**6]),
    'INVALID_ARGUMENT',
    r'the model refuses it: indices\[0\] = 1000000 is not in \[0, 3\)',
  ),
  'id below 0': (
    declared('gathered', 'ids', INT32, [1], int_val=[-1]),
    'INVALID_ARGUMENT',
    r'indices\[0\] = -1 is not in \[0, 3\)',
  ),
  'id of 64 bits': (
    declared('gathered', 'ids', INT64, [1], int64_val=[1 << 40]),
    'INVALID_ARGUMENT',
    'is int64, not int32',
  ),
  'no message': (predict(x=X).SerializeToString()[:-3], 'INVALID_ARGUMENT', 'are no PredictReq'),
}


@pytest.mark.parametrize('name', REFUSED)
def test_what_grpc_refuses(served, name):
  request, code, message = REFUSED[name]
  data = request if isinstance(request, bytes) else request.SerializeToString()
  with grpc.insecure_channel(served.target) as channel:
    call = channel.unary_unary(PREDICT)
    with pytest.raises(grpc.RpcError) as refused:
      call(data, timeout=limits.ANSWER)
  if served.real:
    return
  assert refused.value.code().name == code
  assert re.search(message, refused.value.details())


BODIES = {
  b'{"instances": ': (400, 'not JSON'),
  b'{"inputs": [[1, 2]], "inputs": [[3, 4]]}': (400, "not JSON: the key 'inputs' stands twice"),
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
  b'{"inputs": [[NaN, 1]]}': (400, 'NaN is no number there'),
  b'{"inputs": [[-Infinity, 1]]}': (400, 'Infinity is no number there'),
  b'{"inputs": [[1e39, 1]]}': (400, r'1e\+39 is beyond float32'),
  b'{"inputs": [[1e999, 1]]}': (400, 'inf is beyond float32'),
  b'{"inputs": [[3e38, 3e38]]}': (500, r"'serving_default': the model gave NaN or infinity"),
  b'{"inputs": %s1%s}' % (b'[' * 500, b']' * 500): (400, r'\[\[.* is no number'),
  b'{"inputs": {"z": %s1%s}}' % (b'[' * 500, b']' * 500): (400, "'x' is missing"),
  b'{"inputs": %s1%s}' % (b'[' * 10**5, b']' * 10**5): (400, 'not JSON: maximum recursion'),
  b'{"signature_name": "lengths", "inputs": %s%s}' % (b'[' * 500, b']' * 500): (400, 'is no text'),
  b'{"inputs": [[1, "%s"]]}' % (b'a' * 10**5): (400, "'aaa.*aaa' is no number"),
  b'{"inputs": [[1, true]]}': (400, 'True is no number'),
  b'{"inputs": [1, 2]}': (400, '1 is no list'),
  b'{"inputs": {"%s": 1, "x": [[1, 2]]}}' % (b'z' * 10**5): (400, "there is no input 'z{100}'; it"),
  b'{"signature_name": "%s", "inputs": 1}' % (b'z' * 10**5): (404, "no signature 'z{100}'; it has"),
  b'{"signature_name": "lengths", "inputs": "a"}': (400, "'a' is no list"),
  b'{"signature_name": "gathered", "inputs": [%s]}' % (b'9' * 5000): (400, 'not JSON: .* 5000 dig'),
  b'{"signature_name": "gathered", "inputs": [%d]}' % 10**4000: (400, 'object is not int32'),
  b'{"signature_name": "gathered", "inputs": [%d]}' % 2**40: (400, '1099511627776 is beyond int32'),
  b'{"signature_name": "gathered", "inputs": [3]}': (400, r'indices\[0\] = 3 is not in \[0, 3\)'),
  b'{"signature_name": "gathered", "inputs": [-1]}': (400, r'indices\[0\] = -1 is not in \[0, 3\)'),
}


@pytest.mark.parametrize('body', BODIES, ids=lambda body: body[:60].decode())
def test_what_rest_refuses(served, body):
  code, found = served.post('/v1/models/toy:predict', body)
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
    connection.putrequest('POST', '/v1/models/toy:predict')
    for name, value in headers.items():
      connection.putheader(name, value)
    connection.endheaders()
    assert connection.getresponse().status == code
  with pytest.raises(ServingError) as refused:
    Grpc(served.target).predict('toy', '', {'x': np.zeros([200_000, 2], np.float32)}, 10)
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
  outputs = Grpc(served.target).predict('toy', '', {'x': rows}, 20)
  assert [str(value) for value in outputs['y'].tolist()] == ['nan', '3.0', 'inf']


def test_more_values_than_json_may_have_are_not_parsed():
  with pytest.raises(ServingError, match='4,194,305 values and lists; 4,194,304 are the most'):
    json_tensors.parsed(b'{' + b',' * (1 << 22), '')


def raw(server, request):
  """Status, headers and body of whatever is sent to the REST port."""
  host, port = server.url.removeprefix('http://').split(':')
  with socket.create_connection((host, int(port)), 20) as connection:
    connection.sendall(request)
    answer = http.client.HTTPResponse(connection, method=request.split()[0].decode('latin-1'))
    answer.begin()
    return answer.status, answer.headers, answer.read()


REQUESTS = {
  **{
    f'{method} /v1/models/toy HTTP/1.1\r\nContent-Length: 2\r\n\r\n{{}}': (405, method)
    for method in ('PUT', 'DELETE', 'PATCH', 'OPTIONS', 'TRACE', 'OTHER')
  },
  f'GET /{"x" * 70_000} HTTP/1.1\r\n\r\n': (414, 'Too Long'),
  f'GET /{"x" * 60_000} HTTP/1.1\r\n\r\n': (404, 'GET /xxx'),
  f'GET /healthz HTTP/1.1\r\nA: {"x" * 70_000}\r\n\r\n': (431, 'Line too long'),
  'GET /healthz HTTP/1.1\r\n' + 'A: x\r\n' * 200 + '\r\n': (431, 'Too many headers'),
  f'GET /v1/models/toy/versions/{"9" * 5000} HTTP/1.1\r\n\r\n': (
    404,
    'GET /v1/models/toy/versions/999',
  ),
  f'POST / HTTP/1.1\r\nContent-Length: {"9" * 5000}\r\n\r\n': (400, 'Content-Length'),
  f'POST / HTTP/1.1\r\nContent-Length: {2 << 20}\r\n\r\n{"x" * (2 << 20)}': (413, '2,097,152'),
  'POST / HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n': (400, '2, 3'),
  'POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n': (411, 'Content-Length'),
  'POST / HTTP/1.1\r\n\r\n': (411, 'Content-Length is needed'),
  'nonsense\r\n\r\n': (400, 'nonsense'),
  'GET / HTTP/9.9\r\n\r\n': (505, 'HTTP version'),
}


@pytest.mark.parametrize('request_text', REQUESTS, ids=lambda text: text[:24])
def test_what_is_refused_is_refused_in_json(served, request_text):
  if served.real:
    pytest.skip("the real server's own")
  code, message = REQUESTS[request_text]
  status, headers, body = raw(served, request_text.encode())
  assert (status, headers['Content-Type']) == (code, 'application/json')
  found = json.loads(body)
  assert list(found) == ['error'] and len(found['error']) <= 1000
  assert re.search(message, found['error'])
  assert (headers['Allow'] == 'GET, POST') == (code == 405)


def test_an_answer_to_head_has_no_body(served):
  if served.real:
    pytest.skip("the real server's own")
  status, _, body = raw(served, b'HEAD /healthz HTTP/1.1\r\n\r\n')
  assert (status, body) == (405, b'')
