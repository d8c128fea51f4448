"""A pair has one score: whatever its batch, padding, order or process, and whoever computes it."""

import glob
import json
import os
import urllib.request

import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from common.data import record_writer
from common.data.examples import Example
from common.data.task import Task
from common.data.tokens import TokenizedTuples
from common.distillation import measure
from common.distillation.inference import TupleScorer
from common.local_server.__main__ import ServerConfig, serving
from common.pipelines import encode, score
from common.pipelines.jobs import FilesConfig, OutputConfig
from common.scoring import exported as exports
from common.serving.client import Client
from tests import limits

LEFTS = ['red', 'wide footwear for the whole family', '½ ™ ß', 'nike shoes', 'x']
RIGHTS = ['black nike shoes for boys', 'red throw', 'word ' * 60, 'a', 'wide red boots', 'x y']
PAIRS = [(left, right) for left in LEFTS for right in RIGHTS]
LEFT, RIGHT = (list(side) for side in zip(*PAIRS, strict=True))


@pytest.fixture(name='exact', scope='module')
def _exact(exported):
  """The live model's scores."""
  live = TupleScorer(exported.model, exported.tokenizer, tf.distribute.get_strategy())
  return scores_of(live.logits(TokenizedTuples.of_texts(PAIRS, exported.tokenizer))[:, 0])


def scores_of(logits):
  return 1 / (1 + np.exp(-logits.astype(np.float64)))


def assert_same(found, exact):
  """Equal logits, of scores."""
  found = np.asarray(found, np.float64)
  np.testing.assert_allclose(np.log(found / (1 - found)), np.log(exact / (1 - exact)), atol=1e-5)
  assert np.ptp(exact) > 1e-3


def test_batches_and_order(exported, load, exact):
  scorer = load(exported.folder)
  for batch_size in (1, 3, 128):
    sides = [
      scorer.encode(texts, side, batch_size=batch_size)
      for texts, side in zip((LEFT, RIGHT), scorer.slots, strict=True)
    ]
    assert_same(scorer.score(*sides), exact)
  assert_same([scorer.score([left], [right])[0] for left, right in PAIRS], exact)
  order = np.random.default_rng(0).permutation(len(PAIRS))
  assert_same(scorer.score(*([texts[i] for i in order] for texts in (LEFT, RIGHT))), exact[order])
  ranked = [dict(scorer.rank(left, RIGHTS)) for left in LEFTS]
  assert_same([of[row] for of in ranked for row in range(len(RIGHTS))], exact)
  in_litert = load(exported.folder, 'litert', encoder_runtime='litert')
  assert_same(in_litert.score(LEFT, RIGHT), exact)


def test_padding(exported, exact):
  model, tuples = exported.model, TokenizedTuples.of_texts(PAIRS, exported.tokenizer)
  longest = [2 + int(table.sizes(np.arange(len(table))).max()) for table in tuples.tables]
  longest = np.minimum(longest, model.max_lengths).tolist()
  for lengths in (longest, model.max_lengths):  # of the longest text, of any
    features = [
      model.features(tf.constant(table.padded(tuples.items[:, slot], most, length)), slot)
      for slot, (table, most, length) in enumerate(
        zip(tuples.tables, model.max_lengths, lengths, strict=True)
      )
    ]
    assert_same(scores_of(model(features, training=False)[:, 0].numpy()), exact)


def test_servers(exported, exact):
  models = [f'toy_{part}={exported.folder}/{part}' for part in ('encoder', 'head', 'online')]
  online = exports.load(os.path.join(exported.folder, 'online')).signatures['serving_default']
  with serving(ServerConfig(models=tuple(models), port=0, rest_api_port=0)) as (grpc, rest):
    client = Client(f'localhost:{grpc}', 'toy', deadline=limits.ANSWER)
    vectors = client.encode(RIGHTS, 'right')
    assert_same(np.concatenate([client.rank(left, vectors)[0] for left in LEFTS]), exact)
    sides = {'left': client.encode(LEFT, 'left'), 'right': client.encode(RIGHT, 'right')}
    assert_same(client.score(**sides), exact)
    body = json.dumps({'inputs': {slot: of.tolist() for slot, of in sides.items()}}).encode()
    url = f'http://localhost:{rest}/v1/models/toy_head:predict'
    with urllib.request.urlopen(url, body, timeout=limits.ANSWER) as answer:
      assert_same(json.load(answer)['outputs']['score'], exact)
  signed = [online(text=tf.constant([left]), candidates=tf.constant(vectors)) for left in LEFTS]
  assert_same(np.concatenate([of['scores'].numpy() for of in signed]), exact)


def written(folder):
  """Scores that a job wrote, in its input's order."""
  paths = sorted(glob.glob(f'{folder}/scores-*.parquet'))
  return np.concatenate([pq.read_table(path).column('score').to_numpy() for path in paths])


@pytest.fixture(name='table')
def _table(tmp_path):
  """A function of a name and rows to a TSV file of them; the first row is the header."""

  def write(name, rows):
    path = tmp_path / f'{name}.tsv'
    path.write_text(''.join('\t'.join(row) + '\n' for row in rows), 'utf-8')
    return str(path)

  return write


def test_jobs_of_stores_and_of_another_process(exported, exact, table, tmp_path, python):
  stores = []
  for side, texts in (('left', LEFTS), ('right', RIGHTS)):
    files = FilesConfig(input=(table(side, [('id', 'text'), *zip(texts, texts, strict=True)]),))
    out = OutputConfig(output=str(tmp_path / side))
    plain = {'dtype': 'float32', 'encoder_runtime': 'tensorflow'}
    encode.main(encode.EncodeConfig(exported.folder, side, files, out=out, **plain), [])
    stores.append(out.output)
  pairs = table('pairs', [('left', 'right'), *PAIRS])
  out, files = OutputConfig(output=str(tmp_path / 'here')), FilesConfig((pairs,), unit_bytes=100)
  score.main(
    score.ScoreConfig(exported.folder, 'tensorflow', 0, 'pairs', files, tuple(stores), out=out), []
  )
  assert_same(written(out.output), exact)
  there = f'{tmp_path}/there'
  done = python(
    *('-m', 'common.pipelines.score', f'--export_dir={exported.folder}', f'--input={pairs}'),
    *('--runtime=litert', '--encoder_runtime=tensorflow', f'--output={there}'),
  )
  assert done.returncode == 0, done.stderr
  assert_same(written(there), exact)


def test_int8_is_as_near_as_the_report_states(exported, load, exact, table, tmp_path):
  examples = [Example(f'{i}', pair, float(i % 2), (), ()) for i, pair in enumerate(PAIRS)]
  sets = {name: record_writer.of_examples(examples, len(PAIRS)) for name in ('valid', 'test')}
  record_writer.write_sets(str(tmp_path / 'data'), sets, 2)
  plain = load(exported.folder)
  scorers = {'tensorflow': plain, 'litert-int8': load(exported.folder, 'litert-int8')}
  litert = {name: load(exported.folder, encoder_runtime=name) for name in ('litert', 'litert-int8')}
  encoders = {'tensorflow': plain, **litert}
  heads, _, encodings = measure.compare(scorers, encoders, Task('binary'), str(tmp_path / 'data'))
  (of_int8,) = (row for row in encodings if row['name'] == 'litert-int8')
  head, encoding = heads[-1]['max_difference'], of_int8['max_difference']
  assert 0 < head < 0.03 and 0 < encoding < 0.06

  files = FilesConfig((table('pairs', [('left', 'right'), *PAIRS]),), unit_bytes=100)
  for name, of, stated in (
    ('head', ('litert-int8', 'tensorflow'), head),
    ('encoder', ('tensorflow', 'litert-int8'), encoding),
  ):
    out = OutputConfig(output=str(tmp_path / name))
    runtime, encoder_runtime = of
    given = {'files': files, 'out': out, 'encoder_runtime': encoder_runtime}
    score.main(score.ScoreConfig(exported.folder, runtime, **given), [])
    assert np.abs(written(out.output) - exact).max() <= stated + 1e-5
