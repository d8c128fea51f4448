"""Requests run together have the answers that they have alone."""

import threading

import numpy as np
import pytest

from common.local_server.batching import Batcher, BatchingConfig


def test_a_request_that_the_model_refuses_costs_the_others_nothing():
  started, go_on, sizes = threading.Event(), threading.Event(), []

  def call(inputs):
    started.set()
    go_on.wait()
    sizes.append(len(inputs['x']))
    if (inputs['x'] < 0).any():
      raise ValueError('a row is below 0')
    return {'y': 2 * inputs['x']}

  batcher = Batcher(call, BatchingConfig())
  first = batcher.submit({'x': np.array([1])})
  started.wait()  # while it runs, the others wait, and become one batch
  good, bad, late = (batcher.submit({'x': np.array(rows)}) for rows in ([2, 3], [-4], [5]))
  go_on.set()
  assert [f.result()['y'].tolist() for f in (first, good, late)] == [[2], [4, 6], [10]]
  with pytest.raises(ValueError, match='a row is below 0'):
    bad.result()
  batcher.close()
  assert sizes == [1, 4, 2, 1, 1]
