"""Two SavedModels, reloaded: the same scores as the live model, from texts, ids or vectors."""

import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from common.data.examples import Example
from common.distillation.inference import TupleScorer
from common.errors import InputError
from common.serving import student_export
from dipair.scorer import Scorer

LEFT = ['red', 'wide footwear', 'nike shoes', '']
RIGHT = ['black nike shoes for boys', 'red throw', 'x', 'wide red boots and more words']


@pytest.fixture(name='exported', scope='module')
def _exported(tiny, tmp_path_factory):
  model, tokenizer = tiny()
  folder = str(tmp_path_factory.mktemp('run') / 'export')
  result = student_export.write(
    folder, model, tokenizer, slots=('left', 'right'), task='regression', samples=(LEFT, RIGHT)
  )
  return folder, model, tokenizer, result


def test_exports_score_as_the_live_model_does(exported):
  folder, model, tokenizer, result = exported
  assert result['max_difference'] <= 1e-5
  assert result['vector_bytes'] == {'left': 3 * 8 * 4, 'right': 4 * 8 * 4}
  scorer = Scorer.load(folder)
  examples = [Example('', pair) for pair in zip(LEFT, RIGHT, strict=True)]
  logits = TupleScorer(model, tokenizer, tf.distribute.get_strategy()).logits(examples)[:, 0]
  expected = 1 / (1 + np.exp(-logits))
  vectors = scorer.encode(LEFT, side='left'), scorer.encode(RIGHT, side='right')
  np.testing.assert_allclose(scorer.score(*vectors), expected, atol=1e-5)
  np.testing.assert_allclose(scorer.score(LEFT, RIGHT), expected, atol=1e-5)
  np.testing.assert_allclose(scorer.score(*vectors, batch_size=3), expected, atol=1e-5)
  assert vectors[0].shape == (4, 3, 8)
  assert vectors[0].dtype == np.float32


def test_a_texts_vectors_do_not_depend_on_its_batch(exported):
  scorer = Scorer.load(exported[0])
  together = scorer.encode(RIGHT, side='right')
  alone = np.concatenate([scorer.encode([text], side='right') for text in RIGHT])
  np.testing.assert_allclose(together, alone, atol=1e-5)


def test_signatures_and_their_names(exported):
  folder, model, tokenizer, _ = exported
  encoder = tf.saved_model.load(os.path.join(folder, 'encoder', '1'))
  head = tf.saved_model.load(os.path.join(folder, 'head', '1'))
  assert set(encoder.signatures) == {'left', 'right', 'left_ids', 'right_ids'}
  ids = tokenizer.encode(tf.constant(RIGHT), 32).to_tensor(tokenizer.pad_id)
  by_ids = encoder.signatures['right_ids'](ids=ids)['vectors']
  by_text = encoder.signatures['right'](text=tf.constant(RIGHT))['vectors']
  np.testing.assert_allclose(by_ids, by_text, atol=1e-6)
  outputs = head.signatures['serving_default'](left=by_ids[:, :3], right=by_ids)
  assert {name: value.shape for name, value in outputs.items()} == {'logits': (4, 1), 'score': (4,)}
  words = model.encoders[0].bert.get_embedding_table().shape[0]
  stored = tf.train.list_variables(f'{folder}/head/1/variables/variables')
  assert all(words not in shape for _, shape in stored)  # no embedding table


def test_rank_gives_the_best_scores_in_order(exported):
  scorer = Scorer.load(exported[0])
  products = scorer.encode(RIGHT, side='right')
  ranking = scorer.rank('red', products, top_k=3, batch_size=2)
  scores = scorer.score(['red'] * 4, products)
  np.testing.assert_allclose([s for _, s in ranking], sorted(scores)[:0:-1], atol=1e-6)
  np.testing.assert_allclose([scores[i] for i, _ in ranking], sorted(scores)[:0:-1], atol=1e-5)
  query = scorer.encode(['red'], side='left')[0]
  assert ranking == scorer.rank(query, products, top_k=3, batch_size=2)
  assert scorer.rank('red', products[:0]) == []


def test_equal_scores_keep_the_candidates_order():
  def serve(left, right):
    return {'score': right[:, 0, 0] + 0 * left[:, 0, 0]}

  head = SimpleNamespace(signatures={'serving_default': serve})
  shape = {'slots': ('left', 'right'), 'vector_shapes': ((1, 1), (1, 1)), 'outputs': 1}
  candidates = np.array([0.25, 0.5, 0.25, 0.5, 0.125], np.float32).reshape([5, 1, 1])
  ranking = Scorer(None, head, shape).rank(np.zeros([1, 1]), candidates, top_k=4, batch_size=2)
  assert ranking == [(1, 0.5), (3, 0.5), (0, 0.25), (2, 0.25)]


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


def test_a_folder_without_an_export_is_refused(tmp_path):
  with pytest.raises(InputError, match='no dipair export there'):
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
