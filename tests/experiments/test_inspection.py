"""An inspection's numbers by hand or against slow versions, and its tables."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from common.data import record_writer
from common.data.examples import Example
from common.data.records import RecordSet
from common.data.tokens import TokenizedTuples, TokenTable
from common.distillation.inference import TupleScorer
from common.errors import InputError
from common.evaluation import metrics
from common.files import read_json
from experiments import inspect
from experiments.attention import AttendingEncoder, head_attention
from tests.experiments.conftest import finish

TEXTS = ['red', 'a <b>wide</b> & red shoe', 'nike shoes']
EXAMPLES = [
  Example(f'{i}', (left, right), label)
  for i, (left, right, label) in enumerate(
    [
      ('red', 'wide red boots', 0.9),
      ('a <b>wide</b> & red shoe', 'red throw', 0.4),
      ('red', 'x y', 0.1),
      ('nike shoes', 'black nike shoes for boys', 1.0),
    ]
  )
]
LABELS = np.array([example.label for example in EXAMPLES])


@pytest.fixture(name='tiny', scope='module')
def _tiny(build):
  return functools.partial(build, 'dipair')


@pytest.fixture(name='scorer', scope='module')
def _scorer(tiny):
  return TupleScorer(*tiny(), tf.distribute.get_strategy())


def test_shares_equal_a_slow_count(tiny):
  model, tokenizer = tiny()
  found = inspect.attend(model, TokenTable.of_texts(TEXTS, tokenizer), np.arange(3), 1, '')
  shares, reached = {name: np.zeros(4) for name in inspect.TARGETS}, np.zeros(4)
  encoder = AttendingEncoder(model, 1)
  for text in TEXTS:
    ids = tokenizer.encode(tf.constant([text]), model.max_lengths[1]).to_tensor()
    rollout, size = encoder(ids).rollout[0], ids.shape[1]
    for p in range(min(4, size)):
      reached[p] += 1
      for t in range(size):
        special = {0: 'cls', size - 1: 'sep'}
        name = 'own' if t == p else special.get(t) or ('kept' if t < 4 else 'other')
        shares[name][p] += rollout[p, t]
  np.testing.assert_array_equal(found.reached, reached)
  for name, share in found.shares.items():
    np.testing.assert_allclose(share, shares[name] / reached, atol=1e-6)
  np.testing.assert_allclose(sum(found.shares.values()), 1, atol=1e-5)


def tuples_of(scorer):
  return TokenizedTuples.of_texts([example.texts for example in EXAMPLES], scorer.tokenizer)


def test_removing_a_position_is_scoring_with_it_zeroed(scorer):
  tokens, index = scorer.gather(tuples_of(scorer))
  found = inspect.removal(scorer, tokens, index, 'regression', LABELS)
  assert [len(values) for values in found['without']] == [3, 4]

  def score(zeroed):
    vectors = [
      scorer.model.vectors(tf.constant(x), slot).numpy()[index[:, slot]]
      for slot, x in enumerate(tokens)
    ]
    vectors[1][:, zeroed] = 0
    logits = scorer.model.score_vectors(vectors).numpy()
    return metrics.evaluate('regression', LABELS, logits)[found['name']]

  assert found['all'] == pytest.approx(score([]), abs=1e-5)
  assert found['without'][1][2] == pytest.approx(score([2]), abs=1e-5)
  assert found['only'][1][2] == pytest.approx(score([0, 1, 3]), abs=1e-5)
  assert found['without'][1][2] != pytest.approx(found['all'], abs=1e-6)


def test_similarity_by_hand():
  """A left text's two positions at right angles; the second right text ends before its second."""
  left = np.array([[[3.0, 0.0], [0.0, 1.0]]])
  right = np.array([[[2.0, 0.0], [1.0, 1.0]], [[0.0, 4.0], [0.0, 0.0]]])
  cosines, norms = inspect.similarity([left, right], np.array([[0, 0], [0, 1]]))
  half = 0.5**0.5
  expected = [[1, 0, 0.5, half], [0, 1, 0.5, half], [0.5, 0.5, 1, half], [half, half, half, 1]]
  np.testing.assert_allclose(cosines, expected)
  np.testing.assert_allclose(norms, [3, 1, 3, 2**0.5])


def test_mean_head_attention_is_of_the_tuples_that_have_the_position(scorer):
  tokens, index = scorer.gather(tuples_of(scorer))
  vectors = [p(x).numpy() for p, x in zip(scorer.model.projections, tokens, strict=True)]
  vectors[1][index[:3, 1], 3] = 0  # the last position is the fourth tuple's alone
  found = inspect.mean_head_attention(scorer.model, vectors, index)
  each = [
    head_attention(scorer.model, vectors[0][left], vectors[1][right]) for left, right in index
  ]
  np.testing.assert_allclose(found[:, :, 0], np.mean(each, axis=0)[:, :, 0], atol=1e-5)
  np.testing.assert_allclose(found[:, :, 6], each[3][:, :, 6], atol=1e-5)
  np.testing.assert_allclose(found.sum(-1), 1, atol=1e-5)


@pytest.mark.parametrize(
  'changes',
  [
    {'head': 'ffnn'},
    {'left_encoder_layers': 1, 'right_encoder_layers': 2, 'token_selection': 'mean'},
  ],
  ids=['ffnn', 'mean, two depths'],
)
def test_tables_show_every_position_and_head_attention_where_there_is_one(tiny, tmp_path, changes):
  scorer = TupleScorer(*tiny(**changes), tf.distribute.get_strategy())
  record_writer.write_sets(str(tmp_path), {'': record_writer.of_examples(EXAMPLES)}, 2)
  chosen, names = np.array([1, 0, 2, 3]), ('term', 'product')
  found = inspect.inspect(scorer, RecordSet(str(tmp_path)), chosen, 'regression', names)
  assert (found['tuples'], found['texts'][0]['distinct']) == (4, 3)
  positions, *matrices = inspect.tables(found)
  rows = [f'{name} {i}' for name, count in (('term', 3), ('product', 4)) for i in range(count)]
  assert [row[0] for row in positions.rows] == rows
  assert positions.rows[0][1] == '3' and positions.headers[-1] == 'to other'
  of_head = 0 if 'head' in changes else 2  # two layers of one attention head
  assert len(matrices) == 1 + of_head
  assert all([row[0] for row in matrix.rows] == rows for matrix in matrices)


def test_a_finished_run_is_inspected_twice_alike(tiny, tmp_path, capsys):
  run = finish(tmp_path / 'run', *tiny())
  files = [str(tmp_path / f'{name}.json') for name in 'ab']
  for file in files:
    inspect.main(inspect.InspectConfig(run.folder, file, texts=12))
  one, other = (read_json(file) for file in files)
  assert one.pop('command') != other.pop('command')
  assert one == other and one['tuples'] == 12
  assert '12 tuples; Pearson of all positions: ' in capsys.readouterr().out
  with pytest.raises(InputError, match='/nowhere: no results.json'):
    inspect.main(inspect.InspectConfig('/nowhere'))
