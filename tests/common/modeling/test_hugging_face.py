"""BERT, DistilBERT and ELECTRA with a classifier against a slow version in numpy; refusals."""

import json
import re

import numpy as np
import pytest
import safetensors.numpy
import scipy.special
import tensorflow as tf

from common.data.task import Task
from common.errors import InputError
from common.modeling import checkpoints, classifiers, encoders
from common.modeling.cross_encoder import CrossEncoder
from common.pipelines.annotate import AnnotateConfig, AnnotateJob

# E width of the embeddings, H of the layers, F inside a layer.
WORDS = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', 'a', 'b', '##c', 'd']
V, P, H, F, DEPTH, HEADS = len(WORDS), 7, 8, 12, 2, 2
WIDTH = {'bert': H, 'distilbert': H, 'electra': 4}
BERT_JSON = {
  'vocab_size': V,
  'hidden_size': H,
  'num_hidden_layers': DEPTH,
  'num_attention_heads': HEADS,
  'intermediate_size': F,
  'max_position_embeddings': P,
  'type_vocab_size': 2,
  'hidden_act': 'gelu',
  'hidden_dropout_prob': 0.3,
  'layer_norm_eps': 1e-12,
}
CONFIGS = {
  'bert': BERT_JSON,
  'distilbert': {
    'vocab_size': V,
    'dim': H,
    'n_layers': DEPTH,
    'n_heads': HEADS,
    'hidden_dim': F,
    'max_position_embeddings': P,
    'activation': 'gelu',
    'dropout': 0.3,
  },
  'electra': BERT_JSON | {'embedding_size': WIDTH['electra']},
}
BERT_LAYER = (
  *('attention.self.query', 'attention.self.key', 'attention.self.value'),
  *('attention.output.dense', 'attention.output.LayerNorm'),
  *('intermediate.dense', 'output.dense', 'output.LayerNorm'),
)
LAYERS = {  # query, key, value, output, its norm, inner, outer, its norm
  'bert': ('encoder', *BERT_LAYER),
  'electra': ('encoder', *BERT_LAYER),
  'distilbert': (
    *('transformer', 'attention.q_lin', 'attention.k_lin', 'attention.v_lin'),
    *('attention.out_lin', 'sa_layer_norm', 'ffn.lin1', 'ffn.lin2', 'output_layer_norm'),
  ),
}
HEAD = {  # dense layer on the first token, layer of the logits
  'bert': ('bert.pooler.dense', 'classifier'),
  'distilbert': ('pre_classifier', 'classifier'),
  'electra': ('classifier.dense', 'classifier.out_proj'),
}
CLASS = {
  'bert': 'BertForSequenceClassification',
  'distilbert': 'DistilBertForSequenceClassification',
  'electra': 'ElectraForSequenceClassification',
}
KINDS = tuple(CLASS)
IDS = np.array([[2, 5, 8, 3, 6, 3, 0], [2, 7, 3, 8, 5, 6, 3]])
SEGMENTS = np.array([[0, 0, 0, 0, 1, 1, 0], [0, 0, 0, 1, 1, 1, 1]])


def random_tensors(kind, labels):
  """Weights of a sequence classifier, as Hugging Face names and shapes them."""
  width, scope = WIDTH[kind], f'{kind}.'
  shapes = {
    f'{scope}embeddings.word_embeddings.weight': (V, width),
    f'{scope}embeddings.position_embeddings.weight': (P, width),
    f'{scope}embeddings.LayerNorm.weight': (width,),
    f'{scope}embeddings.LayerNorm.bias': (width,),
  }
  if kind != 'distilbert':
    shapes[f'{scope}embeddings.token_type_embeddings.weight'] = (2, width)
  linear = {HEAD[kind][0]: (H, H), HEAD[kind][1]: (labels, H)}
  if width != H:
    linear[f'{scope}embeddings_project'] = (H, width)
  stack, *names = LAYERS[kind]
  for i in range(DEPTH):
    for name in names:
      wide = {names[5]: (F, H), names[6]: (H, F)}.get(name, (H, H))
      linear[f'{scope}{stack}.layer.{i}.{name}'] = (H,) if 'orm' in name else wide
  for name, shape in linear.items():
    shapes |= {f'{name}.weight': shape, f'{name}.bias': shape[:1]}
  rng = np.random.default_rng(4)
  return {name: rng.normal(0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}


def slow(kind, tensors, ids, segments):
  """Outputs of the layers and logits, text by text and head by head."""
  scope, (stack, *names) = f'{kind}.', LAYERS[kind]
  tensors = {name: value.astype(np.float64) for name, value in tensors.items()}

  def dense(x, name):
    return x @ tensors[f'{name}.weight'].T + tensors[f'{name}.bias']

  def norm(x, name):
    x = x - x.mean(-1, keepdims=True)
    x = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-12)
    return x * tensors[f'{name}.weight'] + tensors[f'{name}.bias']

  def gelu(x):
    return x * (1 + scipy.special.erf(x / np.sqrt(2))) / 2

  layers, logits = [[] for _ in range(DEPTH)], []
  for text, segment in zip(ids, segments, strict=True):
    table = {
      name: tensors.get(f'{scope}embeddings.{name}_embeddings.weight')
      for name in ('word', 'position', 'token_type')
    }
    x = table['word'][text] + table['position'][: len(text)]
    if table['token_type'] is not None:
      x = x + table['token_type'][segment]
    x = norm(x, f'{scope}embeddings.LayerNorm')
    if f'{scope}embeddings_project.weight' in tensors:
      x = dense(x, f'{scope}embeddings_project')
    for i in range(DEPTH):
      query, key, value, out, out_norm, inner, outer, outer_norm = (
        f'{scope}{stack}.layer.{i}.{name}' for name in names
      )
      seen = []
      split = (np.split(dense(x, name), HEADS, -1) for name in (query, key, value))
      for q, k, v in zip(*split, strict=True):
        weights = q @ k.T / np.sqrt(q.shape[-1]) + np.where(text == 0, -np.inf, 0)
        seen.append(scipy.special.softmax(weights, -1) @ v)
      x = norm(x + dense(np.concatenate(seen, -1), out), out_norm)
      x = norm(x + dense(gelu(dense(x, inner)), outer), outer_norm)
      layers[i].append(x)
    first, last = HEAD[kind]
    act = {'bert': np.tanh, 'distilbert': lambda x: np.maximum(x, 0), 'electra': gelu}[kind]
    logits.append(dense(act(dense(x[0], first)), last))
  return [np.stack(layer) for layer in layers], np.stack(logits)


def write(folder, kind, tensors, **changes):
  """A Hugging Face folder."""
  folder.mkdir()
  fields = {'model_type': kind, 'architectures': [CLASS[kind]], **CONFIGS[kind], **changes}
  (folder / 'config.json').write_text(json.dumps(fields))
  (folder / 'vocab.txt').write_text('\n'.join(WORDS) + '\n')
  tensors = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
  safetensors.numpy.save_file(tensors, str(folder / 'model.safetensors'))
  return str(folder)


def logits_of(classifier):
  model = CrossEncoder(classifier.pretrained.config, classifier.outputs)
  classifiers.restore(model, classifier)
  return model(tf.constant(IDS, tf.int32), tf.constant(SEGMENTS, tf.int32)).numpy()


@pytest.mark.parametrize('scope', [True, False])
@pytest.mark.parametrize('kind', KINDS)
def test_the_encoder_is_the_slow_one(tmp_path, kind, scope):
  tensors = random_tensors(kind, 1)
  named = tensors
  if not scope:  # as of BertModel, DistilBertModel, ElectraModel
    own = f'{kind}.'
    named = {n.removeprefix(own): t for n, t in tensors.items() if n.startswith(own)}
  pretrained = encoders.read(write(tmp_path / 'hub', kind, named))
  assert pretrained.config.dropout == 0.3
  encoder = encoders.build(pretrained.config, pad_id=0)
  encoder.restore(pretrained)
  found = encoder(tf.constant(IDS, tf.int32), tf.constant(SEGMENTS, tf.int32))
  expected, _ = slow(kind, tensors, IDS, SEGMENTS)
  for layer, by_hand in zip(found.layers, expected, strict=True):
    np.testing.assert_allclose(layer, by_hand, atol=2e-5)


@pytest.mark.parametrize('kind', KINDS)
def test_one_label_is_one_logit(tmp_path, kind):
  tensors = random_tensors(kind, 1)
  folder = write(tmp_path / 'hub', kind, tensors, id2label={'0': 'LABEL_0'})
  expected = slow(kind, tensors, IDS, SEGMENTS)[1]
  for task in ('regression', 'binary'):
    np.testing.assert_allclose(logits_of(classifiers.read(folder, Task(task))), expected, atol=2e-5)


@pytest.mark.parametrize('kind', KINDS)
def test_two_labels_of_a_binary_task_are_one_logit(tmp_path, kind):
  tensors = random_tensors(kind, 2)
  found = logits_of(classifiers.read(write(tmp_path / 'hub', kind, tensors), Task('binary')))
  softmax = scipy.special.softmax(slow(kind, tensors, IDS, SEGMENTS)[1], -1)
  np.testing.assert_allclose(scipy.special.expit(found[:, 0]), softmax[:, 1], atol=1e-5)


@pytest.mark.parametrize(
  'names, order',
  [(('No', 'yes', 'MAYBE'), [1, 0, 2]), (('LABEL_0', 'LABEL_1', 'LABEL_2'), [0, 1, 2])],
)
def test_classes_are_in_the_tasks_order(tmp_path, names, order):
  tensors = random_tensors('bert', 3)
  folder = write(tmp_path / 'hub', 'bert', tensors, id2label=dict(enumerate(names)))
  found = logits_of(classifiers.read(folder, Task('multiclass', ('yes', 'no', 'maybe'))))
  expected = slow('bert', tensors, IDS, SEGMENTS)[1][:, order]
  np.testing.assert_allclose(found, expected, atol=2e-5)
  config = AnnotateConfig((folder,), teacher_max_length=7, classes=('yes', 'no', 'maybe'))
  (of_job,), _ = AnnotateJob(config).load()
  np.testing.assert_array_equal(of_job.model(tf.constant(IDS), tf.constant(SEGMENTS)), found)


@pytest.mark.parametrize(
  'names, order', [(('not_equivalent', 'equivalent'), [0, 1]), ('10', [1, 0])]
)
def test_classes_that_are_numbers_are_the_outputs_own(tmp_path, names, order):
  tensors = random_tensors('bert', 2)
  folder = write(tmp_path / 'hub', 'bert', tensors, id2label=dict(enumerate(names)))
  found = logits_of(classifiers.read(folder, Task('multiclass', ('0', '1'))))
  np.testing.assert_allclose(found, slow('bert', tensors, IDS, SEGMENTS)[1][:, order], atol=2e-5)


@pytest.mark.parametrize(
  'kind, reason',
  [
    ('mpnet', 'its attention has a bias of relative positions'),
    ('roberta', 'its vocabulary is byte-level BPE, not word pieces'),
  ],
)
def test_other_networks_are_refused_with_the_reason(tmp_path, kind, reason):
  folder = write(tmp_path / 'hub', 'bert', {}, model_type=kind)
  (tmp_path / 'hub' / 'vocab.txt').unlink()  # theirs is another file
  with pytest.raises(InputError) as error:
    encoders.read(folder)
  assert str(error.value) == (
    f'{folder}: config.json: model_type={kind!r}: {reason}; bert, distilbert and electra are read'
  )


@pytest.mark.parametrize(
  'settings, message',
  [
    (
      {'do_lower_case': True, 'strip_accents': False},
      'strip_accents=False beside do_lower_case=True',
    ),
    ({'tokenize_chinese_chars': False}, 'tokenize_chinese_chars=False is not supported; True is'),
    ({'word_tokenizer_type': 'mecab'}, "word_tokenizer_type='mecab' is not supported; 'basic' is"),
    (
      {'subword_tokenizer_type': 'character'},
      "subword_tokenizer_type='character' is not supported",
    ),
  ],
)
def test_other_tokenizers_are_refused(tmp_path, settings, message):
  folder = write(tmp_path / 'hub', 'bert', {})
  (tmp_path / 'hub' / 'tokenizer_config.json').write_text(json.dumps(settings))
  with pytest.raises(InputError, match=f'^{folder}: tokenizer_config.json: {message}'):
    encoders.read(folder)


def tokenizer_json(lowercase, **changes):
  """What transformers 5 writes in place of `vocab.txt`, of the fields that are read."""
  made = {
    'model': {
      'type': 'WordPiece',
      'unk_token': '[UNK]',
      'continuing_subword_prefix': '##',
      'vocab': {word: WORDS.index(word) for word in reversed(WORDS)},
    },
    'normalizer': {
      'type': 'BertNormalizer',
      'clean_text': True,
      'handle_chinese_chars': True,
      'strip_accents': None,
      'lowercase': lowercase,
    },
    'pre_tokenizer': {'type': 'BertPreTokenizer'},
  }
  return {part: fields | changes.get(part, {}) for part, fields in made.items()}


def without_words(folder, tokenizer, **settings):
  """A Hugging Face folder with a `tokenizer.json` in place of `vocab.txt`."""
  path = write(folder, 'bert', random_tensors('bert', 1))
  (folder / 'vocab.txt').unlink()
  (folder / 'tokenizer.json').write_text(json.dumps(tokenizer))
  (folder / 'tokenizer_config.json').write_text(json.dumps(settings))
  return path


@pytest.mark.parametrize(
  'lowercase, settings, expected',
  [(True, {}, True), (False, {}, False), (True, {'do_lower_case': False}, False)],
)
def test_word_pieces_without_a_vocab_txt_are_the_tokenizers(
  tmp_path, lowercase, settings, expected
):
  pretrained = encoders.read(without_words(tmp_path / 'hub', tokenizer_json(lowercase), **settings))
  assert (pretrained.vocabulary, pretrained.lower_case) == (tuple(WORDS), expected)
  (tmp_path / 'hub' / 'vocab.txt').write_text('\n'.join([*WORDS[:-1], 'other']))
  assert encoders.read(pretrained.path).vocabulary[-1] == 'other'


@pytest.mark.parametrize(
  'changes, message',
  [
    ({'model': {'type': 'BPE'}}, "model.type='BPE' is not supported; 'WordPiece' is"),
    ({'model': {'unk_token': '<unk>'}}, "model.unk_token='<unk>' is not supported; '[UNK]' is"),
    ({'model': {'vocab': {'[PAD]': 1}}}, 'model.vocab: its ids are not 0, 1, 2 and so on'),
    ({'model': {'vocab': {'[PAD]': '0'}}}, "ids of model.vocab[0] is '0', not a whole number"),
    ({'model': {'vocab': {'[PAD]': 0}}}, 'vocabulary of 1 entries lacks [UNK], [CLS], [SEP]'),
    ({'normalizer': {'type': 'NFC'}}, "normalizer.type='NFC' is not supported"),
    ({'normalizer': {'handle_chinese_chars': False}}, 'normalizer.handle_chinese_chars=False is'),
    ({'normalizer': {'strip_accents': False}}, 'strip_accents=False beside lowercase=True is not'),
    ({'pre_tokenizer': {'type': 'Whitespace'}}, "pre_tokenizer.type='Whitespace' is not supported"),
  ],
)
def test_a_tokenizer_json_that_is_not_berts_is_refused(tmp_path, changes, message):
  folder = without_words(tmp_path / 'hub', tokenizer_json(True, **changes))
  with pytest.raises(InputError, match=f'^{folder}: tokenizer.json: {re.escape(message)}'):
    encoders.read(folder)


TWO = {'id2label': {'0': 'no', '1': 'yes'}}


@pytest.mark.parametrize(
  'labels, changes, wanted, message',
  [
    (2, TWO, ('regression',), r'has 2 labels \(no, yes\); --task=regression needs one'),
    (3, {}, ('binary',), r'has 3 labels \(LABEL_0, .*\); --task=binary needs one or two$'),
    (1, {}, ('multiclass', 'ab'), r'has one label; --task needs 2 \(a, b\)$'),
    (2, TWO, ('multiclass', 'ab'), r"\(no, yes\); the task's are a, b: id2label in config.json"),
    (2, {'id2label': {'0': '1', '1': 'x'}}, ('multiclass', '01'), "the task's are 0, 1: id2label"),
    (2, {'problem_type': 'multi_label_classification'}, (), 'do not exclude one another'),
    (1, {'problem_type': 'regression'}, (), 'its output is a value, where a logit is needed'),
    (1, {'architectures': ['BertForMultipleChoice']}, (), 'not ForSequenceClassification'),
  ],
)
def test_labels_that_are_not_the_tasks_are_refused(tmp_path, labels, changes, wanted, message):
  folder = write(tmp_path / 'hub', 'bert', random_tensors('bert', labels), **changes)
  with pytest.raises(InputError, match=message) as error:
    classifiers.read(folder, Task(*wanted))
  assert str(error.value).startswith(f'{folder}: ')
  assert '\n' not in str(error.value)


@pytest.mark.parametrize(
  'changes, message',
  [
    ({'hidden_act': ['gelu']}, r"config.json: hidden_act=\['gelu'\]: not one of gelu, "),
    ({'model_type': ['bert']}, r"config.json: model_type is \['bert'\], not a text"),
    ({'id2label': ['a', 'b']}, r"config.json: id2label is \['a', 'b'\], not an object"),
    ({'architectures': 'Bert'}, "config.json: architectures is 'Bert', not a list"),
  ],
)
def test_fields_of_other_types_are_refused(tmp_path, changes, message):
  folder = write(tmp_path / 'hub', 'bert', random_tensors('bert', 2), **changes)
  with pytest.raises(InputError, match=f'^{folder}: {message}'):
    classifiers.read(folder, Task('binary'))


@pytest.mark.parametrize('missing', ['classifier.bias', 'bert.pooler.dense.weight'])
def test_a_missing_classifier_is_named(tmp_path, missing):
  tensors = random_tensors('bert', 1)
  del tensors[missing]
  with pytest.raises(InputError, match=f'no {missing}.*--teacher_pretrained'):
    classifiers.read(write(tmp_path / 'hub', 'bert', tensors), Task('binary'))


def test_a_classifier_of_another_shape_is_refused(tmp_path):
  tensors = random_tensors('bert', 1) | {'classifier.weight': np.zeros([1, 9], np.float32)}
  with pytest.raises(InputError, match=r'classifier: weight \(1, 9\) and bias \(1,\); \(1, 8\)'):
    classifiers.read(write(tmp_path / 'hub', 'bert', tensors), Task('binary'))


def test_what_is_no_teacher_is_refused(tmp_path):
  with pytest.raises(InputError, match=r'no teacher there: neither .*model\.json.* nor .*Hugging'):
    classifiers.read(str(tmp_path), Task('binary'))
  with pytest.raises(InputError, match='random-tiny: no classifier'):
    classifiers.read(checkpoints.RANDOM_TINY, Task('binary'))
