"""The tiny student that DiPair's own tests take, also trained, and a finished smoke run."""

import functools
import json

import pytest

from tests.conftest import write_distill


@pytest.fixture(name='tiny', scope='session')
def _tiny(build):
  """A function (outputs, **changes of the tiny config, by flag) to (model, tokenizer)."""
  return functools.partial(build, 'dipair')


@pytest.fixture(name='exported', scope='session')
def _exported(export):
  """DiPair's tiny export alone."""
  return export('dipair')


@pytest.fixture(name='trained', scope='session')
def _trained(tiny, once):
  """Folder of a set `distill`, the tiny `student` trained on it in two stages, and its `losses`."""

  def make(folder):
    from tests.dipair import two_stages

    distill = write_distill(f'{folder}/distill')
    made = two_stages.train(tiny()[0].config, folder / 'student', distill)
    (folder / 'losses').write_text(json.dumps(two_stages.losses(made)))

  return once('trained', make)
