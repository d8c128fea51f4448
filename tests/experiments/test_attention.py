"""Rollout by hand; the walks with attention against the encoder's and the head's own outputs."""

import numpy as np
import pytest
import tensorflow as tf

from experiments.attention import AttendingEncoder, head_attention, rollout

IDS = np.array([[2, 5, 6, 7, 8, 3], [2, 5, 3, 0, 0, 0]], np.int32)


def test_rollout_by_hand():
  """Two tokens; two heads below, whose mean is [[.5, .5], [0, 1]]; above, the first row alone."""
  below = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]])
  above = np.array([[[0.0, 1.0]]])
  # A' below: [[.75, .25], [0, 1]]; above: [.5, .5]. Their product: .5 [.75, .25] + .5 [0, 1].
  np.testing.assert_allclose(rollout([below, above]), [[0.375, 0.625]])
  np.testing.assert_allclose(rollout([below]), [[0.75, 0.25], [0.0, 1.0]])


@pytest.mark.parametrize(
  ('selection', 'encoders'),
  [
    ('first', {}),
    ('first', {'left_encoder_layers': 1, 'right_encoder_layers': 2}),
    ('last', {'shared_encoder': False}),
    ('mean', {}),
  ],
  ids=['first, one', 'first, two depths', 'last, two', 'mean, one'],
)
def test_the_walk_gives_the_encoders_own_tokens(build, selection, encoders):
  model, _ = build('dipair', token_selection=selection, **encoders)
  for text, k in enumerate(model.config.output_tokens):
    kept, positions, rolled = AttendingEncoder(model, text)(tf.constant(IDS))
    np.testing.assert_allclose(kept, model.features(tf.constant(IDS), text), atol=1e-5)
    first = [0, 6 - k][selection == 'last']
    assert positions.tolist() == [list(range(first, first + k)), list(range(k))]
    sums = np.stack([np.ones(k), np.arange(k) < 3])  # the second text has three tokens
    np.testing.assert_allclose(rolled.sum(-1), sums, atol=1e-5)
    assert not rolled[1, :, 3:].any()  # nor is its padding attended to
    own = np.take_along_axis(rolled, positions[..., None], 2)[..., 0]
    one = (sums > 0) & (positions >= (selection == 'mean'))  # the mean is of all, not of [CLS]
    assert (own[one] >= 0.5**2).all()  # what passes both layers by their sides


def test_head_attention_gives_the_heads_own_output(build):
  """With the attention as it is given, values and output projection give the first layer's."""
  model, _ = build('dipair', head_attention_heads=2)
  rng = np.random.default_rng(0)
  for variable in model.head.variables:
    variable.assign(variable + rng.normal(0, 0.3, variable.shape))
  left, right = (rng.normal(size=[2, k, 8]).astype(np.float32) for k in (3, 4))
  left[1, 2], right[1, 1:] = 0, 0
  attention = head_attention(model, left, right)
  assert attention.shape == (2, 2, 2, 7, 7)  # tuples, layers, heads
  there = np.concatenate([left, right], axis=1).any(-1)  # [b, S]
  seen = (attention * there[:, None, None, None]).sum(-1)
  np.testing.assert_allclose(seen, np.ones_like(seen), atol=1e-5)
  np.testing.assert_allclose(head_attention(model, left[0], right[0]), attention[0], atol=1e-5)
  x, mask = model.head.merged([model.part(left, 0), model.part(right, 1)])
  layer = model.head.blocks[0]._attention_layer
  values = tf.einsum('bsd,dhe->bshe', x, layer._value_dense.kernel) + layer._value_dense.bias
  mixed = tf.einsum('bhqs,bshe->bqhe', attention[:, 0], values)
  output = tf.einsum('bqhe,hed->bqd', mixed, layer._output_dense.kernel) + layer._output_dense.bias
  np.testing.assert_allclose(output, layer(x, x, attention_mask=mask), atol=1e-5)
