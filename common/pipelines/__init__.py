"""Jobs for what one machine cannot hold, on Apache Beam."""

import logging

from common import extras

logging.disable(logging.WARNING)  # of clouds that are not installed
try:
  with extras.needed('beam'):
    import apache_beam  # noqa: F401
finally:
  logging.disable(logging.NOTSET)
