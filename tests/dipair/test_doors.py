"""A head, an encoder and a loss that a test enters by their registries train, export and score."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from common.data.tokens import TokenizedTuples
from common.distillation.inference import TupleScorer
from common.errors import InputError
from common.export import student_export
from common.modeling import checkpoints, encoders, losses
from common.modeling.checkpoints import Pretrained
from common.modeling.encoder import Encoded, Encoder
from common.modeling.head import Head
from dipair import heads
from dipair.config import StudentConfig, TrainConfig
from dipair.scorer import Scorer
from dipair.student import DiPair
from tests.dipair import two_stages

PHASE = dataclasses.replace(two_stages.PHASE, steps=1, warmup_steps=0)
LEFT = ['red', 'wide footwear', 'nike shoes', '']
RIGHT = ['black nike shoes for boys', 'red throw', 'x', 'wide red boots']


class MeanHead(Head):
  """The inner product of the slots' mean tokens, all but the first weighed; logits take vectors."""

  takes_vectors = True

  def __init__(self, config, tokens, dim, outputs, dropout):
    super().__init__('mean_head')
    assert config is None and (tokens, outputs, dropout) == ((3, 4), 1, 0.0)
    self.weights_ = self.add_weight('w', [dim], initializer='ones')

  def part(self, vectors, slot):
    mean = tf.reduce_mean(vectors, axis=1)
    return mean if slot == 0 else mean * self.weights_

  def logits(self, parts, vectors=(), training=None):
    first = [v[:, 0] for v in vectors]
    pairs = tf.stack([tf.concat(parts, 1), tf.concat(first, 1)], 1)  # fails for rows of two numbers
    left, right = tf.split(pairs, 2, axis=2)
    return tf.reduce_sum(left * right, axis=[1, 2])[:, None] / 10


@dataclasses.dataclass(frozen=True)
class TableConfig:
  vocab_size: int
  hidden_size: int = 6
  num_layers: int = 1
  max_positions: int = 64
  dropout: float = 0.0


class Table(Encoder):
  """An embedding table and a dense layer."""

  config_class = TableConfig

  def __init__(self, config, pad_id, rows=None):
    super().__init__(config, pad_id, rows, name='table')
    self.table = tf_keras.layers.Embedding(config.vocab_size, config.hidden_size)
    self.dense = tf_keras.layers.Dense(config.hidden_size)
    self(tf.zeros([1, 1], tf.int32))

  def call(self, ids, segment_ids=None, training=None):
    return Encoded((self.dense(self.table(ids)),), self.mask(ids))

  @classmethod
  def read(cls, path):
    words = checkpoints.read(path)
    config = TableConfig(len(words.vocabulary))
    return Pretrained(path, 'random', config, words.vocabulary, words.lower_case)


class Ranking:
  """Of tuples of one left text, how far each lies from its label, less the mean over them."""

  needs = ('label',)

  def __call__(self, tuples, logits):
    error = logits[:, 0] - tuples['label'][:, 0]
    left = tuples['items'][:, 0]
    same = tf.cast(left[:, None] == left[None], tf.float32)  # [B, B]
    return (error - tf.linalg.matvec(same, error) / tf.reduce_sum(same, 1)) ** 2


def train(config, folder, distill, loss='cross_entropy', stages=2):
  """The student after its last step, its tokenizer, and which of its variables have moved."""
  tf_keras.utils.set_random_seed(3)  # as `two_stages.train` does
  before = [v.numpy() for v in DiPair.from_pretrained(config, 1)[0].variables]
  last = dataclasses.replace(PHASE, steps=stages - 1, patience=0)
  phases = TrainConfig(losses.LossConfig(loss), stage1=PHASE, stage2=last)
  two_stages.train(config, folder, distill, phases)
  model, tokenizer = DiPair.load(folder)
  last = tf.train.latest_checkpoint(f'{folder}/stage{stages}/checkpoints')  # not the best one
  tf.train.Checkpoint(variables=model.variables).restore(last).expect_partial()
  moved = [not np.array_equal(a, b) for a, b in zip(before, model.variables, strict=True)]
  return model, tokenizer, moved


def scores_as_exported(model, tokenizer, folder):
  """The export's scores, which are the live model's, of pairs and of one text with many."""
  slots = {'slots': ('left', 'right'), 'task': 'regression', 'samples': (LEFT, RIGHT)}
  student_export.write(folder, model, tokenizer, **slots)
  scorer = Scorer.load(folder)
  live = TupleScorer(model, tokenizer, tf.distribute.get_strategy())

  def expected(left):
    pairs = list(zip(left, RIGHT, strict=True))
    logits = live.logits(TokenizedTuples.of_texts(pairs, tokenizer))
    return 1 / (1 + np.exp(-logits[:, 0]))

  scores = scorer.score(LEFT, RIGHT)
  np.testing.assert_allclose(scores, expected(LEFT), atol=1e-5)
  vectors = scorer.encode(RIGHT, 'right')
  for parts in (None, scorer.parts(vectors, 'right')):
    ranked = dict(scorer.rank('red', vectors, parts=parts))
    np.testing.assert_allclose([ranked[i] for i in range(4)], expected(['red'] * 4), atol=1e-5)
  return scores


@pytest.mark.parametrize(
  ('encoder', 'selection', 'head'),
  [('table', 'last', 'mean'), ('bilstm', 'first', 'ffnn')],
)
def test_an_encoder_and_a_head_enter_by_their_registries(
  distill, tmp_path, monkeypatch, request, encoder, selection, head
):
  monkeypatch.setitem(encoders.ENCODERS, 'table', Table)
  monkeypatch.setitem(heads.HEADS, 'mean', MeanHead)
  config = StudentConfig(
    pretrained=f'{encoder}:random-tiny',
    encoder_layers=1,
    max_lengths=(8, 8),
    output_tokens=(3, 4),
    token_selection=selection,
    projection_dim=8,
    head=head,
    dropout=0.0,
  )
  if encoder == 'bilstm':  # DSE's is run in LiteRT; it takes long to convert
    request.getfixturevalue('tensorflow_alone')
  model, tokenizer, moved = train(config, str(tmp_path / 'student'), distill)
  assert isinstance(model.encoder(0).encoder, encoders.ENCODERS[encoder])
  assert isinstance(model.head, heads.HEADS[head]) and all(moved)
  assert np.ptp(scores_as_exported(model, tokenizer, str(tmp_path / 'export'))) > 1e-3


def test_a_loss_enters_by_its_registry(tiny, distill, tmp_path, monkeypatch):
  config = tiny(head='ffnn', encoder_layers=1)[0].config
  with pytest.raises(InputError, match='--loss=ranking: one of cross_entropy, kd, '):
    train(config, str(tmp_path / 'none'), distill, 'ranking')
  monkeypatch.setitem(losses.LOSSES, 'ranking', lambda config: Ranking())
  kernels = []
  for loss in ('ranking', 'cross_entropy'):
    model, _, _ = train(config, str(tmp_path / loss), distill, loss, stages=1)
    kernels.append(model.head.classifier.kernel.numpy())
  assert np.abs(kernels[0] - kernels[1]).max() > 1e-4
