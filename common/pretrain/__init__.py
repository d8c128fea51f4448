"""Pretraining: a vocabulary and a masked language model, learnt from the user's own texts."""

from common import extras

with extras.needed('train'):
  import tensorflow  # noqa: F401
