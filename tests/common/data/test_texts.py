"""A list of texts, or an error that says which row is none."""

import numpy as np
import pytest

from common.data import texts
from common.errors import InputError


class Frame:
  """Two columns as a table of pandas has them: iterated, it gives their names."""

  ndim = 2

  def __iter__(self):
    return iter(['left', 'right'])


def test_texts_become_a_list():
  for given in (['a', 'é'], ('a', 'é'), np.array(['a', 'é']), np.array(['a', 'é'], object)):
    assert texts.listed(given) == ['a', 'é']
  assert texts.listed(text for text in 'ab') == ['a', 'b']
  assert texts.listed(np.array([b'a'])) == [b'a']
  assert texts.listed([]) == []


@pytest.mark.parametrize(
  ('given', 'message'),
  [
    ('black', 'left texts: a list of texts is needed, not one text'),
    (b'black', 'left texts: a list of texts is needed, not one text'),
    (None, 'left texts: a list of texts is needed, not None'),
    (['a', 'b', 'c', None], 'left texts, row 3: None is not a text'),
    (['a', float('nan')], 'left texts, row 1: nan is not a text'),
    (np.array(['a', np.nan], object), 'left texts, row 1: nan is not a text'),
    ({'a': 1}, 'left texts: a list of texts is needed, not a value of type dict'),
    ({'a'}, 'left texts: a list of texts is needed, not a value of type set'),
    (np.array('a'), 'left texts: a list of texts is needed, not a value of type ndarray'),
    (['a', '\ud800'], 'left texts, row 1: not a text: .* surrogates not allowed'),
    (['a', ['b']], 'left texts, row 1: a value of type list is not a text'),
    (Frame(), 'left texts: a value of type Frame; one column of it is needed'),
    ([np.zeros([2, 2])], 'left texts, row 0: a value of type ndarray is not a text'),
  ],
)
def test_what_is_no_list_of_texts_is_refused(given, message):
  with pytest.raises(InputError, match=f'^{message}$'):
    texts.listed(given, 'left')


def test_each_text_once_bytes_among_them():
  found, numbers = texts.distinct(['é', 'b', b'b', b'\xff', 'é'])
  assert (found, numbers.tolist()) == (['b', 'é', b'\xff'], [1, 0, 0, 2, 1])
  assert texts.distinct([])[0] == []
