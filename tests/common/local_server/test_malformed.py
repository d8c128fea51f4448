"""The local server among malformed requests and bodies that do not end."""

import socket

import numpy as np
import pytest

from tests.robustness import malformed

X = np.array([[1, 2], [3, 4]], np.float32)


@pytest.fixture(name='server', scope='module')
def _server(served):
  if served.real:
    pytest.skip("the real server's own")
  return served


def test_good_requests_among_malformed_ones(server):
  at = server.url.removeprefix('http://')
  served = malformed.Served(
    server.target, at, server.process.pid, 'toy', 'serving_default', {'x': X}
  )
  found = malformed.run(served, malformed.MalformedConfig(cases=400))
  assert (found['faults'], found['lost']) == (0, {}), found
  assert found['good'] > 10 and found['memory_ratio'] < 1.5
  assert sum(sum(answers.values()) for answers in found['answers'].values()) == 400
  assert server.process.poll() is None


def test_a_body_that_does_not_end_does_not_outlive_the_grace(server):
  host, port = server.url.removeprefix('http://').split(':')
  with socket.create_connection((host, int(port)), 20) as connection:
    line = b'POST /v1/models/toy:predict HTTP/1.1\r\nContent-Length: 9\r\n'
    connection.sendall(line + b'Expect: 100-continue\r\n\r\n')
    assert connection.recv(100).startswith(b'HTTP/1.1 100')  # it has begun
    connection.sendall(b'[')
    assert server.stop() == 0
