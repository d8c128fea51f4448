"""Digests and seals: what changes by a bit is refused, by its name; what has none is read."""

import os
import re

import pytest

from common import digests, files, verify
from common.errors import InputError


@pytest.fixture(name='folder')
def _folder(tmp_path):
  """A folder of two files, one in a folder of its own, with their digests."""
  (tmp_path / 'below').mkdir()
  (tmp_path / 'a.txt').write_text('one')
  (tmp_path / 'below' / 'b.txt').write_text('two')
  digests.write(str(tmp_path))
  return tmp_path


def test_each_bit_of_a_sealed_file_counts(tmp_path):
  path = str(tmp_path / 'm.json')
  value = {'count': 3, 'names': ['é', 'b'], 'rates': {'10': 0.1, '9': None}}
  files.write_json(path, value, sealed=True)
  assert files.read_json(path) == value
  with open(path, 'rb') as file:
    content = file.read()
  refused = 0
  for place in range(8 * len(content)):
    flipped = bytearray(content)
    flipped[place // 8] ^= 1 << place % 8
    try:
      found = files.parse_json(bytes(flipped), path, 'do')
    except InputError as error:
      assert str(error).startswith(f'{path}: damaged: not ')
      refused += 1
    else:
      found.pop('seal', None)
      found = {k: v for k, v in found.items() if k in value}  # of another name: no seal
      assert found == value
  assert refused > 0.9 * 8 * len(content)


@pytest.mark.parametrize('content', ['', '{"a": 1', '{"a": 1, "a": 2}', '[' * 100_000, '\xff'])
def test_what_is_no_json_is_refused_in_one_line(content, tmp_path):
  path = tmp_path / 'm.json'
  path.write_bytes(content.encode('latin-1'))
  with pytest.raises(InputError, match=rf'^{path}: damaged: not JSON \(.*\); delete it and run'):
    files.read_json(str(path))


def test_a_file_is_checked_by_the_digests_above_it(folder):
  below = folder / 'below' / 'b.txt'
  for path in (folder, folder / 'below', below):
    digests.check(str(path))
  below.write_text('twO')
  digests.check(str(folder / 'a.txt'))
  for path in (folder, folder / 'below', below):
    with pytest.raises(InputError, match=f'^{below}: damaged: its bytes are not .*; do$'):
      digests.check(str(path), 'do')
  below.write_text('tw')
  with pytest.raises(InputError, match=f'^{below}: damaged: 2 bytes; 3 were written; do$'):
    digests.check(str(folder), 'do')
  below.unlink()
  with pytest.raises(InputError, match=f'^{below}: missing; do$'):
    digests.check(str(below), 'do')
  (folder / 'c.txt').write_text('of somebody else')
  digests.check(str(folder / 'c.txt'))
  os.remove(folder / digests.NAME)
  digests.check(str(folder))


@pytest.mark.parametrize(
  ('content', 'message'),
  [
    ({'files': []}, 'digests.json: damaged (its content.files is [], not an object); do'),
    (
      {'files': {'a.txt': None}},
      "digests.json: damaged (its content.files['a.txt'] is None, not an object); do",
    ),
    (
      {'files': {'a.txt': {'bytes': 3}}},
      "digests.json: damaged (its content.files['a.txt'].sha256 is missing); do",
    ),
  ],
)
def test_digests_of_other_types_are_refused(folder, content, message):
  files.write_json(str(folder / digests.NAME), content)
  with pytest.raises(InputError, match=re.escape(message)):
    digests.check(str(folder / 'a.txt'), 'do')


def test_digests_of_named_files_stand_beside_others(folder):
  (folder / 'c.txt').write_text('three')
  (folder / 'a.txt').write_text('four')
  digests.write(str(folder), ['c.txt'])
  digests.check(str(folder / 'c.txt'))
  with pytest.raises(InputError, match='a.txt: damaged: 4 bytes; 3 were written'):
    digests.check(str(folder / 'a.txt'))


def test_a_folder_is_verified_with_all_below(folder):
  assert verify.verify(str(folder)) == (2, 6)
  elsewhere = folder.parent / f'{folder.name}-elsewhere'
  elsewhere.mkdir()
  (elsewhere / 'link').symlink_to(folder, target_is_directory=True)
  assert verify.verify(str(elsewhere)) == (2, 6)
  (folder / 'below' / 'b.txt').write_text('to')
  with pytest.raises(InputError, match='below/b.txt: damaged: 2 bytes; 3 were written; delete'):
    verify.verify(str(folder))
  with pytest.raises(InputError, match='--folder=.*below: nothing there names the digests'):
    verify.verify(str(folder / 'below'))


def test_contents_are_those_of_the_files_or_of_their_list_of_digests(folder):
  of = str(folder)
  listed = digests.contents(of, 'minilm', 'gs://bucket/model', '')
  assert list(listed) == [f'contents of {of}']
  archive = str(folder / 'a.txt')  # or any file
  before = digests.contents(archive)
  (folder / 'a.txt').write_text('two')
  assert digests.contents(of) == listed  # as long as the list is the same
  assert before != digests.contents(archive)
  digests.write(of)
  again = digests.contents(of)
  digests.remove(of)
  found = digests.contents(of)
  (folder / '.git').mkdir()
  (folder / '.git' / 'index').write_text('one')
  (folder / 'README.md').write_text('one')
  assert digests.contents(of) == found
  (folder / 'a.txt').write_text('one')
  assert len({str(one) for one in (listed, again, found, digests.contents(of))}) == 4
