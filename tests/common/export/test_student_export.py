"""A student's two SavedModels: their signatures, the fingerprint, more texts than two."""

import os

import numpy as np
import pytest
import tensorflow as tf
from scipy.special import expit, logit

from common.data.tokenization import Tokenizer
from common.export import encoder_fingerprint, saved_models, student_export
from common.scoring import exported as exports
from common.scoring.scorer import PairScorer
from common.training import strategies

LEFT = ['red', 'wide footwear', 'nike shoes', '']
RIGHT = ['black nike shoes for boys', 'red throw', 'x', 'wide red boots and more words']
SIDES = ('left', 'right')


def test_signatures_and_their_names(exported):
  folder, model, tokenizer, _ = exported
  encoder = tf.saved_model.load(os.path.join(folder, 'encoder', '1'))
  head = tf.saved_model.load(os.path.join(folder, 'head', '1'))
  assert set(encoder.signatures) == {'left', 'left_ids', 'right', 'right_ids'}
  ids = tokenizer.encode(tf.constant(RIGHT), model.max_lengths[1]).to_tensor(tokenizer.pad_id)
  by_ids = encoder.signatures['right_ids'](ids=ids)['vectors']
  by_text = encoder.signatures['right'](text=tf.constant(RIGHT))['vectors']
  np.testing.assert_allclose(by_ids, by_text, atol=1e-6)
  outputs = head.signatures['serving_default'](
    left=by_ids[:, :3] if model.name == 'dipair' else by_ids, right=by_ids
  )
  assert {name: value.shape for name, value in outputs.items()} == {'logits': (4, 1), 'score': (4,)}
  words = model.encoders[0].encoder.network.get_embedding_table().shape[0]
  stored = tf.train.list_variables(f'{folder}/head/1/variables/variables')
  assert all(words not in shape for _, shape in stored)  # no embedding table


def test_an_export_that_gives_nan_is_no_export(tmp_path):
  def log(x):
    return {'y': tf.math.log(x)}

  function = tf.function(log).get_concrete_function(x=tf.TensorSpec([None], name='x'))
  saved = saved_models.save(str(tmp_path), {'log': function}, [], {'log': {'x': [-1.0, 1.0]}})
  with pytest.raises(RuntimeError, match='reloaded outputs differ from the live model by nan'):
    saved_models.verify(saved).result()


def test_a_fingerprint_is_of_what_decides_vectors(build):
  model, tokenizer = build('dipair')
  cased = Tokenizer(tokenizer.vocabulary, lower_case=False)

  def layers(student):
    return [*student.encoders, *student.projections]

  def fingerprint(words=tokenizer, other=None, **changes):
    other = other or build('dipair', **changes)[0]
    for own, given in zip(layers(other), layers(model), strict=True):
      own.set_weights(given.get_weights())
    return encoder_fingerprint.of_student(other, words, SIDES)

  own = fingerprint()
  others = [fingerprint(words=cased, other=model), fingerprint(token_selection='last')]
  others += [fingerprint(max_lengths=(16, 31)), fingerprint(output_tokens=(3, 3))]
  with strategies.precision('mixed_bfloat16'):
    others.append(fingerprint(other=type(model).from_pretrained(model.config, 1)[0]))
  pooler = model.encoders[0].encoder.network.pooler_layer
  pooler.set_weights([weight + 1 for weight in pooler.get_weights()])
  assert fingerprint(other=model) == own
  for layer in layers(model)[::2]:
    layer.set_weights([weight + 1 for weight in layer.get_weights()])
    others.append(fingerprint(other=model))
  assert len({own, *others}) == 8


def test_three_texts_and_three_classes(build, tmp_path):
  lengths = {'max_lengths': (8, 8, 8), 'output_tokens': (2, 2, 3)}
  model, tokenizer = build('dipair', 3, **lengths, encoder_layers=1, head_layers=1)
  slots, samples = ('query', 'context', 'answer'), (LEFT, RIGHT, LEFT)
  student_export.write(
    str(tmp_path), model, tokenizer, slots=slots, task='multiclass', samples=samples
  )
  scores = PairScorer.load(str(tmp_path)).score(*samples)
  assert scores.shape == (4, 3)
  np.testing.assert_allclose(scores.sum(1), 1, atol=1e-5)


def _scores(scorer):
  """Of pairs, and of the first left text with every right one."""
  left, right = (scorer.encode(texts, side) for texts, side in ((LEFT, 'left'), (RIGHT, 'right')))
  part = scorer.parts(left[:1], 'left')
  _, of_first = scorer.one_to_many(left[:1], part, right, None)
  return np.stack([scorer.score(left, right), of_first])


def test_a_calibrated_export_is_compared_without_tf32_and_scores_alike_in_every_runtime(
  export, load, tmp_path, monkeypatch, capsys
):
  """A score is the map of the uncalibrated one, in every signature, and the logits stay.

  On GPUs from Ampere on, TF32's 10 bits of mantissa would differ by more than is allowed.
  """
  plain, model, tokenizer, _ = export('dse')  # DiPair's run checks its own
  folder, temperature = str(tmp_path / 'export'), 0.5
  tf32, found = tf.config.experimental.tensor_float_32_execution_enabled, {}

  def watch(module, name):
    function = getattr(module, name)

    def watched(*given):
      found.setdefault(name, []).append(tf32())
      return function(*given)

    monkeypatch.setattr(module, name, watched)

  watch(student_export, '_check_head')
  watch(student_export, '_check_litert_encoders')
  watch(saved_models, '_cases')
  what = {'slots': SIDES, 'task': 'regression', 'samples': (LEFT, RIGHT)}
  student_export.write(folder, model, tokenizer, **what, temperature=temperature)
  checks = {'_check_head': [False], '_check_litert_encoders': [False]}
  assert found == {**checks, '_cases': [False] * 3}
  assert exports.describe(folder)['fingerprint'] == exports.describe(plain)['fingerprint']
  raw = _scores(load(plain, 'tensorflow'))
  expected = expit(logit(raw) / temperature)
  assert np.abs(expected - raw).max() > 1e-4
  for runtime in ('tensorflow', 'litert'):
    np.testing.assert_allclose(_scores(load(folder, runtime)), expected, atol=1e-5)
  np.testing.assert_allclose(_scores(load(folder, 'litert-int8')), expected, atol=0.05)
  encoder = load(folder, 'tensorflow')
  left, right = (tf.constant(encoder.encode(t, s)) for t, s in ((LEFT, 'left'), (RIGHT, 'right')))
  online = exports.load(os.path.join(folder, 'online')).signatures['serving_default']
  of_first = online(text=tf.constant(LEFT[:1]), candidates=right)
  np.testing.assert_allclose(of_first['scores'], expected[1], atol=1e-5)
  head = exports.load(os.path.join(folder, 'head')).signatures['serving_default']
  logits = head(left=left, right=right)['logits'].numpy()[:, 0]
  np.testing.assert_allclose(expit(logits), raw[0], atol=1e-5)
  monkeypatch.setattr(saved_models, '_largest_difference', lambda *_: float(tf32()))
  (tmp_path / 'cases').write_text('{"model": {}}')
  capsys.readouterr()
  saved_models._main(str(tmp_path / 'cases'))  # of the fresh process
  assert capsys.readouterr().out == '{"model": 0.0}\n'
  assert tf32()  # as before
