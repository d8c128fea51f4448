"""What a request is refused with."""

import grpc

from common.serving.client import ServingError


def invalid(message: str) -> ServingError:
  """The request itself is wrong: sent again, it will be again."""
  return ServingError(message, grpc.StatusCode.INVALID_ARGUMENT)


def not_found(message: str) -> ServingError:
  """No such model, version or signature."""
  return ServingError(message, grpc.StatusCode.NOT_FOUND)


def unavailable(message: str) -> ServingError:
  """Not now: sent again later, it may be answered."""
  return ServingError(message, grpc.StatusCode.UNAVAILABLE)
