"""The error that a user can mend: commands print it as one line and exit with status 2."""

import sys
from typing import NoReturn


class InputError(ValueError):
  """Bad input: the message says what is wrong, where, and what would be right."""


def refuse(error: Exception) -> NoReturn:
  """Ends the process with the error as one line, and status 2."""
  print('error:', ' '.join(str(error).split()), file=sys.stderr)
  sys.exit(2)
