"""Every codec that Python has: refused as `--encoding`, or what it cannot read is."""

import encodings
import importlib
import io
import pkgutil

import pytest

from common.data import examples, tables
from common.data.examples import TableConfig
from common.errors import InputError

CODECS = sorted(module.name for module in pkgutil.iter_modules(encodings.__path__))
BYTES = [bytes([byte]) for byte in range(256)]
LINES = [byte + tail for byte in BYTES[::3] for tail in (b'', b'a', b'\xff', b'!!~{')]
WRITTEN = [b'xn--a', b'\\ud800', b'+2AA-', b'\x1b$B\x7f\x7f', b'a' * 100]


def outcome(codec: str, files: dict[str, bytes]) -> str:
  """'refused' if it is no `--encoding`; else 'read': each line gives characters or an error."""
  try:
    config = TableConfig(encoding=codec)
  except InputError as error:
    assert str(error).startswith(f'--encoding={codec}: ')
    return 'refused'
  of_a_byte = hasattr(importlib.import_module(f'encodings.{codec}'), 'decoding_table')
  for line in BYTES if of_a_byte else (*LINES, *WRITTEN):
    files['t.tsv'] = b'left\tright\n' + line + b'\tb\n'
    try:
      rows = list(examples.read('t.tsv', config, labels='none'))
    except InputError as error:
      assert str(error).startswith('t.tsv:')
    else:
      assert all(text.encode() for row in rows for text in row.texts)
  return 'read'


@pytest.mark.filterwarnings('ignore::DeprecationWarning')
def test_no_codec_of_python_is_a_traceback(monkeypatch):
  files: dict[str, bytes] = {}  # by path, in memory
  monkeypatch.setattr(tables, '_open', lambda path: io.BytesIO(files[path]))
  found = {codec: outcome(codec, files) for codec in CODECS}
  read = {'ascii', 'cp1252', 'euc_jp', 'gb18030', 'latin_1', 'shift_jis', 'utf_8', 'utf_8_sig'}
  refused = {'base64_codec', 'idna', 'mbcs', 'punycode', 'raw_unicode_escape', 'rot_13'}
  refused |= {'undefined', 'unicode_escape', 'utf_16', 'utf_32_be', 'utf_7', 'zlib_codec'}
  assert {codec for codec in read if found[codec] != 'read'} == set()
  assert {codec for codec in refused if found[codec] != 'refused'} == set()
