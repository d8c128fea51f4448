"""TF Serving's double for development and tests, over `tf.saved_model.load`.

`models` (loaded once; their inputs are checked) → `grpc_api` and `rest_api` (over `web`);
`__main__` is the command.
"""

import importlib

from common import extras

with extras.needed('serving'):
  for _name in ('tensorflow_serving', 'tensorflow', 'werkzeug'):
    importlib.import_module(_name)
