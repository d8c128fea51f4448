"""A query's text and its candidates' vectors in one SavedModel."""

import functools
import os

import numpy as np
import pytest
import tensorflow as tf

from common.export import saved_models
from common.export.online import write
from common.scoring import exported
from tests.conftest import TWO_DEPTHS

LEFT = ['red', 'wide footwear', 'nike shoes', '']
RIGHT = ['black nike shoes for boys', 'red throw', 'x', 'wide red boots']


@functools.cache
def signature(folder):
  return exported.load(os.path.join(folder, 'online')).signatures['serving_default']


def online(folder, query, candidates):
  outputs = signature(folder)(text=tf.constant([query]), candidates=tf.constant(candidates))
  return {name: value.numpy() for name, value in outputs.items()}


@pytest.mark.parametrize(
  ('kind', 'changes'),
  [('dipair', {}), ('dipair', TWO_DEPTHS), ('dse', {})],
  ids=['dipair', 'dipair of two depths', 'dse'],
)
def test_online_scores_and_order_are_those_of_encode_and_rank(export, load, kind, changes):
  folder = export(kind, **changes).folder
  scorer = load(folder)
  candidates = scorer.encode([*RIGHT, RIGHT[1]], 'right')  # the last ties with the second
  for query in LEFT:
    ranked = scorer.rank(query, candidates)
    found = online(folder, query, candidates)
    assert found['order'].tolist() == [i for i, _ in ranked]
    in_order = found['scores'][found['order']]
    np.testing.assert_allclose(in_order, [score for _, score in ranked], atol=1e-5)
    scores = scorer.score([query] * 5, candidates)
    np.testing.assert_allclose(found['scores'], scores, atol=1e-5)
    alone = online(folder, query, candidates[2:3])
    np.testing.assert_allclose(alone['scores'], found['scores'][2:3], atol=1e-5)
  assert np.ptp(found['scores']) > (1e-3 if kind == 'dipair' else 1e-4)


def test_online_of_classes_has_scores_and_no_order(classes, load):
  assert classes.result['online_bytes'] == saved_models.size(os.path.join(classes.folder, 'online'))
  assert classes.result['max_difference'] <= 1e-5
  scorer = load(classes.folder)
  candidates = scorer.encode(RIGHT, 'right')
  for query in LEFT:
    found = online(classes.folder, query, candidates)
    assert set(found) == {'scores'}
    expected = scorer.score([query] * 4, candidates)
    np.testing.assert_allclose(found['scores'], expected, atol=1e-5)


def test_order_is_by_logits_where_float32_has_one_score_for_many(tmp_path):
  logits = tf.constant([[35.3], [13.8], [20.1], [24.0], [35.1], [16.9], [29.7]])

  def score(left, right):
    return {'logits': logits, 'score': tf.sigmoid(logits)[:, 0]}

  @tf.function
  def encode(*, text):
    return {'vectors': tf.zeros([1, 2])}

  samples = {'left': np.array(['a']), 'right': np.zeros([7, 2], np.float32)}
  made = write(
    str(tmp_path),
    encode.get_concrete_function(text=tf.TensorSpec([None], tf.string, name='text')),
    score,
    [],
    samples,
  )
  found = made.signatures['serving_default'](text=tf.constant(['a']), candidates=tf.zeros([7, 2]))
  assert found['order'].numpy().tolist() == [0, 4, 6, 3, 2, 5, 1]
