"""What a request is refused with."""

import grpc


class ServingError(Exception):
  """A status of gRPC's with one line of text.

  Args:
    code: The status.
    message: What was wrong, where, and what would be right.
  """

  def __init__(self, code: grpc.StatusCode, message: str):
    super().__init__(message)
    self.code, self.message = code, message


def invalid(message: str) -> ServingError:
  """The request itself is wrong: sent again, it will be again."""
  return ServingError(grpc.StatusCode.INVALID_ARGUMENT, message)


def not_found(message: str) -> ServingError:
  """No such model, version or signature."""
  return ServingError(grpc.StatusCode.NOT_FOUND, message)


def unavailable(message: str) -> ServingError:
  """Not now: sent again later, it may be answered."""
  return ServingError(grpc.StatusCode.UNAVAILABLE, message)
