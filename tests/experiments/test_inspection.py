"""An inspection's numbers by hand or against slow versions, and its page."""

import functools
import os

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
from experiments.inspection import measures
from experiments.inspection import page as inspection_page
from experiments.inspection.attended_texts import attend
from experiments.inspection.attention import AttendingEncoder, head_attention
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


@pytest.fixture(name='tiny')
def _tiny(build):
  return functools.partial(build, 'dipair')


@pytest.fixture(name='scorer')
def _scorer(tiny):
  return TupleScorer(*tiny(), tf.distribute.get_strategy())


def test_shares_and_distances_equal_a_slow_count(tiny):
  model, tokenizer = tiny()
  table = TokenTable.of_texts(TEXTS, tokenizer)
  found = attend(model, table, np.arange(3), TEXTS[:2], 1, '')
  shares = {name: np.zeros(4) for name in found.shares}
  relative, reached = dict.fromkeys(found.offsets.tolist(), np.zeros(4)), np.zeros(4)
  for text in TEXTS:
    ids = tokenizer.encode(tf.constant([text]), model.max_lengths[1]).to_tensor()
    rollout, size = AttendingEncoder(model, 1)(ids).rollout[0], ids.shape[1]
    for p in range(min(4, size)):
      reached[p] += 1
      for t in range(size):
        special = {0: 'cls', size - 1: 'sep'}
        name = 'own' if t == p else special.get(t) or ('kept' if t < 4 else 'other')
        shares[name][p] += rollout[p, t]
        if t not in special:
          relative[t - p] = relative[t - p] + np.eye(4)[p] * rollout[p, t]
  np.testing.assert_array_equal(found.reached, reached)
  for name, share in found.shares.items():
    np.testing.assert_allclose(share, shares[name] / reached, atol=1e-6)
  np.testing.assert_allclose(sum(found.shares.values()), 1, atol=1e-5)
  for offset, column in zip(found.offsets.tolist(), found.relative.T, strict=True):
    np.testing.assert_allclose(column, relative[offset] / reached, atol=1e-6)
  assert [example['text'] for example in found.examples] == TEXTS[:2]
  assert found.examples[0]['pieces'][0] == '[CLS]'


def tuples_of(scorer):
  return TokenizedTuples.of_texts([example.texts for example in EXAMPLES], scorer.tokenizer)


def test_removing_a_position_is_scoring_with_it_zeroed(scorer):
  tokens, index = scorer.gather(tuples_of(scorer))
  found = measures.removal(scorer, tokens, index, 'regression', LABELS)
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
  cosines, norms = measures.similarity([left, right], np.array([[0, 0], [0, 1]]))
  half = 0.5**0.5
  expected = [[1, 0, 0.5, half], [0, 1, 0.5, half], [0.5, 0.5, 1, half], [half, half, half, 1]]
  np.testing.assert_allclose(cosines, expected)
  np.testing.assert_allclose(norms, [3, 1, 3, 2**0.5])


def test_mean_head_attention_is_of_the_tuples_that_have_the_position(scorer):
  tokens, index = scorer.gather(tuples_of(scorer))
  vectors = [p(x).numpy() for p, x in zip(scorer.model.projections, tokens, strict=True)]
  vectors[1][index[:3, 1], 3] = 0  # the last position is the fourth tuple's alone
  found = measures.mean_head_attention(scorer.model, vectors, index)
  each = [
    head_attention(scorer.model, vectors[0][left], vectors[1][right]) for left, right in index
  ]
  np.testing.assert_allclose(found[:, :, 0], np.mean(each, axis=0)[:, :, 0], atol=1e-5)
  np.testing.assert_allclose(found[:, :, 6], each[3][:, :, 6], atol=1e-5)
  np.testing.assert_allclose(found.sum(-1), 1, atol=1e-5)


@pytest.mark.parametrize(
  'changes',
  [
    {},
    {'head': 'ffnn'},
    {'token_selection': 'last', 'shared_encoder': False},
    {'left_encoder_layers': 1, 'right_encoder_layers': 2, 'token_selection': 'mean'},
  ],
  ids=['transformer', 'ffnn', 'last, separate', 'mean, two depths'],
)
def test_the_page_shows_every_text_escaped_and_head_attention_where_there_is_one(
  tiny, tmp_path, changes
):
  scorer = TupleScorer(*tiny(**changes), tf.distribute.get_strategy())
  record_writer.write_sets(str(tmp_path), {'': record_writer.of_examples(EXAMPLES)}, 2)
  chosen, names = np.array([1, 0, 2, 3]), ('<script>term', 'product')
  found = measures.inspect(scorer, RecordSet(str(tmp_path)), chosen, 'regression', names)
  assert (found['tuples'], found['texts'][0]['distinct']) == (4, 3)
  path = tmp_path / 'page.html'
  inspection_page.write({'title': 'toy', 'command': 'inspect', **found}, str(path))
  page = path.read_text(encoding='utf-8')
  assert 'a &lt;b&gt;wide&lt;/b&gt; &amp; red shoe' in page
  assert '<b>wide' not in page and '<script' not in page
  assert ('Position 0 is the mean of all tokens' in page) == ('mean' in changes.values())
  assert ('Head attention' in page) == ('head' in found) == ('head' not in changes)
  assert page.count('<img src="data:image/svg+xml') == 7  # three a text, and the norms
  assert 'http' not in page.replace('http://www.w3.org', '')


def test_a_finished_run_is_inspected_twice_alike(tiny, tmp_path):
  run = finish(tmp_path / 'run', *tiny())
  pages = [tmp_path / name / 'inspect.html' for name in ('a', 'b')]
  for page in pages:
    inspect.main(inspect.InspectConfig(run.folder, str(page), texts=12))
    assert sorted(os.listdir(page.parent)) == ['inspect.html', 'inspect.json']
  one, other = (read_json(str(page.with_suffix('.json'))) for page in pages)
  assert one.pop('command') != other.pop('command')
  assert one == other and one['tuples'] == 12
  own = run.path('results.html')  # its file of numbers is the run's
  with pytest.raises(InputError, match=r'would replace .*/results\.json, which is no inspection'):
    inspect.main(inspect.InspectConfig(run.folder, own))
  with pytest.raises(InputError, match=r'--output=page\.txt: a name that ends in \.html'):
    inspect.InspectConfig(run.folder, 'page.txt')
  with pytest.raises(InputError, match='/nowhere: no results.json'):
    inspect.main(inspect.InspectConfig('/nowhere'))


def test_a_number_that_rounds_to_nothing_has_no_sign():
  (row,) = inspection_page._heat('', ['a'], ['b', 'c'], [[-0.004, -0.02]], 1.0).cells
  assert [cell.number for cell in row] == ['0', '-2']
