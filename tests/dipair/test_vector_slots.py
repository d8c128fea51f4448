"""A side of vectors in place of texts, from the command to the store, servers and jobs (§5)."""

import json
import types

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from common import flags
from common.data.examples import TableConfig
from common.data.records import RecordSet
from common.data.tuples import Tuples
from common.data.vector_cells import VectorColumn
from common.distillation import function_teacher
from common.errors import InputError
from common.local_server.__main__ import ServerConfig, serving
from common.pipelines import encode, score
from common.pipelines.jobs import FilesConfig, OutputConfig
from common.pipelines.models import TupleModel
from common.scoring import exported
from common.serving.client import Client
from common.vectors.store import VectorStore
from dipair import initialization, training
from dipair.config import StudentConfig
from dipair.encoder import VectorTokens
from dipair.run import RunConfig, main
from dipair.scorer import Scorer
from dipair.student import DiPair
from tests import limits
from tests.conftest import COLOURS

VECTORS = np.eye(3, dtype=np.float32) + np.float32(0.25)
PAIRS = [(term, row) for term in COLOURS for row in range(3)]


def test_the_right_answer_is_learnt(vector_run):
  results = json.loads((vector_run / 'results.json').read_text())
  assert results['models'][0]['test']['pearson'] > 0.9
  assert [model['name'] for model in results['models']] == ['student, stage 1', 'student']
  assert exported.describe(str(vector_run / 'export'))['widths'] == {'right': 3}


@pytest.mark.parametrize('runtime', ['tensorflow', 'litert'])
@pytest.mark.parametrize('encoder_runtime', ['tensorflow', 'litert'])
def test_scorer_and_store(vector_run, tmp_path, runtime, encoder_runtime):
  scorer = Scorer.load(str(vector_run / 'export'), runtime, encoder_runtime=encoder_runtime)
  terms, rows = zip(*PAIRS, strict=True)
  exact = Scorer.load(str(vector_run / 'export')).score(terms, VECTORS[list(rows)])
  np.testing.assert_allclose(scorer.score(terms, VECTORS[list(rows)]), exact, atol=1e-5)
  assert (exact > 0.5).tolist() == [term == COLOURS[row] for term, row in PAIRS]
  store = scorer.encode_to(
    str(tmp_path), zip(('p0', 'p1', 'p2'), VECTORS, strict=True), 'right', shard_size=2
  )
  for term in COLOURS:
    ((best, _),) = scorer.rank(term, store, top_k=1)
    assert COLOURS[best] == term
    assert [best] == [row for row, _ in scorer.rank(term, VECTORS, top_k=1)]
  listed = VECTORS[1].tolist()  # as of JSON
  again = scorer.encode_to(str(tmp_path), [('p1', listed), ('p3', listed)], 'right')
  assert (len(again), again.ids([3])) == (4, ['p3'])


def test_what_is_no_vector_is_refused(vector_run, tmp_path):
  scorer = Scorer.load(str(vector_run / 'export'))
  with pytest.raises(InputError, match="row 0 .id 'a'.: no vector of numbers: "):
    scorer.encode_to(str(tmp_path / 'store'), [('a', [1.0, 'x'])], 'right')
  with pytest.raises(InputError, match='right vectors, row 1: 3 numbers are needed, not 7'):
    scorer.encode([VECTORS[0], 7], 'right')
  with pytest.raises(InputError, match='row 0: not all of its numbers are finite'):
    scorer.encode([[np.nan, 0, 0]], 'right')
  with pytest.raises(InputError, match='array .n, 3. is needed, not a value of type str'):
    scorer.encode('red', 'right')
  table = {'text_columns': ('a', 'b')}
  with pytest.raises(InputError, match='vector_columns=b,b:x.npy: each column once'):
    TableConfig(**table, vector_columns=('b', 'b:x.npy'))
  with pytest.raises(InputError, match='vector_columns=c: not one of --text_columns=a,b'):
    TableConfig(**table, vector_columns=('c',))
  with pytest.raises(InputError, match=r'=b:x.csv: COLUMN, or COLUMN:FILE.npy, is needed'):
    TableConfig(**table, vector_columns=('b:x.csv',))
  np.save(tmp_path / 'x.npy', VECTORS)
  (tmp_path / 'x.txt').write_text('p0\np1\n')
  with pytest.raises(InputError, match='and 2 ids in .*: numbers .rows, width. and as many ids'):
    VectorColumn(f'b:{tmp_path}/x.npy')
  (tmp_path / 'x.txt').write_text('\ufeffp0\np1\np2\n')  # as Windows begins a file
  assert VectorColumn(f'b:{tmp_path}/x.npy').read('p0', '').tolist() == VECTORS[0].tolist()
  np.save(tmp_path / 'x.npy', np.eye(3, dtype=np.int64))
  assert VectorColumn(f'b:{tmp_path}/x.npy').read('p0', '').tolist() == [1, 0, 0]
  np.save(tmp_path / 'x.npy', VECTORS)
  for name in ('x.npy', 'x.txt'):
    tf.io.gfile.copy(f'{tmp_path}/{name}', f'ram://{name}', overwrite=True)
  assert VectorColumn('b:ram://x.npy').read('p2', '').tolist() == VECTORS[2].tolist()
  (tmp_path / 'empty.npy').touch()
  with pytest.raises(InputError, match='empty.npy: No data left in file; an array .rows, width.'):
    VectorColumn(f'b:{tmp_path}/empty.npy')
  with open(tmp_path / 'named.npy', 'wb') as file:
    np.savez(file, a=VECTORS)
  with pytest.raises(InputError, match='arrays by name, as a .npz file has them; an array .rows'):
    VectorColumn(f'b:{tmp_path}/named.npy')
  for cell, why in (
    ('1_0 2', 'has a _'),
    ('[]', 'holds none'),
    ('1 x', 'no vector of numbers'),
    ('1,inf', 'not all'),
  ):
    with pytest.raises(InputError, match=f"^row 1, column 'b': .*{why}"):
      VectorColumn('b').read(cell, 'row 1')


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    ({'teacher_logits_column': ''}, 'a cross-attention teacher reads texts alone; give scores'),
    ({'freeze_right': 'runs/other'}, '--freeze_right is of texts'),
  ],
)
def test_flags_that_need_texts_are_refused(vector_run, change, message, tmp_path):
  given = {'flagfile': str(vector_run / 'flags.txt'), 'run_dir': str(tmp_path / 'run'), **change}
  with pytest.raises(InputError, match=message):
    main(flags.parse(RunConfig, given))


def test_a_function_that_teaches_is_given_texts_and_arrays(vector_run):
  records, seen = RecordSet(str(vector_run / 'data' / 'test')), []
  score = lambda pairs: [seen.append(pair) or len(seen) for pair in pairs]  # noqa: E731
  label = function_teacher.labeller(score, TableConfig(), records)
  (logits,) = label(records.tuples().items, lambda _: None)
  assert logits.tolist() == [[1 + n] for n in range(9)]
  expected = [(f'{term}!', VECTORS[row].tolist()) for term, row in PAIRS]
  assert [(text, vector.tolist()) for text, vector in seen] == expected


def test_server(vector_run):
  export = vector_run / 'export'
  models = tuple(f'toy_{part}={export}/{part}' for part in ('encoder', 'head', 'online'))
  vectors = Scorer.load(str(export)).encode(VECTORS, 'right')
  with serving(ServerConfig(models=models, port=0, rest_api_port=0)) as (grpc, _):
    client = Client(f'localhost:{grpc}', 'toy', deadline=limits.ANSWER)
    np.testing.assert_allclose(client.encode(VECTORS, 'right'), vectors, atol=1e-5)
    ones = np.eye(3, dtype=np.int64)
    np.testing.assert_array_equal(client.encode(ones, 'right'), client.encode([*ones], 'right'))
    for wrong in (ones[0], [[1, 2], [3]]):
      with pytest.raises(InputError, match=r'^right: an array \[n, width\] of numbers is needed'):
        client.encode(wrong, 'right')
    assert [client.rank(term, vectors)[1][0] for term in COLOURS] == [0, 1, 2]


def test_jobs(vector_run, tmp_path, python):
  products = pa.table({'id': ['p0', 'p1', 'bad', 'p2'], 'image': [*VECTORS[:2], [1.0], VECTORS[2]]})
  pq.write_table(products, tmp_path / 'products.parquet')
  files = FilesConfig(input=(f'{tmp_path}/products.parquet',))
  out = OutputConfig(output=f'{tmp_path}/store', max_bad_rows=1)
  export = str(vector_run / 'export')
  encode.main(encode.EncodeConfig(export, 'right', files, 'id', 'image', 'float32', out=out), [])
  store = VectorStore(f'{tmp_path}/store')
  exact = Scorer.load(export).encode(VECTORS, 'right')
  assert store.ids(range(3)) == ['p0', 'p1', 'p2']
  np.testing.assert_allclose(store.vectors(range(3)), exact, atol=0.05)  # int8 weights
  terms, rows = zip(*PAIRS, strict=True)
  lines = [json.dumps({'left': t, 'right': VECTORS[r].tolist()}) for t, r in PAIRS]
  (tmp_path / 'pairs.jsonl').write_text('\n'.join([*lines, '{"left": "red", "right": "x"}']) + '\n')
  files = FilesConfig(input=(f'{tmp_path}/pairs.jsonl',))
  out = OutputConfig(output=f'{tmp_path}/scores', max_bad_rows=1)
  score.main(
    score.ScoreConfig(export, 'tensorflow', files=files, out=out, encoder_runtime='tensorflow'),
    [],
  )
  (path,) = (tmp_path / 'scores').glob('scores-*.parquet')
  found = pq.read_table(path)['score'].to_numpy()
  np.testing.assert_allclose(
    found, Scorer.load(export).score(terms, VECTORS[list(rows)]), atol=1e-5
  )


def test_a_tuple_of_two_bad_vectors_is_refused_once():
  scorer = types.SimpleNamespace(
    slots=('user', 'image'),
    widths={'user': 2, 'image': 1},
    outputs=1,
    score=lambda user, image: user.sum(1) + image.sum(1),
  )
  refused, sides = [], [['x', '[1, 2]', '[3, 4]'], ['y', 'z', '[5]']]
  user, image, scores = TupleModel(scorer).score(sides, 'a', lambda *of: refused.append(of))
  assert [(place, cell) for place, _, cell in refused] == [('a', 'x'), ('a', 'z')]
  assert (user, image, scores.tolist()) == (['[3, 4]'], ['[5]'], [12])


@pytest.mark.parametrize(
  ('widths', 'outputs', 'slots'),
  [((0, 3), 1, [0, 1]), ((3, 0, 0), 1, [1, 0]), ((0, 3), 2, []), ((3, 3), 1, []), ((0, 0), 1, [])],
)
def test_matches_are_encoded_of_the_slots_that_start_by_them(monkeypatch, widths, outputs, slots):
  model, asked = types.SimpleNamespace(widths=widths, outputs=outputs), []
  trainer = types.SimpleNamespace(
    first_tuples=lambda count, of: asked.append(of), first_features=lambda count: None, seed=1
  )
  monkeypatch.setattr(initialization, 'start', lambda *args: None)
  training.start(model, trainer)
  assert asked == ([slots] if slots else [])


def test_both_sides_may_be_vectors():
  two = {'max_lengths': (2, 2), 'output_tokens': (2, 2)}
  config = StudentConfig(pretrained='random-tiny', encoder_layers=2, **two)
  student, _ = DiPair.from_pretrained(config, 1, (3, 3))
  initialization.start(student, [VECTORS, VECTORS], seed=1)
  tokens = student.vectors(tf.constant(VECTORS), 1).numpy()
  assert tokens.shape == (3, 2, 256) and tokens.var(0).mean() == pytest.approx(1, rel=0.1)


@pytest.mark.parametrize(  # rows that no text has a token for; log-likelihoods
  ('padding', 'level', 'unit'), [(0, 0, 1), (1, 0, 1), (0, -150, 10)]
)
def test_a_vector_starts_as_the_tokens_of_the_texts_that_it_goes_with(padding, level, unit):
  rng = np.random.default_rng(0)
  vectors = (rng.normal(size=[300, 3]) * (1, 100, 0) + (0, 5, 7)).astype(np.float32)
  tokens = ((vectors - vectors.mean(0)) @ rng.normal(size=[3, 8])).reshape([300, 2, 4])
  padded = np.pad(tokens, [(0, 0), (0, padding), (0, 0)])
  layer = VectorTokens(3, 3, 4, 'image')
  for variable, value in zip(layer.weights[-2:], initialization._units(vectors), strict=True):
    variable.assign(value)
  last = layer(vectors)[:, 2].numpy()
  student = types.SimpleNamespace(
    widths=(0, 3), projections=[None, layer], vectors=lambda x, slot: x
  )
  rows, others = np.arange(300), rng.permutation(300)
  items = np.concatenate([np.stack([rows, rows], 1), np.stack([rows, others], 1)])
  logits = level + unit * np.where(items[:, :1] == items[:, 1:], 9, -9).astype(np.float32)
  features = {0: padded.astype(np.float32), 1: vectors}
  initialization._guess_matches(student, features, Tuples(items, teacher_logits=logits))
  made = layer(vectors).numpy()
  np.testing.assert_array_equal(made[:, 2], last)
  assert np.abs(made[:, :2].mean(0)).max() < 1e-3 and made[:, :2].std(0).mean() == pytest.approx(1)
  assert np.corrcoef(made[:, :2].ravel(), tokens.ravel())[0, 1] > 0.99
