"""A student called as a cross-encoder of sentence-transformers is."""

import numpy as np
import pytest

import dipair
import dse
from common.errors import InputError

QUERIES = ['nike shoes', 'red throw', 'nike shoes']
TITLES = ['black nike shoes for boys', 'red throw', 'wide red boots']


@pytest.fixture(name='model', scope='module')
def _model(exported):
  return dipair.CrossEncoder(exported.folder)


def test_pairs_have_the_scorers_scores(model, exported, load):
  expected = load(exported.folder).score(QUERIES, TITLES)
  pairs = list(zip(QUERIES, TITLES, strict=True))
  np.testing.assert_allclose(model.predict(pairs, batch_size=2), expected, atol=1e-6)
  np.testing.assert_allclose(model.predict(np.array(pairs).tolist()[0]), expected[0], atol=1e-6)
  assert model.predict([]).shape == (0,)
  assert dse.CrossEncoder is dipair.CrossEncoder


def test_it_is_called_as_evaluators_of_sentence_transformers_call_it(model):
  pairs = [[query, title] for query in QUERIES for title in TITLES]
  options = {'batch_size': 64, 'convert_to_numpy': True, 'show_progress_bar': False}
  scores = model.predict(pairs, prompt_name=None, **options)
  np.testing.assert_array_equal(scores, model.predict(pairs))
  assert model.num_labels == 1  # asked by the one of classification
  assert model.model_card_data.set_evaluation_metrics(object(), {'map': 0.5}, -1, -1) is None
  for wrong in ({'prompt_name': 'query'}, {'convert_to_numpy': False}):
    with pytest.raises(InputError, match='prompt_name=.*: None and True alone are taken'):
      model.predict(pairs, **wrong)


def test_documents_are_ranked_by_the_same_scores(model):
  scores = model.predict([(QUERIES[0], title) for title in TITLES])
  order = np.argsort(-scores, kind='stable').tolist()
  found = model.rank(QUERIES[0], TITLES, return_documents=True)
  assert [row['corpus_id'] for row in found] == order
  assert [row['text'] for row in found] == [TITLES[row] for row in order]
  np.testing.assert_allclose([row['score'] for row in found], scores[order], atol=1e-6)
  (best,) = model.rank(QUERIES[0], TITLES, top_k=1)
  assert best == {key: value for key, value in found[0].items() if key != 'text'}
  with pytest.raises(InputError, match='^query: one text is needed, not a value of type list$'):
    model.rank(QUERIES[:1], TITLES)


@pytest.mark.parametrize(
  ('pairs', 'message'),
  [
    ([('a', 'b'), ('a', 'b', 'c')], 'pair 1: 3 texts; this model takes left, right'),
    (None, 'sentences: a list of pairs of texts is needed, not None'),
    ('ab', 'sentences: a list of pairs of texts is needed, not a value of type str'),
    ([('a', 'b'), 'cd'], 'pair 1: a value of type str is no pair of texts'),
    ([('a', 'b'), None], 'pair 1: None is no pair of texts'),
    ([('a', None)], 'pair 0: None is not a text'),
    ([('q', 'a'), ('q', 'a'), ('q', 'b'), ('q', '\udc00')], 'pair 3: not a text: '),
  ],
)
def test_what_is_no_pair_is_refused(model, pairs, message):
  with pytest.raises(InputError, match=message):
    model.predict(pairs)


@pytest.mark.parametrize(
  ('query', 'top_k', 'message'),
  [('red', 0, 'top_k=0: a whole number from 1'), ('\udc00', 1, 'query: not a text')],
)
def test_a_ranking_is_refused_before_a_document_is_encoded(
  model, monkeypatch, query, top_k, message
):
  monkeypatch.setattr(model.scorer, '_encoder', None)
  with pytest.raises(InputError, match=f'^{message}'):
    model.rank(query, TITLES, top_k)
