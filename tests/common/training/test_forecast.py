"""The line that a long stage prints of its end, by a clock of the test's own."""

import datetime
import re

import pytest

from common.training import forecast
from common.training.forecast import Forecast


class Clock(datetime.datetime):
  @classmethod
  def now(cls, tz=None):
    return cls(2024, 2, 29, 23, 50)  # a Thursday


@pytest.fixture(name='after')
def _after(monkeypatch):
  """Lets seconds pass."""
  seconds = [0.0]

  class Time:
    monotonic = staticmethod(lambda: seconds[0])

  def after(by):
    seconds[0] += by

  monkeypatch.setattr(forecast, 'time', Time)
  monkeypatch.setattr(forecast.datetime, 'datetime', Clock)
  return after


@pytest.mark.parametrize('disable', [False, True])  # as by TQDM_DISABLE
def test_the_end_is_told_once_without_the_first_batch_and_what_was_done_before(
  after, capsys, disable
):
  """50 of 10 tuples were there, 1 was slow; then 5 in 10 seconds: 944 left of 5 tuples a second."""
  with Forecast(total=1000, desc='teacher', tuples=10, disable=disable) as bar:
    bar.skip(50)
    after(300)
    bar.update()
    for _ in range(30):
      after(2)
      bar.update(beside=112)
  # 944 units at 0.5 a second are 1,888 s, and 112 s of evaluations: 33 min 20 s
  expected = 'teacher: 9,440 tuples left, 5 a second: until about Fri 00:23\n'
  assert capsys.readouterr().out == expected


@pytest.mark.parametrize(('total', 'told'), [(35, False), (36, True)])
def test_what_soon_ends_needs_no_line(total, told, after, capsys):
  """6 are done when it is measured, 2 seconds each: the other 30 of 36 take a minute."""
  with Forecast(total=total, desc='annotate') as bar:
    bar.update()
    for _ in range(5):
      after(2)
      bar.update()
  found = re.findall(r'(\d+) tuples left', capsys.readouterr().out)
  assert found == ([str(total - 6)] if told else [])
