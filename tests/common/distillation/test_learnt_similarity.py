"""An embedder that learns labels by its cosine."""

import dataclasses
import os

import numpy as np
import pytest
import tensorflow as tf

from common.data.records import RecordSet
from common.data.task import Task
from common.data.tokenization import Tokenizer
from common.distillation import embedders, learnt_similarity
from common.distillation.trainer import Training
from common.evaluation.judged_set import JudgedSet
from common.modeling import checkpoints, encoders
from common.training import strategies
from tests.conftest import write_distill
from tests.robustness import contents


def slow_vector(text, encoder, tokenizer):
  encoded = encoder(tokenizer.encode([text], 64).to_tensor(tokenizer.pad_id), training=False)
  mean = encoded.tokens.numpy()[0].mean(0)
  return mean / np.linalg.norm(mean)


@pytest.fixture(name='trained', scope='module')
def _trained(tmp_path_factory):
  """Folder of an embedder, its training and its history."""
  root = tmp_path_factory.mktemp('embedder')
  distill = write_distill(str(root / 'distill'))
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(embedders, '_MAX_LENGTH', 32)  # above all texts
    devices, folder = strategies.DeviceConfig(), str(root / 'similarity')
    training = Training(distill, distill, Task(), devices, strategies.create(devices), 1)
    yield folder, training, learnt_similarity.fine_tune('random-tiny', training, folder, most=8)


def test_an_embedder_is_judged_by_its_cosine_and_kept_as_a_checkpoint(trained):
  folder, training, history = trained
  assert (history['name'], history['history'][-1]['step']) == ('similarity', 8)
  kept = checkpoints.read(folder)
  tokenizer = Tokenizer(kept.vocabulary, kept.lower_case)
  encoder = encoders.build(kept.config, tokenizer.pad_id)
  encoder.restore(kept)
  records = RecordSet(training.distill)
  texts = set().union(*records.texts())
  vectors = {text: slow_vector(text, encoder, tokenizer) for text in texts}
  cosines = [np.dot(*map(vectors.get, pair)) for pair in records.texts()]
  expected = JudgedSet(records, Task()).evaluate(np.array(cosines)[:, None])
  (best,) = (e for e in history['history'] if e['step'] == history['best_step'])
  assert best['valid'] == pytest.approx(expected, abs=1e-4)

  starts = learnt_similarity.starts(os.path.dirname(folder), 'random-tiny')
  assert starts == {'random-tiny': folder} and not learnt_similarity.starts(folder, 'random-tiny')
  student = learnt_similarity._Config('random-tiny', (8, 8))
  for given, begins in ((starts, True), ({'minilm': folder}, False)):  # a student of the same start
    model, _ = learnt_similarity._Embedder.from_pretrained(student, 1, (), given)
    same = np.array_equal(model.encoder(0).encoder.get_weights()[0], encoder.get_weights()[0])
    assert same == begins


def test_one_that_is_broken_off_ends_with_the_same_weights(trained, tmp_path):
  folder, training, _ = trained

  def stop(name, step, values):
    if step == 4:
      raise KeyboardInterrupt

  broken = dataclasses.replace(training, callbacks=(stop,))
  with pytest.raises(KeyboardInterrupt):
    learnt_similarity.fine_tune('random-tiny', broken, str(tmp_path), most=8)
  learnt_similarity.fine_tune('random-tiny', training, str(tmp_path), most=8)
  assert contents.of(str(tmp_path)) == contents.of(folder)


def test_the_cosine_is_of_the_first_text_and_the_others_mean():
  config = learnt_similarity._Config('random-tiny', (8, 8, 8))
  model, _ = learnt_similarity._Embedder.from_pretrained(config, 1)
  first, second = tf.eye(2)[:1], tf.eye(2)[1:]
  found = model.logits([first, first, second], [])
  np.testing.assert_allclose(found, [[0.5**0.5]], atol=1e-6)
  error = learnt_similarity._CosineError()({'label': tf.constant([[0.5]])}, found)
  np.testing.assert_allclose(error, [(0.5**0.5 - 0.5) ** 2], atol=1e-6)
