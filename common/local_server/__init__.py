"""TF Serving's double for development and tests, over `tf.saved_model.load` or LiteRT.

`signatures` (inputs, outputs, their checks) → `models` (loaded once; `litert` in TensorFlow's
place) → `grpc_api` and `rest_api` (`json_tensors`); `__main__` is the command.
"""

import importlib

from common import extras

with extras.needed('serving'):
  for _name in ('tensorflow_serving', 'werkzeug'):
    importlib.import_module(_name)
