"""Archives of exports: a folder's files as one `.tar.gz`, unpacked once, to the user's cache.

Only plain files below the folder are taken out of one; a link, a device or `../name` is refused.
"""

import glob
import gzip
import os
import tarfile
import tempfile
import time

from common import digests, files
from common.errors import InputError, damaged

SUFFIX = '.tar.gz'
_REMEDY = 'fetch it anew'


def is_one(path: str) -> bool:
  """Whether a path is an archive's, by its name."""
  return path.endswith(SUFFIX)


def pack(folder: str, path: str) -> None:
  """Writes an archive of all that is in a local folder; the same files give the same bytes."""
  digests.write(folder)
  with (
    open(path, 'wb') as file,
    gzip.GzipFile('', 'wb', fileobj=file, mtime=0) as stream,
    tarfile.open(fileobj=stream, mode='w') as archive,
  ):
    for name in sorted(glob.glob('**', root_dir=folder, recursive=True)):
      if os.path.isfile(source := os.path.join(folder, name)):
        member = tarfile.TarInfo(name)  # of no time and no owner
        member.size = os.path.getsize(source)
        with open(source, 'rb') as content:
          archive.addfile(member, content)


def unpacked(path: str) -> str:
  """A folder with an archive's files, in the user's cache (`XDG_CACHE_HOME`), named by its digest.

  One that has lost a file there, as to a cleaner of caches, is unpacked anew.

  Raises:
    InputError: If there is no archive, it is damaged, or it holds anything but plain files of its
      folder.
  """
  if files.stat(path) is None:
    raise InputError(f'{path}: no such file')
  home = os.environ.get('XDG_CACHE_HOME') or os.path.join(os.path.expanduser('~'), '.cache')
  cache = os.path.join(home, 'dipair')
  folder = os.path.join(cache, files.sha256(path))
  os.makedirs(cache, exist_ok=True)
  with files.turn(cache):
    if not _is_whole(folder):
      with tempfile.TemporaryDirectory(dir=cache) as part:
        content = os.path.join(part, 'content')
        _unpack(path, content)
        files.sync(content)  # now: `put` after it is quick, and no folder is there before
        if os.path.lexists(folder):
          os.rename(folder, os.path.join(part, 'before'))
        files.put(content, folder)
  return folder


def _is_whole(folder: str) -> bool:
  """Whether all files that an archive's digests name are there, as they were."""
  if not os.path.exists(os.path.join(folder, digests.NAME)):
    return False
  try:
    digests.check(folder)
  except InputError:
    return False
  return True


def _unpack(path: str, folder: str) -> None:
  if not hasattr(tarfile, 'data_filter'):
    raise InputError(
      f'{path}: Python 3.11.4 or later unpacks it safely; or name a folder with its files'
    )
  with files.opened(path, 'rb') as file, gzip.GzipFile(fileobj=file) as stream:
    with damaged(path, _REMEDY):
      archive = tarfile.TarFile(fileobj=stream)
      members = archive.getmembers()
      stream.read()  # to its end, where gzip compares its sum
    if wrong := next((member.name for member in members if not member.isfile()), None):
      raise InputError(
        f'{path}: {wrong!r} is no plain file, and an archive of an export has no other'
      )
    if digests.NAME not in archive.getnames():
      raise InputError(f'{path}: {digests.NAME} is not in it: no archive that dipair.release made')
    for member in members:
      member.mtime = time.time()  # a file that looks old is a cleaner's
    try:
      archive.extractall(folder, members, filter='data')
    except tarfile.FilterError as error:
      raise InputError(f'{path}: {error}') from error
  digests.check(folder, f'{path} is not as it was made: {_REMEDY}')
