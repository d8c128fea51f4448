"""What is left of a long stage, said once it can be told: tuples, tuples a second, time of its end."""

import datetime
import time
from typing import Any

from tqdm import tqdm

_MEASURED = 10.0  # seconds, from the end of the first batch on: its graph had to be made
_LONG = 60.0  # seconds that are left, of which it is worth a line


class Forecast(tqdm):
  """A progress bar that prints once, after its first batches, when it will be full.

  Args:
    tuples: Tuples that one unit of the bar stands for.
    **options: As of `tqdm`, with a `total` and a `desc`.
  """

  def __init__(self, *, desc: str, tuples: int = 1, initial: int = 0, **options: Any):
    super().__init__(desc=desc, initial=initial, **options)
    self._tuples, self._said = tuples, False
    self._name, self._done = desc, initial  # a bar that is disabled (TQDM_DISABLE) keeps neither
    self._since: tuple[float, int] | None = None  # time and units where measuring began

  def skip(self, units: int) -> None:
    """Adds units that were done before: nothing is measured by them."""
    super().update(units)
    self._done += units
    self._since = None

  def update(self, n: int = 1, beside: float = 0.0) -> Any:
    """Adds units that are done; `beside` them, so many seconds are still to come."""
    shown, now = super().update(n), time.monotonic()
    self._done += n
    if self._since is None:
      self._since = now, self._done
    elif not self._said and now - self._since[0] >= _MEASURED:
      self._said = True
      rate = (self._done - self._since[1]) / (now - self._since[0])
      left = self.total - self._done
      seconds = left / rate + beside
      if seconds >= _LONG:
        end = datetime.datetime.now() + datetime.timedelta(seconds=seconds)
        self.write(
          f'{self._name}: {left * self._tuples:,} tuples left, {rate * self._tuples:,.0f} a second: '
          f'until about {end:%a %H:%M}'
        )
    return shown
