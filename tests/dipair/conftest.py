"""The tiny student that DiPair's own tests take, and its export."""

import functools

import pytest


@pytest.fixture(name='tiny', scope='session')
def _tiny(build):
  """A function (outputs, **changes of the tiny config, by flag) to (model, tokenizer)."""
  return functools.partial(build, 'dipair')


@pytest.fixture(name='exported', scope='session')
def _exported(export):
  """DiPair's tiny export alone."""
  return export('dipair')
