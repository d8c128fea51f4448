"""Error that a request is refused with."""

import grpc

from common.serving.client import ServingError

SHOWN = 100  # characters of a name that there is not
_LONGEST = 1000  # characters: names and paths in a message are the sender's, of any length


def invalid(message: str) -> ServingError:
  """The request itself is wrong: sent again, it will be again."""
  return ServingError(message[:_LONGEST], grpc.StatusCode.INVALID_ARGUMENT)


def not_found(message: str) -> ServingError:
  """No such model, version or signature."""
  return ServingError(message[:_LONGEST], grpc.StatusCode.NOT_FOUND)


def not_allowed(message: str) -> ServingError:
  """There is such a thing, but nothing of the kind can be done with it."""
  return ServingError(message[:_LONGEST], grpc.StatusCode.UNIMPLEMENTED)


def unavailable(message: str) -> ServingError:
  """Not now: sent again later, it may be answered."""
  return ServingError(message, grpc.StatusCode.UNAVAILABLE)
