"""Batches by item: each distinct text is encoded once, and the gradients are the plain form's."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from common.data import record_writer
from common.data.examples import Example
from common.data.records import BLOCKS, RecordSet
from common.data.task import Task
from common.data.tuples import Tuples, most_items
from common.distillation.trainer import Trainer, Training
from common.modeling.losses import LOSSES, CrossEntropy, LossConfig, cross_entropy
from common.training import loop, strategies
from common.training.optimization import PhaseConfig

PHASE = PhaseConfig(learning_rate=1e-2, batch_size=20, steps=3, warmup_steps=1, eval_every=1)
LITTLE = {'dipair': {'encoder_layers': 1}, 'dse': {}}  # DSE pools two layers


def trainer(model, tokenizer, distill, loss=None, **devices):
  devices = strategies.DeviceConfig(**devices)
  strategy = tf.distribute.get_strategy()
  training = Training(distill, distill, Task(), devices, strategy, seed=1)
  return Trainer(model, tokenizer, training, loss or CrossEntropy())


@pytest.mark.parametrize(
  ('kind', 'shared', 'static', 'max_lengths'),
  [
    *(('dipair', shared, static, (16, 32)) for shared in (False, True) for static in (False, True)),
    ('dse', True, False, (128, 32)),  # buckets of 32 to 128, and of 16 and 32
    ('dse', True, True, (16, 16)),
    ('dse', False, True, (16, 16)),
  ],
)
def test_encoding_each_text_once_gives_the_plain_forms_gradients(
  build, distill, kind, shared, static, max_lengths
):
  changes = {'shared_encoder': shared, 'max_lengths': max_lengths}
  model, tokenizer = build(kind, **LITTLE[kind], **changes)
  one = trainer(model, tokenizer, distill, jit_compile=static)
  by_item = next(iter(one.batches_by_item(PHASE, one.distill.tuples())))
  if not static and max_lengths[0] < 128:  # no row but of a text: an empty bucket has one
    assert [sum(map(len, slot)) for slot in by_item['ids']] == [5, 4]  # of 20 pairs
  texts = [list(one.distill.items(slot).texts()) for slot in range(2)]

  def plain_loss():
    tokens = []
    for slot, items in enumerate(by_item['items'].numpy().T):
      own = [texts[slot][item] for item in items]
      ids = tokenizer.encode(own, model.config.max_lengths[slot]).to_tensor(tokenizer.pad_id)
      tokens.append(model.encode(ids, slot, training=True))
    return cross_entropy(by_item['soft_labels'], model.score_vectors(tokens, training=True))

  results = []
  for loss in (plain_loss, lambda: one.loss_of(by_item, frozen=False)):
    with tf.GradientTape() as tape:
      value = tf.reduce_mean(loss())
    gradients = tape.gradient(value, model.used_variables)
    results.append((value, [tf.convert_to_tensor(g) for g in gradients]))
  (plain, plain_gradients), (fast, fast_gradients) = results
  assert float(plain) == pytest.approx(float(fast), abs=1e-6)
  assert any(np.abs(g).max() > 1e-4 for g in plain_gradients)
  for expected, found in zip(plain_gradients, fast_gradients, strict=True):
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize('kind', ['dipair', 'dse'])
def test_a_step_of_static_shapes_is_one_program_for_all_batches(build, distill, kind):
  model, tokenizer = build(kind, **LITTLE[kind])
  one = trainer(model, tokenizer, distill, jit_compile=True)

  @tf.function(jit_compile=True, autograph=False)
  def gradients(batch):
    with tf.GradientTape() as tape:
      loss = tf.reduce_mean(one.loss_of(batch, frozen=False))
    return [tf.convert_to_tensor(g) for g in tape.gradient(loss, model.used_variables)]

  phase = dataclasses.replace(PHASE, batch_size=8)
  batches = list(one.batches_by_item(phase, one.distill.tuples()).take(2))
  assert np.any(batches[0]['ids'][0][0] != batches[1]['ids'][0][0])
  programs = {gradients.experimental_get_compiler_ir(batch)(stage='hlo') for batch in batches}
  assert len(programs) == 1  # with a batch's word ids in it, XLA would compile each step


def test_what_is_cut_is_told(build, distill, capsys):
  trainer(*build('dipair'), distill)  # of 16 and 32 tokens, a letter each
  assert capsys.readouterr().out == 'valid: text 1 is cut at 16 tokens in 20.0% (--max_lengths)\n'


@pytest.mark.parametrize('rights', [256, 10])  # as many in any 64 tuples as in those of a group
def test_tuples_whose_groups_save_no_encodings_are_shuffled_singly(build, tmp_path, rights):
  rows = [Example('', (f'l {i}', f'r {i % rights}'), float(i >= 128), (0.0,)) for i in range(256)]
  record_writer.write_sets(str(tmp_path), {'': record_writer.of_examples(rows)}, 2)
  one = trainer(*build('dse'), str(tmp_path), CrossEntropy('label'))
  tuples, phase = one.distill.tuples(), dataclasses.replace(PHASE, batch_size=16)
  assert tuples.groups.tolist() == [0, 64, 128, 192, 256]  # sorted by label, and yet
  ones = [batch['label'].numpy().sum() for batch in one.batches_by_item(phase, tuples).take(16)]
  assert sum(ones) == 128 and all(0 < count < 16 for count in ones)


def test_the_most_items_that_a_static_batch_can_hold():
  items = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [3, 1]], np.int32)
  tuples = Tuples(items, groups=np.array([0, 2, 4, 6]))  # one, one and two lefts; two rights each
  assert most_items(tuples, 2) == [2, 2]
  assert most_items(tuples, 4) == [4, 4]
  assert most_items(tuples, 3) == [3, 3]  # may touch three groups
  aligned = Tuples(items[:4], groups=np.array([0, 2, 4]))
  assert most_items(aligned, 4) == [2, 4]


def test_a_student_learns_by_every_loss(build, distill, tmp_path):
  one, phase = trainer(*build('dse'), distill), dataclasses.replace(PHASE, learning_rate=1e-3)
  start = one.model.get_weights()
  for loss in LOSSES:
    one.model.set_weights(start)
    one.loss = LossConfig(loss, 0.75, loss_temperature=2.0).build()
    trained = one.fit(loss, phase, str(tmp_path / loss), frozen=True, cache_gb=1.0)
    losses = [entry['loss'] for entry in trained['history'][1:]]
    assert len(losses) == 3 and losses[-1] < losses[0], loss


def test_an_interrupted_phase_leaves_its_cache(build, distill, tmp_path, monkeypatch):
  cache = tmp_path / 'phase/cache'

  def interrupted(*args, **options):
    cache.mkdir(parents=True)
    raise SystemExit

  one = trainer(*build('dse'), distill)
  monkeypatch.setattr(loop, 'fit', interrupted)
  with pytest.raises(SystemExit):
    one.fit('phase', PHASE, str(tmp_path / 'phase'), frozen=True)
  assert cache.exists()


@pytest.fixture(name='by_product')
def _by_product(distill, tmp_path):
  """A function of a manifest's info to a folder of the same tuples in a group a product."""
  whole = RecordSet(distill)
  tuples = whole.tuples()

  def write(**info):
    folder = str(tmp_path / f'by_product_{len(info)}')
    groups = [
      Tuples(*(x[i::4] for x in (tuples.items, tuples.label, tuples.teacher_logits)))
      for i in range(4)
    ]
    record_writer.write(folder, groups, record_writer.tables_from(whole, folder), info=info)
    return folder

  return write


def test_a_terms_candidates_share_a_batch_whatever_the_order_of_the_file(
  build, by_product, tmp_path
):
  phase, student = dataclasses.replace(PHASE, batch_size=4), build('dse')
  plain, blocks = by_product(), by_product(**{BLOCKS: True})

  def terms(distill, loss, **devices):
    """Distinct terms of each batch, of cached features and by item: as stages 1 and 2 have them."""
    one = trainer(*student, distill, LossConfig(loss, alpha=0.5).build(), **devices)
    tuples = one.distill.tuples()
    cached = one.cached_batches(phase, tuples, one.used_items(tuples), str(tmp_path / loss))
    batches = [*cached.take(5), *one.batches_by_item(phase, tuples).take(5)]
    assert {y for b in batches[5:] for y in b['label'].numpy()[:, 0]} == {*tuples.labels}
    return [len(set(batch['items'][:, 0].numpy())) for batch in batches]

  assert terms(plain, 'listwise_kl') == terms(plain, 'margin_mse', jit_compile=True) == [1] * 10
  assert min(terms(plain, 'squared_error')[5:]) > 1  # groups as in the file
  assert min(terms(blocks, 'listwise_kl')[5:]) > 1  # few texts a batch go before whole lists
