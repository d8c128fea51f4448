"""TF Serving's protocol over `tf.saved_model.load` or LiteRT, for development and tests.

`models` (versions, signatures, watched folders) → `batching` (requests run together) → `predict` (a
request's checks) → `grpc_api` over `wire`, and `rest_api` over `http_front` (the two fronts, bounded by
`places`) → `metrics`; `__main__` is the command.
"""

import importlib

from common import extras

with extras.needed('serving'):
  for _name in ('grpc_health', 'prometheus_client', 'tensorflow_serving'):
    importlib.import_module(_name)
