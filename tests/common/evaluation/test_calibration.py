"""Calibrations: of a known temperature, of isotonic blocks worked out slowly, and their map of scores."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from scipy.special import expit, logit, softmax

from common.errors import InputError
from common.evaluation import calibration
from common.modeling.calibration import Calibration


@pytest.mark.parametrize('known', [0.25, 1.0, 3.0])
def test_the_temperature_of_logits_that_were_multiplied_by_it_is_found(known):
  """Labels are the chances themselves: their log loss is least at the logits they are made of."""
  logits = np.linspace(-3, 3, 61)[:, None]
  labels = expit(logits[:, 0])
  assert calibration.temperature('regression', labels, logits * known) == pytest.approx(known, 1e-4)


def test_the_temperature_of_classes_is_found():
  """Each of 40 logit rows stands once a class and label, as often as softmax says of 1,000."""
  logits = np.random.default_rng(0).normal(size=(40, 3))
  counts = np.round(1000 * softmax(logits, axis=1)).astype(int)
  rows = [(i, c) for i in range(40) for c in range(3) for _ in range(counts[i, c])]
  numbers, labels = np.array(rows).T
  found = calibration.fit('temperature', 'multiclass', labels.astype(float), 2 * logits[numbers])
  assert found.temperature == pytest.approx(2, rel=1e-2) and not found.knots


def by_score(pairs):
  return [list(tied) for _, tied in itertools.groupby(pairs, key=lambda pair: pair[0])]


def slow_blocks(scores, labels):
  """Pool adjacent violators, one pair at a time: [(mean score, mean label)] of each block."""
  pairs = sorted(zip(scores, labels, strict=True))
  blocks = [([s for s, _ in tied], [y for _, y in tied]) for tied in by_score(pairs)]
  i = 0
  while i < len(blocks) - 1:
    (low, below), (high, above) = blocks[i : i + 2]
    if np.mean(below) >= np.mean(above):
      blocks[i : i + 2] = [(low + high, below + above)]
      i = max(0, i - 1)
    else:
      i += 1
  return [(np.mean(s), np.mean(y)) for s, y in blocks]


def test_knots_rise_in_float32_too():
  low = 0.59518048
  assert calibration._rises((low, 0.1, 1), (low + 1e-6, 0.1000001, 1))
  assert not calibration._rises((low, 0.1, 1), (low + 1e-9, 0.1000000001, 1))


def test_knots_leave_the_order_of_large_logits():
  logits = np.linspace(16, 29, 1000, dtype=np.float32)[:, None]
  found = Calibration(knots=[(0, 0), (0.5, 0.4), (1, 1)]).logits(logits)[:, 0]
  assert (np.diff(found) > 0).all()


@pytest.mark.parametrize('graded', [False, True])
def test_isotonic_knots_are_the_centres_of_pooled_blocks(graded, monkeypatch):
  monkeypatch.setattr(calibration, '_STEEPEST', np.inf)
  rng = np.random.default_rng(1)
  scores = np.round(rng.uniform(0.05, 0.95, 80), 2)  # with ties
  labels = rng.uniform(0, 1, 80) * scores if graded else (rng.uniform(size=80) < scores) * 1.0
  (start, *knots, end) = calibration.isotonic(labels, scores)
  one_more = [*scores, scores.min(), scores.max()], [*labels, 1, 0]
  np.testing.assert_allclose(knots, slow_blocks(*one_more), atol=1e-9)
  assert len(knots) > 5 and (start, end) == ((0, 0), (1, 1))


def test_isotonic_knots_of_few_tuples_by_hand():
  """0.2 and 0.4 change places; with one positive more at 0.1 and a negative more at 0.9:
  0.1: 1/2 | 0.2: 1 | 0.4: 0 | 0.6: 1 | 0.9: 1/2; pooled 0.1 to 0.4: 2/4; 0.6 and 0.9: 2/3."""
  knots = calibration.isotonic(np.array([0, 1, 0, 1, 1]), np.array([0.1, 0.2, 0.4, 0.6, 0.9]))
  np.testing.assert_allclose(knots, [(0, 0), (0.2, 0.5), (0.8, 2 / 3), (1, 1)])


def test_no_line_is_steeper_than_float32_bears_and_each_rises():
  rng = np.random.default_rng(2)
  scores = 0.5 + rng.uniform(size=400) * 1e-2
  labels = (rng.uniform(size=400) < (scores - 0.5) * 100) * 1.0
  places, values = np.array(calibration.isotonic(labels, scores)).T
  slopes = np.diff(values) / np.diff(places)
  assert slopes.min() > 0 and slopes.max() <= 20 + 1e-9


@pytest.mark.parametrize(
  'made',
  [
    Calibration(),
    Calibration(2.0),
    Calibration(knots=[(0, 0.1), (0.25, 0.2), (0.75, 0.9), (1, 1)]),
  ],
)
def test_the_graph_and_the_logits_hold_the_same_map(made):
  logits = np.array([[-40.0], [-2.0], [logit(0.25)], [0.3], [1.7], [40.0]], np.float32)
  chances = expit(logits / made.temperature)
  expected = np.interp(chances, *np.array(made.knots).T) if made.knots else chances
  scores = made.scores(tf.constant(logits)).numpy()
  np.testing.assert_allclose(scores, expected, atol=1e-6)
  np.testing.assert_allclose(expit(made.logits(logits)), expected, atol=1e-6)


def test_isotonic_of_classes_is_refused():
  with pytest.raises(InputError, match='--calibration=isotonic is of one output'):
    calibration.check('isotonic', 'multiclass')


def test_a_flat_line_at_the_top_gives_logits_that_are_finite():
  places = [0, 1 - 1e-9, 1]
  of = Calibration(knots=list(zip(places, [0, 1 - 2**-52, 1], strict=True)))
  assert np.isfinite(of.logits(np.array([[-40.0], [29.0], [40.0]]))).all()
