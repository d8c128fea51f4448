"""An embedder that learns labels by its cosine."""

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


def slow_vector(text, encoder, tokenizer):
  encoded = encoder(tokenizer.encode([text], 64).to_tensor(tokenizer.pad_id), training=False)
  mean = encoded.tokens.numpy()[0].mean(0)
  return mean / np.linalg.norm(mean)


def test_an_embedder_is_judged_by_its_cosine_and_kept_as_a_checkpoint(
  distill, tmp_path, monkeypatch
):
  monkeypatch.setattr(embedders, '_MAX_LENGTH', 32)
  devices, folder = strategies.DeviceConfig(), str(tmp_path / 'similarity')
  training = Training(distill, distill, Task(), devices, strategies.create(devices), 1)
  history = learnt_similarity.fine_tune('random-tiny', training, folder, most=8)
  assert (history['name'], history['history'][-1]['step']) == ('similarity', 8)
  kept = checkpoints.read(folder)
  tokenizer = Tokenizer(kept.vocabulary, kept.lower_case)
  encoder = encoders.build(kept.config, tokenizer.pad_id)
  encoder.restore(kept)
  records = RecordSet(distill)
  texts = set().union(*records.texts())
  vectors = {text: slow_vector(text, encoder, tokenizer) for text in texts}
  cosines = [np.dot(*map(vectors.get, pair)) for pair in records.texts()]
  expected = JudgedSet(records, Task()).evaluate(np.array(cosines)[:, None])
  (best,) = (e for e in history['history'] if e['step'] == history['best_step'])
  assert best['valid'] == pytest.approx(expected, abs=1e-4)

  starts = learnt_similarity.starts(str(tmp_path), 'random-tiny')
  assert starts == {'random-tiny': folder} and not learnt_similarity.starts(folder, 'random-tiny')
  student = learnt_similarity._Config('random-tiny', (8, 8))
  for given, begins in ((starts, True), ({'minilm': folder}, False)):  # a student of the same start
    model, _ = learnt_similarity._Embedder.from_pretrained(student, 1, (), given)
    same = np.array_equal(model.encoder(0).encoder.get_weights()[0], encoder.get_weights()[0])
    assert same == begins


def test_the_cosine_is_of_the_first_text_and_the_others_mean():
  config = learnt_similarity._Config('random-tiny', (8, 8, 8))
  model, _ = learnt_similarity._Embedder.from_pretrained(config, 1)
  first, second = tf.eye(2)[:1], tf.eye(2)[1:]
  found = model.logits([first, first, second], [])
  np.testing.assert_allclose(found, [[0.5**0.5]], atol=1e-6)
  error = learnt_similarity._CosineError()({'label': tf.constant([[0.5]])}, found)
  np.testing.assert_allclose(error, [(0.5**0.5 - 0.5) ** 2], atol=1e-6)
