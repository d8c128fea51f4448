"""Pairs joined with partitioned stores: the scores of whole stores, hot ids spread, restarts."""

import json
import os
import pathlib
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest

from common import files as common_files
from common.data.texts import hash64
from common.errors import InputError
from common.pipelines import encode, jobs, join, partition, score
from common.pipelines.jobs import FilesConfig, OutputConfig
from common.vectors.store import VectorStore

LEFT = [(f't{i}', f'red shoes {i}') for i in range(8)]
RIGHT = [(f'p{i}', f'boots {i}') for i in range(12)]
PAIRS = [(left, 'p0') for left, _ in LEFT] + [(f't{i}', f'p{i + 2}') for i in range(8)]
BAD = [('t0', 'none'), ('nobody', 'p0'), ('t1',)]
REASONS = [
  "no right vectors of id 'none'",
  "no left vectors of id 'nobody'",
  '1 columns; the header names 2',
]


def cut(store, output, buckets):
  out = OutputConfig(output=str(output))
  partition.main(partition.PartitionConfig(store, buckets, out), [])
  return out.output


@pytest.fixture(name='stores', scope='module')
def _stores(exported, tmp_path_factory, tsv):
  """Folders of both sides' stores, and of the same cut into 2 and 3 buckets."""
  folder, made = tmp_path_factory.mktemp('stores'), []
  for side, rows in (('left', LEFT), ('right', RIGHT)):
    files = tsv(folder / f'{side}.tsv', ('id', 'text'), rows)
    out = OutputConfig(output=str(folder / side))
    encode.main(encode.EncodeConfig(exported[0], side, files, out=out), [])
    made.append(out.output)
  return *made, cut(made[0], folder / 'left-2', 2), cut(made[1], folder / 'right-3', 3)


@pytest.fixture(name='config')
def _config(exported, tmp_path, tsv):
  """A job on pairs, three of them bad, given its stores and the name of its output."""
  files = tsv(tmp_path / 'pairs.tsv', ('left', 'right'), [*PAIRS, *BAD])

  def of(left, right, name='out', **changes):
    out = OutputConfig(output=str(tmp_path / name), max_bad_rows=changes.pop('max_bad_rows', 3))
    fields = {'files': files, 'stores': (left, right), 'join_salts': 2, **changes}
    return score.ScoreConfig(exported[0], 'tensorflow', out=out, **fields)

  return of


def shards(config):
  """{name: rows} of a job's output."""
  folder = pathlib.Path(config.out.output)
  return {path.name: pq.read_table(path).to_pylist() for path in folder.glob('scores-*')}


def scores(config):
  rows = [row for of_shard in shards(config).values() for row in of_shard]
  return sorted((row['left'], row['right'], row['score']) for row in rows)


def bad(config):
  lines = [path.read_text() for path in pathlib.Path(config.out.output, 'bad').iterdir()]
  return sorted(tuple(json.loads(line).values()) for line in ''.join(lines).splitlines())


def times(folder):
  paths = [path for path in pathlib.Path(folder).rglob('*') if path.is_file()]
  return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in paths}


def test_buckets_are_stores_of_the_same_bytes(stores, tmp_path):
  whole, found = VectorStore(stores[1]), []
  for number in range(3):
    bucket = VectorStore(f'{stores[3]}/bucket-{number:05d}')
    bucket.verify()
    ids = bucket.ids(range(len(bucket)))
    assert {hash64(key) % 3 for key in ids} == {number}
    rows = whole.rows(ids)
    np.testing.assert_array_equal(bucket.vectors(slice(None)), whole.vectors(rows))
    found += ids
  assert sorted(found) == sorted(key for key, _ in RIGHT)


def test_deleted_rows_are_in_no_bucket(stores, tmp_path):
  shutil.copytree(stores[1], tmp_path / 'store [1]')  # no pattern
  left = VectorStore(str(tmp_path / 'store [1]')).delete(['p0', 'p5'])
  folder, found = cut(left.folder, tmp_path / '*cut?', 3), []
  for number in range(3):
    bucket = VectorStore(f'{folder}/bucket-{number:05d}')
    ids = bucket.ids(range(len(bucket)))
    np.testing.assert_array_equal(bucket.vectors(slice(None)), left.vectors(left.rows(ids)))
    found += ids
  assert sorted(found) == sorted({key for key, _ in RIGHT} - {'p0', 'p5'})

  output = cut(stores[1], tmp_path / 'again', 3)
  before = times(output)
  os.remove(f'{output}/done/00001.json')
  os.remove(f'{output}/partition.json')
  cut(stores[1], output, 3)
  after = times(output)
  assert after.keys() == before.keys()
  redone = {name for name, time in after.items() if time != before[name] and 'arrow' in name}
  assert redone == {name for name in before if name.endswith('00001.arrow')}
  with pytest.raises(InputError, match='begun with other buckets'):
    cut(stores[1], output, 4)


def test_a_partition_of_other_contents_is_another_version(stores, tmp_path):
  versions = []
  for name, deleted in (('a', 'p0'), ('b', 'p0'), ('c', 'p5')):
    shutil.copytree(stores[1], tmp_path / name)
    store = VectorStore(str(tmp_path / name)).delete([deleted])
    found = partition.Buckets.of(cut(store.folder, tmp_path / f'{name}-2', 2))
    versions.append(found.version)
    assert found.rows == len(RIGHT) - 1
  assert versions[0] == versions[1] != versions[2]


@pytest.mark.parametrize('sides', [(2, 3), (0, 3), (2, 1)])
def test_the_scores_of_whole_stores(config, stores, sides):
  whole, parted = config(*stores[:2], name='whole'), config(*(stores[side] for side in sides))
  score.main(whole, [])
  score.main(parted, [])
  assert [row[:2] for row in scores(whole)] == sorted(PAIRS)
  assert [row[:2] for row in scores(parted)] == sorted(PAIRS)
  expected = [row[2] for row in scores(whole)]  # of other batches: alike but for the last bit
  np.testing.assert_allclose([row[2] for row in scores(parted)], expected, rtol=1e-6)
  assert bad(parted) == bad(whole)
  assert sorted(why for _, why, _ in bad(parted)) == sorted(REASONS)
  hot = [rows for rows in shards(parted).values() if 'p0' in {row['right'] for row in rows}]
  assert len(hot) > 1
  before = times(parted.out.output)
  score.main(parted, [])
  assert times(parted.out.output) == before


def test_a_join_goes_on_where_it_stopped(config, stores):
  parted = config(*stores[2:])
  score.main(parted, [])
  before, rows, refused = times(parted.out.output), shards(parted), bad(parted)
  lost = [name[7:12] for name in sorted(rows)[:2]]  # one had its scores written, but no mark
  for number in lost:
    os.remove(f'{parted.out.output}/done/{number}.json')
  os.remove(f'{parted.out.output}/scores-{lost[0]}.parquet')
  score.main(parted, [])
  assert (shards(parted), bad(parted)) == (rows, refused)
  after = times(parted.out.output)
  redone = {name[7:12] for name in rows if after[name] != before[name]}
  assert redone == set(lost)
  os.remove(
    f'{parted.out.output}/done/00012.json'
  )  # of a unit of the input, after 2 * 3 * 2 blocks
  score.main(parted, [])
  again = times(parted.out.output)
  assert {name for name in again if again[name] != after.get(name)} == {'done/00012.json'}
  with pytest.raises(InputError, match=r'3 bad rows, more than --max_bad_rows=2: see .*/bad'):
    score.main(config(*stores[2:], max_bad_rows=2), [])
  with pytest.raises(InputError, match='begun with other join_salts'):
    score.main(config(*stores[2:], join_salts=3), [])


@pytest.mark.parametrize('side', [1, 3])  # whole, cut
def test_a_store_that_changes_while_a_join_runs_is_refused(
  config, stores, tmp_path, monkeypatch, side
):
  right, run = str(shutil.copytree(stores[side], tmp_path / 'right')), jobs.run

  def changed(*of):
    if side == 1:
      VectorStore(right).delete(['p5'])
    else:  # as of another store that was cut
      path = f'{right}/{partition.PARTITION}'
      common_files.write_json(path, {**common_files.read_json(path), 'source': 'other'})
    return run(*of)

  monkeypatch.setattr(jobs, 'run', changed)
  with pytest.raises(InputError, match='right: changed since the job began; choose another --out'):
    score.main(config(stores[2], right), [])


def test_what_is_shuffled(stores):
  sides = [partition.Buckets.of(folder) for folder in stores[2:]]
  grid = join.Grid(sides, 4)
  assert len(grid.blocks()) == 2 * 3 * 4
  pairs = [(f't{i}', 'p0') for i in range(200)] + [('té"', f'p{i}') for i in range(9)]
  columns = tuple(zip(*pairs, strict=True))
  found = {block: list(join.unpacked(ids)) for block, ids in grid.packed(columns, range(24))}
  assert sorted(pair for of_block in found.values() for pair in of_block) == sorted(pairs)
  hot = {block for block, of_block in found.items() if 'p0' in dict(of_block).values()}
  assert len(hot) == 2 * 4  # all left buckets, all salts
  for block, of_block in found.items():
    for left, right in of_block:
      folders = [sides[0].buckets[hash64(left) % 2], sides[1].buckets[hash64(right) % 3]]
      assert grid.folders(block) == folders
  some = dict(grid.packed(columns, sorted(hot)[:2]))  # the rest is there already
  assert sorted(some) == sorted(hot)[:2]


def test_bad_use(config, stores, tmp_path):
  for shape in ('candidates', 'all'):
    files = FilesConfig() if shape == 'all' else FilesConfig(input=('x.tsv',))
    with pytest.raises(InputError, match=f'--shape={shape}: .*right-3 is cut into buckets; give a'):
      score.main(config(stores[0], stores[3], shape=shape, files=files), [])
  with pytest.raises(InputError, match='right-3: not left vectors of .*; encode anew'):
    score.main(config(stores[3], stores[1]), [])
  with pytest.raises(
    InputError, match='left-2: a partition already; give the store it was cut from'
  ):
    cut(stores[2], tmp_path / 'x', 2)
  with pytest.raises(InputError, match='none: no whole vector store there'):
    cut(str(tmp_path / 'none'), tmp_path / 'x', 2)
