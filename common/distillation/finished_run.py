"""A finished run's results, flags and files."""

import os
from typing import Any, TypeVar

from common import digests, flags, schema
from common.errors import InputError, damaged
from common.files import read_json

Config = TypeVar('Config')


class FinishedRun:
  """Folder and flags of a finished run.

  Args:
    folder: Folder of the run.
    student: The student that it must be of: 'dipair' or 'dse'.

  Raises:
    InputError: If it is none of that student's.
  """

  def __init__(self, folder: str, student: str):
    path = os.path.join(folder, 'results.json')
    if not os.path.exists(path):
      raise InputError(f'--run_dir={folder}: no results.json; name the folder of a finished run')
    self.folder, self.results = folder, read_json(path)
    with damaged(path, 'delete it and run again'):
      schema.check(self.results, {})
    if (found := self.results.get('student')) != student:
      raise InputError(f'--run_dir={folder}: a run of {found}.run, not of {student}.run')
    self.flags = self.results['flags']

  def path(self, name: str) -> str:
    """A file or folder of the run."""
    return os.path.join(self.folder, name)

  def stage(self, name: str) -> dict[str, Any]:
    """A stage's note: 'fingerprint', inputs ('depends_on') and earlier stages ('after')."""
    return read_json(os.path.join(self.path(name), digests.STAGE))

  def config(self, cls: type[Config], **changes: Any) -> Config:
    """A config of the run's flags, but for some."""
    own = flags.flat(cls())
    known = {name: value for name, value in self.flags.items() if name in own}
    return flags.build(cls, {**known, **changes})
