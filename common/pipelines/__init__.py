"""Jobs for what one machine cannot hold, on Apache Beam."""

import logging

logging.disable(logging.WARNING)  # of clouds that are not installed
import apache_beam  # noqa: E402, F401

logging.disable(logging.NOTSET)
