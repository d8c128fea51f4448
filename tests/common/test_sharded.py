"""A sharded folder's manifest: what is written is read; another form, type or count is refused."""

import dataclasses
import re
from typing import ClassVar

import pytest

from common import files, sharded
from common.errors import InputError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Page(sharded.Shard):
  torn: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class Book:
  form: ClassVar[str] = 'book 1'

  title: str
  shards: tuple[Page, ...] = ()
  more: dict[str, int] = dataclasses.field(default_factory=dict)

  def __post_init__(self):
    sharded.check_counts(self.shards)


@pytest.fixture(name='path')
def _path(tmp_path):
  """The manifest of a book of one page in a folder beside it."""
  (tmp_path / 'pages').mkdir()
  (tmp_path / 'pages' / '0').write_text('abc')
  page = Page.written(str(tmp_path / 'book'), '../pages/0', 3, torn=(1,))
  (tmp_path / 'book').mkdir()
  path = str(tmp_path / 'book' / sharded.NAME)
  sharded.write(path, Book('é', (page,), {'x': 2}))
  return path


def test_a_manifest_is_read_as_it_was_written(path, tmp_path):
  book = sharded.read(path, Book, 'do')
  (page,) = book.shards
  assert (book.title, book.more, page.name, page.count) == ('é', {'x': 2}, '../pages/0', 3)
  assert (page.bytes, page.torn) == (3, (1,))
  assert page.path(str(tmp_path / 'book')) == str(tmp_path / 'pages' / '0')
  assert page.path('gs://b/book') == 'gs://b/pages/0'
  assert sharded.text(book) == (tmp_path / 'book' / sharded.NAME).read_text()
  with pytest.raises(FileNotFoundError):
    sharded.read(str(tmp_path / sharded.NAME), Book, 'do')


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    ({'form': 'book 2'}, "of the form 'book 2', not 'book 1'; do"),
    ({'title': 3}, 'damaged (manifest.title is 3, not a text); do'),
    ({'more': {'x': -1}}, "damaged (manifest.more['x'] is -1, not a whole number from 0); do"),
    ({'shards': [{}]}, 'damaged (manifest.shards[0].bytes is missing); do'),
    (
      {'shards': [{'name': 'a', 'count': 4, 'bytes': 3, 'sha256': ''}]},
      'damaged (a: 4 rows in 3 bytes); do',
    ),
    (
      {'shards': [{'name': 'a', 'count': 3, 'bytes': 3, 'sha256': '', 'torn': [True]}]},
      'damaged (manifest.shards[0].torn[0] is True, not a whole number from 0); do',
    ),
  ],
)
def test_a_manifest_that_does_not_fit_is_refused(path, change, message):
  files.write_json(path, {**files.read_json(path), **change})
  with pytest.raises(InputError, match=f'^{re.escape(f"{path}: {message}")}$'):
    sharded.read(path, Book, 'do')


def test_a_changed_bit_is_refused(path):
  with open(path, encoding='utf-8') as file:
    text = file.read()
  with open(path, 'w', encoding='utf-8') as file:
    file.write(text.replace('"count": 3', '"count": 2'))
  with pytest.raises(InputError, match='damaged: not what was written'):
    sharded.read(path, Book, 'do')
