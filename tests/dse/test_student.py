"""DSE's parts against slow references, and a student's two ways to its logits."""

import numpy as np
import pytest
import tensorflow as tf

from common.errors import InputError
from dipair.student import DiPair
from dse.config import StudentConfig, TrainConfig
from dse.student import DSE

IDS = np.array([[2, 9, 8, 3, 0], [2, 7, 3, 0, 0]])  # padded by 0


@pytest.mark.parametrize('pooling', ['mean', 'max'])
@pytest.mark.parametrize('pool_cls', [False, True])
def test_a_sentence_is_its_last_layers_pooled(tiny, pooling, pool_cls):
  model, _ = tiny(pooling=pooling, pool_cls=pool_cls)
  assert model.encoders[0].encoder.pad_id == 0
  expected = []
  for row in IDS:
    ids = row[None, row != 0]
    inputs = {'input_word_ids': ids, 'input_mask': ids * 0 + 1, 'input_type_ids': ids * 0}
    layers = model.encoders[0].encoder.network(
      {k: tf.constant(v, tf.int32) for k, v in inputs.items()}
    )
    tokens = [layer[0, 0 if pool_cls else 1 :].numpy() for layer in layers['encoder_outputs'][-2:]]
    expected.append(np.concatenate([getattr(layer, pooling)(0) for layer in tokens]))
  found = model.features(tf.constant(IDS, tf.int32), 0)
  np.testing.assert_allclose(found, expected, atol=1e-5)
  assert model.feature_shape(0) == found.shape[1:]


@pytest.mark.parametrize('outputs', [1, 3])
def test_split_similarity_is_equation_3(tiny, outputs):
  model, _ = tiny(outputs)
  u, v = np.random.default_rng(0).normal(size=[2, 7, model.dim]).astype(np.float32)
  one = model.head
  w = np.concatenate([one.left, one.right, one.product, one.difference])  # [4 d, r]
  h = np.concatenate([u, v, u * v, np.abs(u - v)], 1)
  expected = np.maximum(h @ w, 0) @ one.output_weights.numpy()
  np.testing.assert_allclose(model([tf.constant(u), tf.constant(v)]), expected, atol=1e-5)
  assert np.abs(expected).max() > 0.1
  assert np.abs(one.left - one.right).max() > 0.01  # each part has its own start


def test_sberts_similarities_are_the_plain_ones(tiny):
  concat, cosine = (tiny(3, similarity=name)[0] for name in ('concat', 'cosine'))
  u, v = np.random.default_rng(0).normal(size=[2, 7, concat.dim]).astype(np.float32)
  w = np.concatenate([concat.head.left, concat.head.right, concat.head.difference])  # [3 d, 3]
  expected = np.concatenate([u, v, np.abs(u - v)], 1) @ w
  np.testing.assert_allclose(concat([tf.constant(u), tf.constant(v)]), expected, atol=1e-5)
  lengths = np.linalg.norm(u, axis=1) * np.linalg.norm(v, axis=1)
  cosine.head.scale.assign([2, 3, 4])
  cosine.head.bias.assign([-1, 0, 1])
  expected = (np.sum(u * v, 1) / lengths)[:, None] * [2, 3, 4] + [-1, 0, 1]
  np.testing.assert_allclose(cosine([tf.constant(u), tf.constant(v)]), expected, atol=1e-5)


@pytest.mark.parametrize('shared_encoder', [True, False])
def test_by_text_equals_by_pair(tiny, shared_encoder):
  model, _ = tiny(shared_encoder=shared_encoder)
  ids = tf.constant(IDS, tf.int32)
  plain = model([model.features(ids, 0), model.features(ids[::-1], 1)])
  rows = tf.constant([0, 0, 1])  # of three pairs
  vectors = [model.encode(ids, 0), model.encode(ids[::-1], 1)]
  parts = [tf.gather(model.part(x, slot), rows) for slot, x in enumerate(vectors)]
  by_text = model.logits(parts, [tf.gather(x, rows) for x in vectors])
  np.testing.assert_allclose(by_text, tf.gather(plain, rows), atol=1e-5)


@pytest.mark.parametrize(
  ('make', 'message'),
  [
    (lambda tiny: tiny(pooled_layers=9), '--pooled_layers=9: random-tiny has'),
    (lambda tiny: StudentConfig(max_lengths=(8,)), '--max_lengths=.* two numbers'),
    (lambda tiny: TrainConfig(variants=('best',)), '--variants=best: some of distilled, labels'),
    (lambda tiny: TrainConfig(variants=('labels', 'labels')), '--variants=.*: each once'),
  ],
)
def test_what_does_not_fit_is_refused(tiny, make, message):
  with pytest.raises(InputError, match=message):
    make(tiny)


def test_a_students_folder_holds_all_of_it(tiny, tmp_path):
  model, tokenizer = tiny(3)
  model.save(str(tmp_path), tokenizer)
  loaded, _ = DSE.load(str(tmp_path))
  assert loaded.config == model.config
  ids = tf.constant(IDS, tf.int32)
  np.testing.assert_array_equal(loaded.features(ids, 0), model.features(ids, 0))
  with pytest.raises(InputError, match='holds a dse, not a dipair student'):
    DiPair.load(str(tmp_path))


@pytest.mark.parametrize(
  ('pooling', 'changes'),
  [
    *(('mean', {}), ('max', {}), ('cls', {})),
    ('max', {'pretrained': 'bilstm:random-tiny', 'pooled_layers': 1}),
  ],
)
def test_rows_that_fill_up_a_batch_leave_gradients_finite(tiny, pooling, changes):
  model, _ = tiny(pooling=pooling, **changes)
  with tf.GradientTape() as tape:
    vectors = model.encode(tf.constant([[2, 9, 8, 3], [0, 0, 0, 0]]), 0, training=False)
    # A TPU multiplies in bfloat16, in which float32's lowest number is infinite.
    assert pooling == 'cls' or not vectors[1].numpy().any()
    loss = tf.reduce_sum(vectors[:1])  # static shapes: no tuple takes the last row
  used = [v for v in model.encoders[0].trainable_variables if 'pooler' not in v.name]
  gradients = [tf.convert_to_tensor(gradient).numpy() for gradient in tape.gradient(loss, used)]
  assert all(np.isfinite(gradient).all() for gradient in gradients)
