"""Requests run together have the answers that they have alone."""

import threading

import numpy as np
import pytest
import tensorflow as tf

from common.local_server.batching import MOST_TEXT, Batcher, BatchingConfig
from common.local_server.errors import ServingError
from common.local_server.signatures import Signature, Spec
from tests import limits


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


@pytest.mark.parametrize('count', [np.float32, lambda rows: np.zeros(rows + 1)])
def test_an_answer_that_cannot_be_split_is_given_to_each_alone(count):
  started, go_on = threading.Event(), threading.Event()

  def call(inputs):
    started.set()
    go_on.wait()
    return {'y': 2 * inputs['x'], 'count': count(len(inputs['x']))}

  batcher = Batcher(call, BatchingConfig())
  first = batcher.submit({'x': np.array([1])})
  started.wait()
  others = [batcher.submit({'x': np.array([n])}) for n in (2, 3)]
  go_on.set()
  found = [of.result(limits.ANSWER) for of in (first, *others)]
  assert [of['y'].tolist() for of in found] == [[2], [4], [6]]
  assert all(np.array_equal(of['count'], count(1)) for of in found)
  batcher.close()


def test_requests_of_one_row_whose_signature_takes_one_are_run_alone():
  started, go_on, sizes = threading.Event(), threading.Event(), []

  def call(inputs):
    started.set()
    go_on.wait()
    sizes.append(len(inputs['candidates']))
    return {'order': np.arange(len(inputs['candidates']))}

  specs = {'text': Spec(tf.string, (1,)), 'candidates': Spec(tf.float32, (-1, 2))}
  online = Signature('online', specs, {}, call)
  assert not online.joins and Signature('', {'x': Spec(tf.int32, (-1,))}, {}, call).joins
  batcher = Batcher(call, BatchingConfig(), joins=online.joins)
  inputs = {'text': np.array([b'a'], object), 'candidates': np.zeros([1, 2])}
  first = batcher.submit(inputs)
  started.wait()
  others = [batcher.submit(inputs) for _ in range(2)]
  go_on.set()
  assert [f.result()['order'].tolist() for f in (first, *others)] == [[0]] * 3
  batcher.close()
  assert sizes == [1, 1, 1]


def test_what_nobody_waits_for_is_refused_and_long_texts_are_run_alone():
  started, go_on, sizes = threading.Event(), threading.Event(), []

  def call(inputs):
    started.set()
    go_on.wait()
    sizes.append(len(inputs['text']))
    return inputs

  batcher = Batcher(call, BatchingConfig())
  text = np.array([b'a' * (MOST_TEXT // 2 + 1)], object)
  first = batcher.submit({'text': text})
  started.wait()
  gone = batcher.submit({'text': text}, lambda: False)
  two, three = (batcher.submit({'text': text}) for _ in range(2))
  go_on.set()
  assert all(len(future.result()['text'][0]) == len(text[0]) for future in (first, two, three))
  with pytest.raises(ServingError, match='nobody waits for it'):
    gone.result()
  batcher.close()
  assert sizes == [1, 1, 1]
