"""A run's log: lines with their time, bars once in a while, what ended a start."""

import logging
import re
import resource
import sys
import types

import pytest
from tqdm import tqdm

from common.distillation import run_log
from common.errors import InputError

_TIME = re.compile(r'\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ')


def lines(folder):
  found = (folder / 'run.log').read_text('utf-8').splitlines()
  assert all(_TIME.match(line) for line in found)
  return [_TIME.sub('', line, count=1) for line in found]


def test_all_that_is_printed_is_kept_and_shown_and_starts_are_appended(tmp_path, capsys):
  folder = tmp_path / 'run'
  with run_log.kept(str(folder), ['== first', 'cores 2']):
    print('data: starts')
    print('half a', end='')
    print(' line; warned', file=sys.stderr)
    print(' line')
    logging.getLogger('a library').error('of its own stream')
  print('after')
  with run_log.kept(str(folder), ['== second']):
    print('ä')
  assert lines(folder) == [
    *('== first', 'cores 2', 'data: starts', ' line; warned', 'half a line'),
    *('of its own stream', '== second', 'ä'),
  ]
  assert capsys.readouterr().out == 'data: starts\nhalf a line\nafter\nä\n'


def test_a_bar_is_noted_once_in_a_while_and_at_its_end(tmp_path, monkeypatch):
  now = [0.0]
  monkeypatch.setattr(run_log.time, 'monotonic', lambda: now[0])
  with run_log.kept(str(tmp_path), []), tqdm(total=200, desc='annotate') as bar:
    for _ in range(200):
      bar.update()
      bar.refresh()
      now[0] += 1
  found = lines(tmp_path)
  assert [re.search(r'(\d+)/200', line)[1] for line in found] == ['61', '122', '183', '200']
  assert not any('\r' in line for line in found)


def test_a_bar_below_another_is_noted_once_in_a_while_too(tmp_path):
  with run_log.kept(str(tmp_path), []), tqdm(total=1, desc='teacher') as outer:
    with tqdm(total=9, desc='similarity') as inner:
      for _ in range(9):
        inner.update()
        inner.refresh()
    outer.update()
  found = [line.split('|')[0] for line in lines(tmp_path)]
  assert found == ['teacher:   0%', 'similarity: 100%', 'teacher: 100%']


def test_what_ends_a_start_is_in_the_log_and_goes_on(tmp_path):
  with pytest.raises(InputError), run_log.kept(str(tmp_path), []):
    raise InputError('no such\n column')
  assert lines(tmp_path) == ['error: no such column']
  with pytest.raises(ZeroDivisionError), run_log.kept(str(tmp_path), []):
    print(1 / 0)
  first, *_, last = lines(tmp_path)[1:]
  assert first == 'Traceback (most recent call last):'
  assert last == 'ZeroDivisionError: division by zero'


@pytest.mark.parametrize(('platform', 'expected'), [('linux', 2**31), ('darwin', 2**21)])
def test_peak_memory_is_in_bytes(platform, expected, monkeypatch):
  usage = types.SimpleNamespace(ru_maxrss=2**21)
  monkeypatch.setattr(resource, 'getrusage', lambda who: usage)
  monkeypatch.setattr(sys, 'platform', platform)
  assert run_log.peak_memory() == expected
