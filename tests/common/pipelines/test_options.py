"""Beam's options beside a command's own flags; and Beam's public names alone."""

import ast
from pathlib import Path

import pytest

from common import pipelines
from common.errors import InputError
from common.pipelines import jobs


@pytest.mark.parametrize(
  ('given', 'unknown'),
  [
    (['--runner=DirectRunner', '--direct_num_workers=2', '--no_use_public_ips'], []),
    (['--experiments=a,b', '--outptu=1', '--streaming'], ['--outptu=1']),
    (['--outptu', 'x'], ['--outptu', 'x']),
  ],
)
def test_an_argument_that_beam_does_not_know_is_told_apart(given, unknown):
  assert jobs._unknown(given) == unknown


@pytest.mark.parametrize(
  ('option', 'message'),
  [
    ('--direct_num_workers=x', "^argument --direct_num_workers: invalid int value: 'x'$"),
    ('--direct_running_mode=fast', "^argument --direct_running_mode: invalid choice: 'fast'"),
  ],
)
def test_a_wrong_value_of_beams_is_refused_in_one_line(option, message):
  with pytest.raises(InputError, match=message):
    jobs._unknown([option])


def test_no_private_name_of_beam_is_used():
  private = []
  for path in Path(pipelines.__file__).parent.glob('*.py'):
    for node in ast.walk(ast.parse(path.read_text('utf-8'))):
      if isinstance(node, ast.ImportFrom) and (node.module or '').startswith('apache_beam'):
        names = [*node.module.split('.'), *(alias.name for alias in node.names)]
        private += [f'{path.name}: {name}' for name in names if name.startswith('_')]
      elif isinstance(node, ast.Attribute) and node.attr.startswith('_'):
        own = isinstance(node.value, ast.Name) and node.value.id == 'self'
        private += [] if own or node.attr.startswith('__') else [f'{path.name}: .{node.attr}']
  assert private == []
