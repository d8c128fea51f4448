"""The client without a server: what it repeats, and what it refuses."""

import grpc
import numpy as np
import pytest

from common.errors import InputError
from common.serving.client import Client, ServingError


def test_the_client_repeats_what_may_be_repeated():
  calls = []

  class Flaky:
    def predict(self, model, signature, inputs, seconds):
      calls.append(seconds)
      if len(calls) < 3:
        raise ServingError('busy', grpc.StatusCode.UNAVAILABLE)
      if len(calls) == 4:
        raise ServingError('wrong', grpc.StatusCode.INVALID_ARGUMENT)
      return {'y': np.ones(1)}

  client = Client('localhost:1', 'toy')
  client._transport = Flaky()
  assert client.call('head', '', {})['y'] == 1 and len(calls) == 3
  with pytest.raises(ServingError, match="model 'toy_head', signature '', inputs : wrong"):
    client.call('head', '', {})
  assert len(calls) == 4


def test_the_client_names_what_is_no_text():
  client = Client('localhost:1', 'x')
  for texts, message in (
    ('shoes', '^right texts: a list of texts is needed, not one text$'),
    (['shoes', None], '^right texts, row 1: None is not a text$'),
  ):
    with pytest.raises(InputError, match=message):
      client.encode(texts, 'right')
