"""The local server among malformed requests, silent connections and bodies that do not end."""

import socket
import urllib.request

import numpy as np
import pytest

from benchmarks import malformed
from tests import limits

X = np.array([[1, 2], [3, 4]], np.float32)


@pytest.fixture(name='server', scope='module')
def _server(served):
  if served.real:
    pytest.skip("the real server's own")
  return served


def connect(server, request):
  host, port = server.url.removeprefix('http://').split(':')
  connection = socket.create_connection((host, int(port)), 20)
  connection.sendall(request)
  return connection


def test_good_requests_among_malformed_ones(server):
  at = server.url.removeprefix('http://')
  served = malformed.Served(
    server.target, at, server.process.pid, 'toy', 'serving_default', {'x': X}
  )
  found = malformed.run(served, malformed.MalformedConfig(cases=400, silent=400))
  assert (found['faults'], found['lost']) == (0, {}), found
  assert found['good'] > 10 and found['memory_ratio'] < 1.5
  assert sum(sum(answers.values()) for answers in found['answers'].values()) == 400
  assert server.process.poll() is None


def test_connections_that_say_nothing_make_room(server):
  silent = [connect(server, b'') for _ in range(400)]
  for _ in range(3):
    with urllib.request.urlopen(server.url + '/healthz', timeout=limits.ANSWER) as answer:
      assert answer.read() == b'ok\n'
  assert silent[0].recv(1) == b''  # the first of them was closed
  for connection in silent:
    connection.close()


def test_a_body_that_does_not_end_does_not_outlive_the_grace(server):
  start = b'POST /x HTTP/1.1\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n'
  connection = connect(server, start)
  assert connection.recv(100).startswith(b'HTTP/1.1 100')  # it was accepted
  connection.sendall(b'[')
  assert server.stop() == 0
  assert connection.recv(100).startswith(b'HTTP/1.1 408')
