"""The error that a user can mend: commands print it as one line and exit with status 2."""


class InputError(ValueError):
  """Bad input: the message says what is wrong, where, and what would be right."""
