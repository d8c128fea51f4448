"""Two SavedModels, reloaded: the same scores as the live model, from texts, ids or vectors."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf

from common.data.tokens import TokenizedTuples
from common.distillation.inference import TupleScorer
from common.errors import InputError
from common.export import student_export
from common.scoring import runtimes
from common.training import strategies
from common.vectors import neighbors
from dipair.scorer import Scorer
from dipair.student import DiPair

LEFT = ['red', 'wide footwear', 'nike shoes', '']
RIGHT = ['black nike shoes for boys', 'red throw', 'x', 'wide red boots and more words']


@pytest.fixture(name='exports', scope='module')
def _exports(exported, tiny, tmp_path_factory):
  """Exports by head."""
  folder = str(tmp_path_factory.mktemp('ffnn') / 'export')
  student_export.write(
    folder,
    *tiny(head='ffnn'),
    slots=('left', 'right'),
    task='regression',
    samples=(LEFT, RIGHT),
  )
  return {'transformer': exported[0], 'ffnn': folder}


def test_exports_score_as_the_live_model_does(exported, monkeypatch):
  folder, model, tokenizer, result = exported
  assert result['max_difference'] <= 1e-5
  assert result['vector_bytes'] == {'left': 3 * 8 * 4, 'right': 4 * 8 * 4}
  scorer = Scorer.load(folder)
  tuples = TokenizedTuples.of_texts(list(zip(LEFT, RIGHT, strict=True)), tokenizer)
  logits = TupleScorer(model, tokenizer, tf.distribute.get_strategy()).logits(tuples)[:, 0]
  expected = 1 / (1 + np.exp(-logits))
  vectors = scorer.encode(LEFT, side='left'), scorer.encode(RIGHT, side='right')
  np.testing.assert_allclose(scorer.score(*vectors), expected, atol=1e-5)
  np.testing.assert_allclose(scorer.score(LEFT, RIGHT), expected, atol=1e-5)
  monkeypatch.setattr('common.scoring.runtimes._TENSORFLOW_BLOCK', 3)
  np.testing.assert_allclose(scorer.score(*vectors), expected, atol=1e-5)
  assert vectors[0].shape == (4, 3, 8)
  assert vectors[0].dtype == np.float32


def test_a_texts_vectors_do_not_depend_on_its_batch(exported):
  scorer = Scorer.load(exported[0])
  together = scorer.encode(RIGHT, side='right')
  alone = np.concatenate([scorer.encode([text], side='right') for text in RIGHT])
  np.testing.assert_allclose(together, alone, atol=1e-5)


def test_one_text_or_none_is_refused_wherever_texts_are_taken(exported, tmp_path):
  scorer, texts = Scorer.load(exported[0]), ['red', None]
  for call in (
    lambda: scorer.score('black', 'shoes'),
    lambda: scorer.score(['black'], 'shoes'),
    lambda: scorer.rank('nike', 'a shoe'),
    lambda: scorer.encode('shoes', 'right'),
  ):
    with pytest.raises(InputError, match='^(left|right) texts: a list of texts is needed, not one'):
      call()
  for call in (
    lambda: scorer.score(LEFT[:2], texts),
    lambda: scorer.rank('nike', texts),
    lambda: scorer.rank(texts, RIGHT),
    lambda: scorer.encode(texts, 'right'),
    lambda: scorer.encode_to(str(tmp_path), enumerate_ids(texts), 'right'),
  ):
    with pytest.raises(InputError, match='row 1: None is not a text$'):
      call()


def enumerate_ids(texts):
  return ((str(number), text) for number, text in enumerate(texts))


def test_signatures_and_their_names(exported):
  folder, model, tokenizer, _ = exported
  encoder = tf.saved_model.load(os.path.join(folder, 'encoder', '1'))
  head = tf.saved_model.load(os.path.join(folder, 'head', '1'))
  assert set(encoder.signatures) == {
    f'{side}{kind}' for side in ('left', 'right') for kind in ('', '_ids', '_tokens')
  }
  tokens = encoder.signatures['left_tokens'](text=tf.constant(['a', 'Red']))['tokens'].numpy()
  assert [b''.join(row) for row in tokens] == [b'[CLS]a[SEP]', b'[CLS]r##e']
  ids = tokenizer.encode(tf.constant(RIGHT), 32).to_tensor(tokenizer.pad_id)
  by_ids = encoder.signatures['right_ids'](ids=ids)['vectors']
  by_text = encoder.signatures['right'](text=tf.constant(RIGHT))['vectors']
  np.testing.assert_allclose(by_ids, by_text, atol=1e-6)
  outputs = head.signatures['serving_default'](left=by_ids[:, :3], right=by_ids)
  assert {name: value.shape for name, value in outputs.items()} == {'logits': (4, 1), 'score': (4,)}
  words = model.encoders[0].encoder.network.get_embedding_table().shape[0]
  stored = tf.train.list_variables(f'{folder}/head/1/variables/variables')
  assert all(words not in shape for _, shape in stored)  # no embedding table


def test_rank_gives_the_best_scores_in_order_with_and_without_parts(exported, monkeypatch):
  monkeypatch.setattr('common.scoring.runtimes._TENSORFLOW_BLOCK', 2)
  scorer = Scorer.load(exported[0])
  products = scorer.encode(RIGHT, side='right')
  ranking = scorer.rank('red', products, top_k=3)
  scores = scorer.score(['red'] * 4, products)
  np.testing.assert_allclose([s for _, s in ranking], sorted(scores)[:0:-1], atol=1e-6)
  np.testing.assert_allclose([scores[i] for i, _ in ranking], sorted(scores)[:0:-1], atol=1e-5)
  query = scorer.encode(['red'], side='left')[0]
  assert ranking == scorer.rank(query, products, top_k=3)
  parts = scorer.parts(products, 'right')
  assert parts.shape == (4, 4, 3 * 8)
  assert [i for i, _ in scorer.rank(query, products, 3, parts=parts)] == [i for i, _ in ranking]
  assert scorer.rank('red', products[:0]) == []


def test_equal_scores_keep_the_candidates_order(exported):
  scorer = Scorer.load(exported[0])
  products = scorer.encode(['red', 'blue throw', 'red', 'blue throw'], side='right')
  assert [i for i, _ in scorer.rank('red', products)] in ([0, 2, 1, 3], [1, 3, 0, 2])


def test_a_store_ranks_as_its_vectors_do_and_is_made_once(exported, tmp_path, monkeypatch):
  monkeypatch.setattr('common.scoring.scorer._READ', 3)
  scorer = Scorer.load(exported[0])
  rows = [(f'p{i}', RIGHT[i % 4]) for i in range(10)]
  store = scorer.encode_to(str(tmp_path), rows, 'right', shard_size=4)
  products = scorer.encode([text for _, text in rows], 'right')
  np.testing.assert_allclose(store.vectors(slice(None)), products, atol=1e-5)
  ranking = scorer.rank('red', store, top_k=4)
  expected = scorer.rank('red', products, top_k=4)
  np.testing.assert_allclose([s for _, s in ranking], [s for _, s in expected], atol=1e-6)
  assert store.ids([7]) == ['p7']
  both = scorer.rank(['red', 'x'], store, top_k=4)
  for query, found in zip(['red', 'x'], both, strict=True):
    one = [score for _, score in scorer.rank(query, products, 4)]
    np.testing.assert_allclose([score for _, score in found], one, atol=1e-6)
  some = scorer.rank('red', store, rows=[9, 0, 3])
  scores = scorer.score(['red'] * 10, products)
  assert sorted(i for i, _ in some) == [0, 3, 9]
  np.testing.assert_allclose([s for _, s in some], sorted(scores[[9, 0, 3]])[::-1], atol=1e-6)
  for _ in range(2):  # the index made, then read
    assert scorer.rank('red', store, 4, first_stage='ann', shortlist=10) == ranking
  short = scorer.rank(['red'], store, 10, first_stage='ann', shortlist=3)[0]
  near = neighbors.pooled(products) @ neighbors.pooled(scorer.encode(['red'], 'left'))[0]
  assert {scores[i] for i, _ in short} <= set(scores[np.argsort(-near)[:6]])
  with pytest.raises(InputError, match="first_stage='ann': '' or 'ann', the latter on a store"):
    scorer.rank('red', products, first_stage='ann')

  os.remove(tmp_path / 'manifest.json')
  os.remove(tmp_path / 'vectors-00001.arrow')
  encoded = []
  monkeypatch.setattr(scorer, 'encode', lambda texts, side: encoded.append(texts) or products[:4])
  scorer.encode_to(str(tmp_path), rows, 'right', shard_size=4)
  assert [len(texts) for texts in encoded] == [4]  # the missing shard alone
  store.side = 'left'
  with pytest.raises(InputError, match='vectors of the left side, not right'):
    scorer.rank(np.zeros([3, 8]), store)
  scorer.fingerprint = 'another'
  with pytest.raises(InputError, match='vectors of another encoder'):
    scorer.rank(np.zeros([3, 8]), store)


@pytest.mark.parametrize('runtime', runtimes.RUNTIMES)
@pytest.mark.parametrize('head', ['transformer', 'ffnn'])
def test_every_runtime_scores_alike_at_every_number_of_pairs(exports, head, runtime):
  plain = Scorer.load(exports[head])
  scorer = Scorer.load(exports[head], runtime)
  rng = np.random.default_rng(0)
  for rows in (1, 2, 129):
    left, right = (rng.normal(size=(rows, k, 8)).astype(np.float32) for k in (3, 4))
    right[0, 2:] = 0  # a padded position
    exact = plain.score(left, right)
    atol = {'litert-float16': 2e-3, 'litert-int8': 3e-2}.get(runtime, 1e-5)
    np.testing.assert_allclose(scorer.score(left, right), exact, atol=atol)
    for parts in (None, plain.parts(right, 'right')):
      ranked = dict(scorer.rank(left[0], right, rows, parts=parts))
      expected = plain.score(np.repeat(left[:1], rows, 0), right)
      np.testing.assert_allclose([ranked[i] for i in range(rows)], expected, atol=atol)
  assert np.ptp(exact) > 0.01


def test_callers_on_several_threads_get_their_own_scores(exported):
  scorer, rng = Scorer.load(exported[0], 'litert', threads=2), np.random.default_rng(0)
  sides = [
    [rng.normal(size=(640, *scorer.vector_shapes[slot])).astype(np.float32) for _ in range(8)]
    for slot in scorer.slots
  ]
  alone = [scorer.score(*pair) for pair in zip(*sides, strict=True)]
  with ThreadPoolExecutor(8) as pool:
    together = list(pool.map(scorer.score, *sides))
  np.testing.assert_array_equal(together, alone)


def test_xla_compiles_a_few_sizes_and_no_more(exported):
  scorer = Scorer.load(exported[0], 'xla')
  vectors = np.ones([500, 3, 8], np.float32), np.ones([500, 4, 8], np.float32)
  for rows in [*range(1, 40), 128, 129, 500, 77]:
    scorer.score(*(v[:rows] for v in vectors))
  assert scorer._runtime.traces == 2


def test_an_encoder_may_be_exported_in_bfloat16(exported, tmp_path):
  folder, model, tokenizer, _ = exported
  with strategies.precision('mixed_bfloat16'):
    encoder, _ = DiPair.from_pretrained(model.config, 1)
  for variable, value in zip(encoder.variables, model.variables, strict=True):
    variable.assign(value)
  slots, samples = ('left', 'right'), (LEFT, RIGHT)
  student_export.write(
    str(tmp_path),
    model,
    tokenizer,
    slots=slots,
    task='regression',
    samples=samples,
    encoder=encoder,
  )
  exact, narrow = (Scorer.load(path).encode(RIGHT, 'right') for path in (folder, str(tmp_path)))
  assert narrow.dtype == np.float32
  np.testing.assert_allclose(narrow, exact, atol=0.1)
  assert np.abs(narrow - exact).max() > 1e-5


def test_three_texts_and_three_classes(tiny, tmp_path):
  model, tokenizer = tiny(
    outputs=3, max_lengths=(8, 8, 8), output_tokens=(2, 2, 3), shared_encoder=False
  )
  slots, samples = ('query', 'context', 'answer'), (LEFT, RIGHT, LEFT)
  student_export.write(
    str(tmp_path), model, tokenizer, slots=slots, task='multiclass', samples=samples
  )
  scores = Scorer.load(str(tmp_path)).score(*samples)
  assert scores.shape == (4, 3)
  np.testing.assert_allclose(scores.sum(1), 1, atol=1e-5)


@pytest.mark.parametrize(
  ('call', 'message'),
  [
    (lambda s: s.encode(['a'], side='top'), "side='top': one of left, right"),
    (lambda s: s.encode('a', side='left'), 'a list of texts'),
    (lambda s: s.score(['a']), '1 sides given; this model takes left, right'),
    (lambda s: s.score(['a', 'b'], ['c']), 'sides of .2, 1. rows'),
    (lambda s: s.score(np.zeros([1, 5, 8]), ['c']), r'left: vectors of shape \(5, 8\)'),
  ],
)
def test_wrong_inputs_are_named(exported, call, message):
  with pytest.raises(InputError, match=message):
    call(Scorer.load(exported[0]))


def test_a_runtime_that_is_not_there_is_refused(exported, tmp_path):
  with pytest.raises(InputError, match="runtime='gpu': one of tensorflow, xla, litert"):
    Scorer.load(exported[0], 'gpu')
  with pytest.raises(InputError, match="threads=2: runtime='xla' has those of the process"):
    Scorer.load(exported[0], 'xla', threads=2)
  for name in ('encoder', 'head', 'scorer.json'):
    os.symlink(os.path.join(exported[0], name), tmp_path / name)
  with pytest.raises(InputError, match='int8.tflite is not there; export the run anew'):
    Scorer.load(str(tmp_path), 'litert-int8')


def test_a_folder_without_an_export_is_refused(tmp_path):
  with pytest.raises(InputError, match='no export there'):
    Scorer.load(str(tmp_path))


def test_scoring_loads_no_training_code(exported):
  program = (
    'import sys, dipair; s = dipair.Scorer.load(sys.argv[1]); print(s.score(["a"], ["b"]).shape);'
    'print([m for m in sys.modules if m.split(".")[0] in ("official", "tf_keras")'
    ' or m.startswith(("common.training", "common.distillation", "common.modeling"))])'
  )
  command = [sys.executable, '-c', program, exported[0]]
  done = subprocess.run(command, capture_output=True, text=True, check=True)
  assert done.stdout.splitlines() == ['(1,)', '[]']
