"""Metrics for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
_P = 'local_server_'
_ROWS = tuple(2**n for n in range(15))


class Metrics:
  """Requests by answer and time, batches by rows, the version that is served."""

  def __init__(self):
    registry = CollectorRegistry()
    names = ['model', 'api', 'code']
    self.requests = Counter(f'{_P}requests', 'Requests answered.', names, registry=registry)
    self.seconds = Histogram(
      f'{_P}seconds', 'Time of a request.', ['model'], registry=registry, buckets=_SECONDS
    )
    self.batch_rows = Histogram(
      f'{_P}batch_rows',
      'Rows run together.',
      names[:1] + ['signature'],
      registry=registry,
      buckets=_ROWS,
    )
    self.version = Gauge(f'{_P}version', 'Version that is served.', ['model'], registry=registry)
    self._registry = registry

  def text(self) -> bytes:
    """In Prometheus' text format."""
    return generate_latest(self._registry)
