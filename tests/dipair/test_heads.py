"""Heads against slow versions in numpy, and by hand."""

import math

import numpy as np
import pytest
import tensorflow as tf

from common import flags
from common.errors import InputError
from common.training.optimization import PhaseConfig, create_optimizer
from dipair import heads, initialization
from dipair.config import StudentConfig
from dipair.heads import HeadsConfig
from dipair.student import DiPair

D, TOKENS = 8, (2, 3)
SETTINGS = {'head_layers': 2, 'head_attention_heads': 2, 'head_inner_dim': 12, 'ffnn_dims': (4,)}


def build(name, *, dim=D, outputs=1, **settings):
  config = flags.build(HeadsConfig, {**SETTINGS, **settings})
  return heads.HEADS[name](getattr(config, name, None), TOKENS, dim, outputs, 0.0)


@pytest.mark.parametrize('name', heads.HEADS)
def test_norms_and_biases_do_not_decay(name):
  head, optimizer = build(name), create_optimizer(PhaseConfig())
  vectors = [tf.ones([1, tokens, D]) for tokens in TOKENS]
  head.logits([head.part(v, slot) for slot, v in enumerate(vectors)], vectors)  # makes what is lazy
  for variable in head.variables:
    if variable.name.split('/')[-1].split(':')[0] in ('gamma', 'beta', 'bias'):
      assert not optimizer._do_use_weight_decay(variable.name), variable.name


def layer_norm(x, layer):
  mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
  return (x - mean) / np.sqrt(variance + 1e-12) * layer.gamma.numpy() + layer.beta.numpy()


def gelu(x):
  return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def slow_head(head, tokens):
  """Every row of every layer, pair by pair, head by head."""
  logits = []
  for rows in np.concatenate(tokens, axis=1):  # [S, D]
    mask = rows.any(-1)
    segments = head.segments.numpy()[[0, 0, 1, 1, 1]]
    x = layer_norm(rows + head.positions.numpy() + segments, head.norm)
    for block in head.blocks:
      attention = block._attention_layer
      kernels = {
        n: getattr(attention, f'_{n}_dense').kernel.numpy() for n in ('query', 'key', 'value')
      }
      biases = {n: getattr(attention, f'_{n}_dense').bias.numpy() for n in kernels}
      mixed = attention._output_dense.bias.numpy().copy()[None].repeat(len(x), 0)
      for h in range(SETTINGS['head_attention_heads']):
        q, k, v = (x @ kernels[n][:, h] + biases[n][h] for n in ('query', 'key', 'value'))
        scores = np.where(mask[None], q @ k.T / math.sqrt(q.shape[-1]), -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        mixed += (
          weights / weights.sum(-1, keepdims=True) @ v @ attention._output_dense.kernel.numpy()[h]
        )
      x = layer_norm(x + mixed, block._attention_layer_norm)
      inner = gelu(
        x @ block._intermediate_dense.kernel.numpy() + block._intermediate_dense.bias.numpy()
      )
      outer = inner @ block._output_dense.kernel.numpy() + block._output_dense.bias.numpy()
      x = layer_norm(x + outer, block._output_layer_norm)
    logits.append(x[0] @ head.classifier.kernel.numpy() + head.classifier.bias.numpy())
  return np.array(logits)


@pytest.fixture(name='tokens')
def _tokens():
  rng = np.random.default_rng(1)
  left, right = rng.normal(size=[4, 2, D]), rng.normal(size=[4, 3, D])
  left[1, 1], right[2, 1:], right[3] = 0, 0, 0  # shorter texts
  return left.astype(np.float32), right.astype(np.float32)


def test_the_transformer_head_equals_the_slow_one(tokens):
  head = build('transformer', outputs=3)
  head([tf.constant(t) for t in tokens])
  rng = np.random.default_rng(2)
  for variable in head.variables:  # biases and norms too
    variable.assign(variable + rng.normal(size=variable.shape) * 0.3)
  fast = head([tf.constant(t) for t in tokens]).numpy()
  np.testing.assert_allclose(fast, slow_head(head, tokens), atol=1e-5)


def test_layers_of_a_head_start_from_different_weights(tokens):
  head = build('transformer')
  head([tf.constant(t) for t in tokens])
  first, second = (block._intermediate_dense.kernel.numpy() for block in head.blocks)
  assert not np.allclose(first, second)


def test_the_feed_forward_head_by_hand():
  head = build('ffnn', dim=1)
  left = tf.constant([[[1.0], [2.0]], [[0.0], [0.0]]])
  right = tf.constant([[[3.0], [0.0], [-1.0]], [[0.0], [0.0], [1.0]]])
  head([left, right])
  kernel = np.zeros([5, 4], np.float32)
  kernel[:, 0], kernel[:, 1] = [1, 1, 1, 1, 1], [-1, -1, -1, -1, -1]
  head.hidden[0].kernel.assign(kernel)  # sums 5 and -5, 1 and -1; ReLU leaves 5 and 0, 1 and 0
  head.classifier.kernel.assign([[2.0], [7.0], [0.0], [0.0]])
  assert head([left, right]).numpy()[:, 0] == pytest.approx([10.0, 2.0])


def norm(x):
  return x / max(np.linalg.norm(x), 1e-9)


def slow_similarity(name, head, left, right):
  """One pair's similarity, of the tokens that are there, one by one."""
  x, y = ([token for token in tokens if token.any()] for tokens in (left, right))
  if not (x and y):
    return 0
  if name == 'cosine':
    return norm(x[0]) @ norm(y[0])
  if name == 'max_sim':
    return np.mean([max(norm(a) @ norm(b) for b in y) for a in x])
  summaries = []
  for code in head.codes.numpy():
    weights = np.exp([code @ token / math.sqrt(D) for token in x])
    summaries.append(weights / weights.sum() @ np.array(x))
  weights = np.exp([y[0] @ summary / math.sqrt(D) for summary in summaries])
  return weights / weights.sum() @ np.array(summaries) @ y[0] / math.sqrt(D)


SIMILARITIES = {'cosine': {}, 'max_sim': {}, 'poly_encoder': {'poly_codes': 3}}


@pytest.mark.parametrize('name', SIMILARITIES)
def test_a_similarity_head_equals_the_slow_one(tokens, name):
  left, right = tokens
  head = build(name, outputs=2, **SIMILARITIES[name])
  head.scale.assign([3.0, -2.0])
  head.bias.assign([0.5, 0.25])
  slow = [slow_similarity(name, head, *pair) for pair in zip(left, right, strict=True)]
  expected = np.array(slow)[:, None] * [3.0, -2.0] + [0.5, 0.25]
  np.testing.assert_allclose(head([left, right]), expected, atol=1e-5)
  nothing = head([left, np.zeros_like(right)]).numpy()
  np.testing.assert_allclose(nothing, [[0.5, 0.25]] * 4, atol=1e-6)


def test_max_sim_passes_over_absent_tokens_wherever_they_are(tokens):
  left, right = (t[:2].copy() for t in tokens)
  left, right[1] = -np.abs(left), np.abs(right[1])  # no cosine is above 0, as an absent token's
  right[0, :2], right[1, 0] = 0, 0
  head = build('max_sim', outputs=1)
  head.scale.assign([1.0])
  head.bias.assign([0.0])
  slow = [[slow_similarity('max_sim', head, *pair)] for pair in zip(left, right, strict=True)]
  np.testing.assert_allclose(head([left, right]), slow, atol=1e-5)
  assert slow[1][0] < -0.1


@pytest.mark.parametrize('name', SIMILARITIES)
def test_a_similarity_head_starts_with_logits_around_zero(name):
  rng = np.random.default_rng(3)
  left, right = (rng.normal(0.3, 1, (size, k, D)) for size, k in ((90, 2), (70, 3)))
  head = build(name, outputs=2, **SIMILARITIES[name])
  head.start([left, right], seed=1)
  pairs = [t[rng.integers(len(t), size=2000)].astype(np.float32) for t in (left, right)]
  logits = head(pairs).numpy()
  np.testing.assert_array_equal(logits[:, 0], logits[:, 1])
  assert abs(logits.mean()) < 0.15 and 0.85 < logits.std() < 1.15


def slow_mixer(mixer, rows):
  found = []
  for row in rows:
    hidden = np.maximum(0, row @ mixer.inner.kernel.numpy() + mixer.inner.bias.numpy())
    scale = math.sqrt(hidden.var() + 1e-6)
    hidden = (hidden - hidden.mean()) / scale * mixer.norm.gamma.numpy() + mixer.norm.beta.numpy()
    found.append(np.maximum(0, hidden @ mixer.outer.kernel.numpy() + mixer.outer.bias.numpy()))
  return np.array(found)


def slow_lite(head, left, right):
  """One pair's logits."""
  cosines = np.array([[norm(a) @ norm(b) for b in right] for a in left])
  mixed = slow_mixer(head.columns, slow_mixer(head.rows, cosines).T)
  return mixed.reshape(-1) @ head.classifier.kernel.numpy() + head.classifier.bias.numpy()


def test_the_lite_head_equals_the_slow_one(tokens):
  head = build('lite', outputs=3)
  head(list(tokens))
  rng = np.random.default_rng(2)
  for variable in head.variables:
    variable.assign(variable + rng.normal(size=variable.shape) * 0.3)
  expected = [slow_lite(head, *pair) for pair in zip(*tokens, strict=True)]
  np.testing.assert_allclose(head(list(tokens)), expected, atol=1e-4)


@pytest.mark.parametrize('name', ['cosine', 'max_sim', 'lite', 'poly_encoder'])
def test_a_head_of_pairs_refuses_three_texts(name):
  values = {'head': name, 'max_lengths': (8, 8, 8), 'output_tokens': (2, 2, 2)}
  with pytest.raises(
    InputError, match=f'--head={name} scores pairs; --output_tokens names 3 texts'
  ):
    flags.build(StudentConfig, values)


def test_a_width_of_nothing_is_refused():
  with pytest.raises(InputError, match='--poly_codes=0: a number from 1 to'):
    flags.build(HeadsConfig, {'poly_codes': 0})


def test_parameters_of_the_papers_head():
  """Table 4: 1.7M with D=256, two layers, 1,024 inner; the FFNN head 0.4M, DE-FFNN 0.2M."""
  for name, kept, dim, millions in [
    ('transformer', (4, 8), 256, 1.6),
    ('ffnn', (4, 8), 256, 0.4),
    ('ffnn', (1, 1), 768, 0.2),
  ]:
    head = heads.HEADS[name](getattr(HeadsConfig(), name), kept, dim, 1, 0.1)
    head([tf.zeros([1, k, dim]) for k in kept])
    assert head.count_params() / 1e6 == pytest.approx(millions, abs=0.06)


@pytest.mark.parametrize(('dim', 'size'), [(32, 1.0), (0, 0.05)])  # of small tokens, unprojected
def test_a_new_student_attends_to_the_equal_word_of_the_other_text(dim, size):
  config = {'pretrained': 'random-tiny', 'encoder_layers': 1, 'projection_dim': dim}
  config |= {'output_tokens': TOKENS, 'max_lengths': (8, 8), 'head_layers': 1}
  model = DiPair.from_pretrained(flags.build(StudentConfig, config), 1)[0]
  rng = np.random.default_rng(0)
  width = model.encoder_config.hidden_size
  # Words at a position resemble one another, as an encoder's outputs do.
  left, right = rng.normal(size=[50, 2, width]), rng.normal(size=[50, 3, width])
  left[:, 1] = right[:, 2]
  left, right = left + rng.normal(size=[2, width]), right + rng.normal(size=[3, width])
  left, right = size * left, size * right
  right[9, 2] = left[9, 1] = 0.0  # padding
  initialization.start(model, [left, right], seed=1)
  tokens = [
    model.vectors(tf.constant(x, tf.float32), slot).numpy() for slot, x in enumerate((left, right))
  ]
  rows = np.concatenate([x[x.any(-1)] for x in tokens])
  if dim:
    np.testing.assert_allclose(rows.mean(0), 0.0, atol=1e-5)
    np.testing.assert_allclose(rows.var(), 1.0, rtol=0.05)
  query, key = (v.numpy()[:, 0] for v in model.head.attention_kernels())
  x = np.concatenate(
    [model.part(x, slot) for slot, x in enumerate(tokens)], 1
  )  # rows 0 and 1 are the left text's, 2 to 4 the right's
  scores = np.einsum('bid,bjd->bij', x @ query, x @ key)
  assert np.mean(scores[:, 1].argmax(-1) == 4) > 0.9
  assert model.head.segments.numpy().std() > 0.5 * (1.0 if dim else rows.std())


@pytest.mark.parametrize(
  'options',
  [
    {'head_attention_heads': 1},
    {'head_attention_heads': 1, 'head_layers': 1},
    {'head_attention_heads': 4, 'head_layers': 3},
    {'head': 'ffnn'},
    {'head': 'ffnn', 'ffnn_dims': (6, 5)},
    {'head': 'ffnn', 'ffnn_dims': ()},
    {'head': 'cosine'},
    {'head': 'max_sim'},
    {'head': 'lite'},
    {'head': 'poly_encoder', 'poly_codes': 2},
  ],
)
def test_a_restructured_head_gives_the_same_logits(options):
  options = dict(options)
  rng = np.random.default_rng(1)
  head = build(options.pop('head', 'transformer'), outputs=3, **options)
  left, right = (rng.normal(size=(5, k, D)).astype(np.float32) for k in (2, 3))
  left[0, 1:], right[1, 1:], right[2] = 0, 0, 0  # padded positions
  head([left, right])
  for variable in head.variables:
    variable.assign(variable + rng.normal(0, 0.3, variable.shape))
  fast = head.exported()
  parts = [fast.part(tf.constant(tokens), slot) for slot, tokens in enumerate((left, right))]
  np.testing.assert_allclose(fast.logits(parts), head([left, right]), atol=1e-5)
  one_to_many = head([np.repeat(left[:1], 5, 0), right])
  np.testing.assert_allclose(fast.logits([parts[0][:1], parts[1]]), one_to_many, atol=1e-5)
  if fast.multiplies:
    found = fast.logits_of_products(right @ parts[0][0].numpy().T, np.square(right).sum(-1))
    np.testing.assert_allclose(found, one_to_many, atol=1e-5)
