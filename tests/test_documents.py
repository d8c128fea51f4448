"""The documents: short sentences, links that lead somewhere, commands that their parsers take."""

import importlib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from common import console, flags
from tests.test_commands import COMMANDS, NO_FLAGS

ROOT = Path(__file__).parents[1]
PAGES = [
  *('README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'docs/results.md'),
  *(str(path.relative_to(ROOT)) for path in sorted((ROOT / 'docs').glob('*/*.md'))),
]
MOST, MEAN = 25, 15  # words of a sentence, and of a page's mean
_CODE = re.compile(r'^( *)(```|~~~).*?^\1\2', re.M | re.S)
_BLOCK = re.compile(r'<!-- (\w+): .*?<!-- /\1 -->', re.S)
_LINK = re.compile(r'!?\[([^\]]*)\]\(([^)#]*)[^)]*\)')
_SHELL = re.compile(r'```shell\n(.*?)```', re.S)
_OURS = re.compile(r'python3? -m |^\s*(?:dipair|dse) ')
_OPENINGS = re.compile(r"(What|Those|Whose|The same|Of which|That which)\b(?!.*\?$|'s)")


def sentences(text: str) -> list[str]:
  """Sentences of a Markdown page, without code, tables, headings and links' targets."""
  for pattern in (_CODE, _BLOCK):
    text = pattern.sub('\n\n', text)
  text = _LINK.sub(r'\1', text)
  found = []
  for paragraph in re.split(r'\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )', text):
    lines = [line.strip() for line in paragraph.split('\n')]
    lines = [line for line in lines if line and line[0] not in '|#<!:']
    whole = re.sub(r'`[^`]*`', 'x', ' '.join(lines))
    whole = re.sub(r'^(?:[-*]|\d+\.) ', '', whole)
    found += [one for one in re.split(r'(?<=[.!?:;])["”)]?\s+', whole) if one]
  return found


@pytest.mark.parametrize('page', PAGES)
def test_sentences_are_short_and_begin_with_their_subject(page):
  found = sentences((ROOT / page).read_text('utf-8'))
  counts = [len(one.split()) for one in found]
  long = [one for one, count in zip(found, counts, strict=True) if count > MOST]
  assert not long, f'{page}: more than {MOST} words'
  turned = [one for one in found if _OPENINGS.match(one)]
  assert not turned, f'{page}: name the subject first'
  assert sum(counts) <= MEAN * len(counts), f'{page}: {sum(counts) / len(counts):.1f} words'


@pytest.mark.parametrize('page', PAGES)
def test_links_lead_to_files(page):
  text = _CODE.sub('', (ROOT / page).read_text('utf-8'))
  made = {'reference/commands.md'}  # by the site
  for _, target in _LINK.findall(text):
    if target and '://' not in target and not target.endswith(tuple(made)):
      assert ((ROOT / page).parent / target).resolve().exists(), f'{page}: {target}'


def _commands(text: str) -> Iterator[tuple[str, list[str]]]:
  """(module, flags) of the commands of this project in a page's shell blocks."""
  for block in _SHELL.findall(text):
    for line in block.replace('\\\n', ' ').splitlines():
      for part in re.split(r'&&|\||;', line.split(' #')[0]):
        if not _OURS.search(part):
          continue
        words = shlex.split(part.strip().removesuffix(' &'))
        if '-m' in words[:4] and words[0].split('/')[-1].startswith('python'):
          at = words.index('-m')
          if (ROOT / words[at + 1].split('.')[0]).is_dir():
            yield words[at + 1], words[at + 2 :]
        elif len(words) > 1 and words[0] in console.COMMANDS and words[1][0] != '-':
          yield console.COMMANDS[words[0]][words[1]], words[2:]


_GIVEN = [
  (page, module, given)
  for page in PAGES
  for module, given in _commands((ROOT / page).read_text('utf-8'))
]


@pytest.mark.parametrize(('page', 'module', 'given'), _GIVEN)
def test_commands_have_flags_that_there_are(page, module, given):
  if module in NO_FLAGS:
    pytest.skip('no flags')
  module = module if module in COMMANDS else f'{module}.__main__'
  config = getattr(importlib.import_module(module), COMMANDS[module])
  given = [flag for flag in given if flag[0] != '>' and not flag.startswith('--flagfile=')]
  if module.startswith('common.pipelines.'):  # Beam has options of its own
    names = {f'--{name}' for option in flags.options(config) for name in option.names}
    given = [flag for flag in given if flag.partition('=')[0] in names]
  flags._named(config, given)  # refuses others, and wrong values
