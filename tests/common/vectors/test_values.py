"""What is taken for vectors."""

import numpy as np
import pytest

from common.vectors.values import are_vectors


@pytest.mark.parametrize(
  ('side', 'expected'),
  [
    (np.zeros([2, 3]), True),
    (np.zeros([0, 3]), True),
    (np.zeros(3), True),
    (np.array([]), False),
    (np.array(['a', 'b']), False),
    (np.array(['a', 'b'], np.dtypes.StringDType()), False),
    (['a'], False),
  ],
)
def test_arrays_of_numbers_are_vectors(side, expected):
  assert are_vectors(side) is expected
