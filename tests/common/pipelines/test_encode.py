"""Texts encoded on Beam: the store of one call on everything, or none; and the command."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from common import verify
from common.errors import InputError
from common.pipelines import encode, jobs
from common.pipelines.jobs import OutputConfig
from common.scoring.scorer import PairScorer
from common.vectors.store import VectorStore

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
PRODUCTS = [(f'p{i}', f'{text} {i // 3}') for i, text in enumerate(['red throw', 'boots', 'x'] * 3)]


@pytest.fixture(name='store', scope='module')
def _store(exported, tmp_path_factory, tsv):
  """The folder of the products' store, made by the job."""
  folder = tmp_path_factory.mktemp('stores')
  files = tsv(folder / 'right.tsv', ('id', 'text'), PRODUCTS)
  out = OutputConfig(output=str(folder / 'right'))
  encode.main(encode.EncodeConfig(exported[0], 'right', files, dtype='float32', out=out), [])
  return out.output


def test_a_store_from_many_shards(exported, store):
  folder, scorer = store, PairScorer.load(exported[0], encoder_runtime='litert-int8')
  store = VectorStore(folder)
  store.verify()
  assert store.ids(range(9)) == [key for key, _ in PRODUCTS]
  assert len([name for name in os.listdir(folder) if name.endswith('.arrow')]) > 2
  expected = scorer.encode([text for _, text in PRODUCTS], 'right')
  np.testing.assert_allclose(store.vectors(slice(None)), expected, atol=1e-5)
  assert [row for row, _ in scorer.rank('red', store, 3)] == [
    row for row, _ in scorer.rank('red', expected, 3)
  ]


def test_an_id_that_comes_twice_makes_no_store(exported, tmp_path, tsv):
  files = tsv(tmp_path / 'twice.tsv', ('id', 'text'), [*PRODUCTS, ('p1', 'boots 0')])
  out = OutputConfig(output=str(tmp_path / 'out'))
  config = encode.EncodeConfig(exported[0], 'right', files, out=out)
  message = r"out: id 'p1' came twice \(in .*/vectors-00000.arrow and .*/vectors-0000[1-9].arrow\)"
  for _ in range(2):
    with pytest.raises(InputError, match=message):
      encode.main(config, [])
  with pytest.raises(InputError, match='no whole vector store there'):
    VectorStore(out.output)


def test_a_store_that_was_changed_since_stays_as_it_is(exported, tmp_path, tsv):
  files = tsv(tmp_path / 'right.tsv', ('id', 'text'), PRODUCTS)
  out = OutputConfig(output=str(tmp_path / 'right'))
  config = encode.EncodeConfig(exported[0], 'right', files, dtype='float32', out=out)
  encode.main(config, [])
  encode.main(config, [])  # nothing is left to do
  scorer = PairScorer.load(exported[0])
  copy = str(tmp_path / 'copy')
  shutil.copytree(out.output, copy)
  manifest = json.loads((tmp_path / 'copy' / 'manifest.json').read_text())
  last = PRODUCTS[-manifest['shards'][-1]['count'] :]
  VectorStore(copy).delete([key for key, _ in last])  # all of a shard
  assert verify.verify(copy)[0] > 1  # what is left of it is whole
  with pytest.raises(InputError, match='copy/manifest.json: changed since a job made it'):
    encode.main(dataclasses.replace(config, out=OutputConfig(output=copy)), [])
  for change in (
    lambda: VectorStore(out.output).delete(['p1']),
    lambda: scorer.encode_to(out.output, [('new', 'red boots')], 'right'),
    lambda: VectorStore(out.output).compact(),
  ):
    change()
    with pytest.raises(InputError, match='right/manifest.json: changed since a job made it'):
      encode.main(config, [])
  store = VectorStore(out.output)
  assert store.ids(range(9)) == [*(key for key, _ in PRODUCTS if key != 'p1'), 'new']
  scorer.encode_to(str(tmp_path / 'own'), PRODUCTS, 'right')
  other = dataclasses.replace(config, out=OutputConfig(output=str(tmp_path / 'own')))
  with pytest.raises(InputError, match='own/plan.json: missing: no job made what is there'):
    encode.main(other, [])


def test_a_finished_job_run_again_holds_the_store_until_its_manifest_is_written(
  exported, tmp_path, tsv, monkeypatch
):
  files = tsv(tmp_path / 'right.tsv', ('id', 'text'), PRODUCTS)
  out = OutputConfig(output=str(tmp_path / 'right'))
  config = encode.EncodeConfig(exported[0], 'right', files, out=out)
  encode.main(config, [])
  asked = []

  def check(*given):
    with pytest.raises(InputError, match='another process .*works in it'):
      VectorStore(out.output).delete(['p1'])
    asked.append(given)

  monkeypatch.setattr(encode, '_refuse_changed', check)
  monkeypatch.setattr(jobs, 'check_ids', check)
  encode.main(config, [])
  assert len(asked) == 2


def test_a_unit_without_rows_has_no_file(exported, tmp_path, tsv):
  rows = [*PRODUCTS[:4], *[('none', '')] * 20, *PRODUCTS[4:]]
  files = tsv(tmp_path / 'right.tsv', ('id', 'text'), rows)
  out = OutputConfig(output=str(tmp_path / 'right'), max_bad_rows=20)
  config = encode.EncodeConfig(exported[0], 'right', files, dtype='float32', out=out)
  encode.main(config, [])
  VectorStore(out.output).delete([])  # removes files that the store does not list
  encode.main(config, [])
  assert VectorStore(out.output).ids(range(9)) == [key for key, _ in PRODUCTS]


def test_the_command_on_two_processes_and_misled(exported, tmp_path, refusals, tsv):
  files = tsv(tmp_path / 'products.tsv', ('id', 'text'), PRODUCTS)
  arguments = [f'--export_dir={exported[0]}', f'--input={files.input[0]}']
  arguments += ['--unit_bytes=40', '--threads=1']
  command = [sys.executable, '-m', 'common.pipelines.encode', *arguments]
  command += [f'--output={tmp_path}/out']
  command += ['--direct_running_mode=multi_processing', '--direct_num_workers=2']
  done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
  assert done.returncode == 0, done.stderr[-3000:]
  assert '9 rows in ' in done.stdout
  assert sorted(VectorStore(f'{tmp_path}/out').ids(range(9))) == [key for key, _ in PRODUCTS]
  refused = {
    '--outptu=x': "Unknown command line flag 'outptu'",
    '--side=up': '--side=up: one of left, right',
    '--text_column=txt': "no column 'txt'; did you mean 'text'",
  }
  cases = [[*arguments, f'--output={tmp_path}/other', flag] for flag in refused]
  found = refusals('common.pipelines.encode', cases)
  for (status, said), message in zip(found, refused.values(), strict=True):
    assert (status, message in said) == (2, True), said[-2000:]
