"""A sentence encoder exported as it is: its own vectors, and what cannot be exported."""

import json
import sys
import types

import numpy as np
import pytest

from common.data.tokenization import Tokenizer
from common.errors import InputError
from dse import Embedder, export
from tests.common.modeling.slow_bert import WORDS, random_tensors, slow, write

TEXTS = ['a b', 'bc', 'd a b bc a b a b a b', '']  # the third is cut
LENGTH = 6


def sentence_encoder(folder, kind='bert', pooling='mean_tokens', normalize=True, **more):
  """A folder as sentence-transformers writes it; `more` are other files' contents."""
  tensors = random_tensors(kind, 1)
  tensors |= {n: v + 1 for n, v in tensors.items() if n.endswith('orm.weight')}  # vectors differ
  write(folder, kind, tensors)
  modules = ['Transformer', 'Pooling', 'Normalize'][: 3 if normalize else 2]
  listed = [
    {'idx': i, 'name': str(i), 'path': f'{i}_{name}' if i else '', 'type': f'st.models.{name}'}
    for i, name in enumerate(modules)
  ]
  modes = ('cls_token', 'mean_tokens', 'max_tokens', 'mean_sqrt_len_tokens')
  pooled = {f'pooling_mode_{mode}': mode in pooling.split('+') for mode in modes}
  files = {
    'modules.json': listed,
    '1_Pooling/config.json': {'word_embedding_dimension': 8, **pooled, 'include_prompt': True},
    'sentence_bert_config.json': {'max_seq_length': LENGTH, 'do_lower_case': False},
    **{name.replace('__', '/') + '.json': value for name, value in more.items()},
  }
  (folder / '1_Pooling').mkdir()
  for name, value in files.items():
    if value is not None:
      (folder / name).write_text(json.dumps(value))
  return str(folder), tensors


def expected(kind, tensors, pooling, normalize):
  """Sentence vectors text by text, by the slow network of `slow_bert`."""
  tokenizer, vectors = Tokenizer(WORDS, True), []
  for ids in tokenizer.encode(TEXTS, LENGTH).to_list():
    layers, _ = slow(kind, tensors, np.array([ids]), np.zeros([1, len(ids)], int))
    tokens = layers[-1][0]  # [t, H], [CLS] and [SEP] too
    vector = tokens[0] if pooling == 'cls_token' else tokens.mean(0)
    vectors.append(vector / np.linalg.norm(vector) if normalize else vector)
  return np.array(vectors)


@pytest.mark.parametrize(
  ('kind', 'pooling', 'normalize'),
  [('bert', 'mean_tokens', True), ('distilbert', 'cls_token', False)],
)
def test_vectors_are_the_encoders_own_in_both_runtimes(tmp_path, kind, pooling, normalize):
  folder, tensors = sentence_encoder(tmp_path / 'from', kind, pooling, normalize)
  output = str(tmp_path / 'to')
  export.main(export.ExportConfig(folder, output))
  vectors = expected(kind, tensors, pooling, normalize)
  unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
  scores = 1 / (1 + np.exp(-5 * unit @ unit.T))
  assert np.ptp(scores) > 1e-3
  for runtime in ('tensorflow', 'litert'):
    embedder = Embedder.load(output, runtime=runtime, encoder_runtime=runtime)
    np.testing.assert_allclose(embedder.encode(TEXTS), vectors, atol=2e-5)
    np.testing.assert_allclose(embedder.score_all_pairs(TEXTS), scores, atol=1e-5)
    pairs = embedder.score(TEXTS[:2], TEXTS[2:])
    np.testing.assert_allclose(pairs, [scores[0, 2], scores[1, 3]], atol=1e-5)
    ranked = dict(embedder.rank(TEXTS[0], embedder.encode(TEXTS)))
    np.testing.assert_allclose([ranked[i] for i in range(4)], scores[0], atol=1e-5)
  with pytest.raises(InputError, match=r'^--output=.*to: there already; name another$'):
    export.main(export.ExportConfig(folder, output))


def module(*names):
  return [{'path': f'{i}' if i else '', 'type': f'st.{name}'} for i, name in enumerate(names)]


@pytest.mark.parametrize(
  ('changes', 'message'),
  [
    ({'pooling': 'max_tokens'}, 'config.json: pooling max_tokens cannot be exported; mean_tokens'),
    ({'pooling': 'cls_token+mean_tokens'}, 'pooling cls_token and mean_tokens cannot be exported'),
    ({'pooling': ''}, 'pooling by nothing cannot be exported'),
    ({'1_Pooling__config': {'pooling_mode': 'lasttoken'}}, 'pooling lasttoken cannot be exported'),
    (
      {'1_Pooling__config': None},
      'from: no 1_Pooling/config.json, which says how tokens are pooled',
    ),
    ({'modules': None}, 'from: no modules.json, which says how tokens become a vector'),
    ({'modules': {'a': 1}}, 'from: modules.json is no list of modules; copy the folder anew'),
    (
      {'modules': module('Transformer', 'Pooling', 'Dense')},
      'from: modules Transformer, Pooling, Dense; Transformer, Pooling and, at the end, ',
    ),
    (
      {'config_sentence_transformers': {'default_prompt_name': 'query'}},
      "from: default_prompt_name='query': a prompt before each text is not supported",
    ),
    (
      {'normalize': False, 'config_sentence_transformers': {'similarity_fn_name': 'dot'}},
      "from: similarity_fn_name='dot' of vectors that are not of length 1; the cosine alone is ",
    ),
    ({'1_Pooling__config': {'pooling_mode': 3}}, 'pooling 3 cannot be exported'),
    (
      {'config_sentence_transformers': ['query']},
      r"config_sentence_transformers.json: damaged \(settings is \['query'\], not an object\); ",
    ),
    (
      {'sentence_bert_config': {'max_seq_length': '256'}},
      r"sentence_bert_config.json: damaged \(settings.max_seq_length is '256', not a whole number",
    ),
    (
      {'sentence_bert_config': {}, 'tokenizer_config': {'model_max_length': '256'}},
      "tokenizer_config.json: model_max_length='256'; a number of tokens is needed",
    ),
  ],
)
def test_what_cannot_be_exported_is_refused_with_the_reason(tmp_path, changes, message):
  folder, _ = sentence_encoder(tmp_path / 'from', **changes)
  with pytest.raises(InputError, match=f'{message}'):
    export.main(export.ExportConfig(folder, str(tmp_path / 'to')))
  assert not (tmp_path / 'to').exists()


@pytest.mark.parametrize(
  ('length', 'message'), [(8, '--max_length=8: .*from has 7 positions'), (1, '--max_length=1: ')]
)
def test_a_length_that_the_encoder_cannot_have_is_refused(tmp_path, length, message):
  folder, _ = sentence_encoder(tmp_path / 'from')
  with pytest.raises(InputError, match=f'^{message}'):
    export.main(export.ExportConfig(folder, str(tmp_path / 'to'), length))


def test_an_output_that_tensorflow_takes_for_a_pattern_is_refused(tmp_path):
  with pytest.raises(InputError, match=r"^--output=.*/to\*: TensorFlow takes '\*' in a path"):
    export.main(export.ExportConfig(str(tmp_path / 'none'), str(tmp_path / 'to*')))


def test_newer_configs_name_the_pooling(tmp_path):
  folder, _ = sentence_encoder(tmp_path / 'from', **{'1_Pooling__config': {'pooling_mode': 'cls'}})
  config = export.student_config(export.encoders.read(folder))
  assert (config.pooling, config.normalize, config.max_lengths) == ('cls', True, (LENGTH, LENGTH))


@pytest.mark.parametrize(
  ('named', 'of_tokenizer', 'length'),
  [
    (None, 5, 5),
    (None, 10**30, 7),  # as where it is not set; the encoder has 7 positions
    (None, None, 7),
    (6, 5, 6),
  ],
)
def test_texts_are_cut_where_the_folder_says(tmp_path, named, of_tokenizer, length):
  folder, _ = sentence_encoder(
    tmp_path / 'from',
    sentence_bert_config={'max_seq_length': named},
    tokenizer_config={'model_max_length': of_tokenizer},
  )
  config = export.student_config(export.encoders.read(folder))
  assert config.max_lengths == (length, length)


def test_a_bare_id_of_the_hub_is_taken_whole(monkeypatch, tmp_path):
  folder, _ = sentence_encoder(tmp_path / 'from')
  hub = types.SimpleNamespace(snapshot_download=lambda name, **_: f'{tmp_path}/{name}')
  monkeypatch.setitem(sys.modules, 'huggingface_hub', hub)
  assert export._local('org/name') == export._local('hf://org/name') == f'{tmp_path}/org/name'
  assert (export._local(folder), export._local('minilm')) == (folder, 'minilm')
  monkeypatch.chdir(tmp_path.parent)
  assert export._local(f'{tmp_path.name}/from') == f'{tmp_path.name}/from'
