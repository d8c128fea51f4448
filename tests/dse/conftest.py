"""The tiny student that DSE's own tests take."""

import functools

import pytest


@pytest.fixture(name='tiny', scope='session')
def _tiny(build):
  """A function (outputs, **changes of the tiny config, by flag) to (model, tokenizer)."""
  return functools.partial(build, 'dse')


@pytest.fixture(name='exported', scope='session')
def _exported(export):
  """DSE's tiny export alone."""
  return export('dse')
