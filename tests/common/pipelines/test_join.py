"""Pairs joined with stores by id: the scores of mapped stores, hot ids, bad rows, restarts."""

import functools
import json
import os
import pathlib
import shutil

import pyarrow.parquet as pq
import pytest

from common.errors import InputError
from common.pipelines import encode, jobs, join, score, units
from common.pipelines.jobs import FilesConfig, OutputConfig
from common.vectors.store import VectorStore

LEFT = [(f't{i}', f'red shoes {i}') for i in range(8)]
RIGHT = [(f'p{i}', f'boots {i}') for i in range(12)]
PAIRS = [(left, 'p0') for left, _ in LEFT] + [(f't{i}', f'p{i + 2}') for i in range(8)]
BAD = [('t0', 'none'), ('nobody', 'p0'), ('t0', 'p11'), ('t1',)]
REASONS = [
  "no right vectors of id 'none'",
  "no left vectors of id 'nobody'",
  "no right vectors of id 'p11'",
  '1 columns; the header names 2',
]


@pytest.fixture(name='made', scope='module')
def _made(exported, tmp_path_factory, tsv):
  """A function of a dtype to folders of both sides' stores; a right id was deleted."""

  @functools.cache
  def make(dtype):
    folder, made = tmp_path_factory.mktemp('stores'), []
    for side, rows in (('left', LEFT), ('right', RIGHT)):
      files = tsv(folder / f'{side}.tsv', ('id', 'text'), rows)
      out = OutputConfig(output=str(folder / side))
      encode.main(encode.EncodeConfig(exported[0], side, files, dtype=dtype, out=out), [])
      made.append(out.output)
    VectorStore(made[1]).delete(['p11'])
    return made

  return make


@pytest.fixture(name='stores')
def _stores(made):
  return made('int8')


@pytest.fixture(name='config')
def _config(exported, tmp_path, tsv):
  """A joined job on pairs, four of them bad, given its stores."""
  files = tsv(tmp_path / 'pairs.tsv', ('left', 'right'), [*PAIRS, *BAD])

  def of(stores, **changes):
    out = OutputConfig(str(tmp_path / changes.pop('name', 'out')), changes.pop('max_bad_rows', 4))
    fields = {'files': files, 'stores': tuple(stores), 'join': True, **changes}
    return score.ScoreConfig(exported[0], 'tensorflow', out=out, **fields)

  return of


def scores(config):
  """(left, right, score) of a job's output, in its order."""
  paths = sorted(pathlib.Path(config.out.output).glob('scores-*'))
  return [tuple(row.values()) for path in paths for row in pq.read_table(path).to_pylist()]


def bad(config):
  lines = [path.read_text() for path in pathlib.Path(config.out.output, 'bad').iterdir()]
  return sorted(tuple(json.loads(line).values()) for line in ''.join(lines).splitlines())


def times(config):
  paths = [path for path in pathlib.Path(config.out.output).rglob('*') if path.is_file()]
  return {path.name: path.stat().st_mtime_ns for path in paths}


@pytest.mark.parametrize('dtype', ['int8', 'float16'])
def test_the_scores_of_mapped_stores(config, made, dtype):
  mapped, joined = config(made(dtype), name='mapped', join=False), config(made(dtype))
  score.main(mapped, [])
  score.main(joined, [])
  assert scores(joined) == scores(mapped)
  assert [row[:2] for row in scores(joined)] == PAIRS
  assert bad(joined) == bad(mapped)
  assert sorted(why for _, why, _ in bad(joined)) == sorted(REASONS)


def test_a_join_goes_on_where_it_stopped(config, stores):
  joined = config(stores)
  score.main(joined, [])
  before, rows = times(joined), scores(joined)
  os.remove(f'{joined.out.output}/done/00001.json')
  score.main(joined, [])
  assert scores(joined) == rows
  after = times(joined)
  redone = {name for name in after if after[name] != before[name]}
  assert {'00001.json', 'scores-00001.parquet'} <= redone <= {*redone, '00001.jsonl'}
  assert all('00001' in name for name in redone)
  with pytest.raises(InputError, match=r'4 bad rows, more than --max_bad_rows=2: see .*/bad'):
    score.main(config(stores, max_bad_rows=2), [])


def test_a_store_that_is_changed_as_a_join_runs_is_another_job_or_damaged(
  config, stores, tmp_path, monkeypatch
):
  right, run = str(shutil.copytree(stores[1], tmp_path / 'right')), jobs.run

  def changed(*of):
    VectorStore(right).delete(['p5'])
    return run(*of)

  monkeypatch.setattr(jobs, 'run', changed)
  joined = config([stores[0], right])
  score.main(joined, [])
  assert [row[:2] for row in scores(joined)] == PAIRS  # of the store as the job found it
  monkeypatch.undo()
  with pytest.raises(InputError, match='begun with other contents of the stores'):
    score.main(joined, [])
  path = pathlib.Path(right, 'vectors-00000.arrow')
  data = bytearray(path.read_bytes())
  data[len(data) // 2] ^= 1
  path.write_bytes(data)
  with pytest.raises(InputError, match=f'damaged: its bytes are not .* write the .*{path}'):
    score.main(config([stores[0], right], name='other'), [])


def test_a_unit_asks_for_an_id_once(config):
  (unit,) = units.of_files(config(['a', 'b']).files.input, 1000)
  assert sorted(join._asked(unit, 'right')) == sorted(
    (key, 0) for key in {right for _, right in PAIRS} | {'none', 'p11'}
  )


@pytest.mark.parametrize(
  ('stores', 'changes'), [(['left', 'right'], {'shape': 'all', 'files': FilesConfig()}), ([], {})]
)
def test_a_join_takes_pairs_and_stores(exported, stores, changes):
  with pytest.raises(InputError, match='^--join takes --shape=pairs and --stores$'):
    score.ScoreConfig(exported[0], stores=tuple(stores), join=True, **changes)
