"""BERT, DistilBERT and ELECTRA with a classifier against the slow version in numpy; refusals."""

import json
import re

import numpy as np
import pytest
import scipy.special
import tensorflow as tf

from common.data.task import Task
from common.errors import InputError
from common.modeling import checkpoints, classifiers, encoders
from common.modeling.cross_encoder import CrossEncoder
from common.pipelines.annotate import AnnotateConfig, AnnotateJob
from tests.common.modeling.slow_bert import (
  IDS,
  KINDS,
  SEGMENTS,
  WORDS,
  random_tensors,
  slow,
  slow_logits,
  unscoped,
  write,
)


def logits_of(classifier):
  model = CrossEncoder(classifier.pretrained.config, classifier.outputs)
  classifiers.restore(model, classifier)
  return model(tf.constant(IDS, tf.int32), tf.constant(SEGMENTS, tf.int32)).numpy()


@pytest.mark.parametrize('scope', [True, False])
@pytest.mark.parametrize('kind', KINDS)
def test_the_encoder_is_the_slow_one(tmp_path, kind, scope):
  tensors = random_tensors(kind)
  named = tensors if scope else unscoped(kind, tensors)
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
  tensors = random_tensors(kind)
  folder = write(tmp_path / 'hub', kind, tensors, id2label={'0': 'LABEL_0'})
  expected = slow_logits(kind, tensors)
  for task in ('regression', 'binary'):
    np.testing.assert_allclose(logits_of(classifiers.read(folder, Task(task))), expected, atol=2e-5)


@pytest.mark.parametrize('kind', KINDS)
def test_two_labels_of_a_binary_task_are_one_logit(tmp_path, kind):
  tensors = random_tensors(kind, 2)
  found = logits_of(classifiers.read(write(tmp_path / 'hub', kind, tensors), Task('binary')))
  softmax = scipy.special.softmax(slow_logits(kind, tensors), -1)
  np.testing.assert_allclose(scipy.special.expit(found[:, 0]), softmax[:, 1], atol=1e-5)


@pytest.mark.parametrize(
  'names, order',
  [(('No', 'yes', 'MAYBE'), [1, 0, 2]), (('LABEL_0', 'LABEL_1', 'LABEL_2'), [0, 1, 2])],
)
def test_classes_are_in_the_tasks_order(tmp_path, names, order):
  tensors = random_tensors('bert', 3)
  folder = write(tmp_path / 'hub', 'bert', tensors, id2label=dict(enumerate(names)))
  found = logits_of(classifiers.read(folder, Task('multiclass', ('yes', 'no', 'maybe'))))
  expected = slow_logits('bert', tensors)[:, order]
  np.testing.assert_allclose(found, expected, atol=2e-5)
  config = AnnotateConfig((folder,), teacher_max_length=7, classes=('yes', 'no', 'maybe'))
  (of_job,) = AnnotateJob(config).load()
  np.testing.assert_array_equal(of_job.model(tf.constant(IDS), tf.constant(SEGMENTS)), found)


@pytest.mark.parametrize(
  'names, order', [(('not_equivalent', 'equivalent'), [0, 1]), ('10', [1, 0])]
)
def test_classes_that_are_numbers_are_the_outputs_own(tmp_path, names, order):
  tensors = random_tensors('bert', 2)
  folder = write(tmp_path / 'hub', 'bert', tensors, id2label=dict(enumerate(names)))
  found = logits_of(classifiers.read(folder, Task('multiclass', ('0', '1'))))
  np.testing.assert_allclose(found, slow_logits('bert', tensors)[:, order], atol=2e-5)


def test_another_network_is_refused(tmp_path):
  folder = write(tmp_path / 'hub', 'bert', {}, model_type='roberta')
  (tmp_path / 'hub' / 'vocab.txt').unlink()  # its vocabulary is another file
  with pytest.raises(InputError) as error:
    encoders.read(folder)
  assert str(error.value) == (
    f"{folder}: config.json: model_type='roberta' is not supported; bert, distilbert and electra "
    'are read'
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
  path = write(folder, 'bert', random_tensors('bert'))
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
  tensors = random_tensors('bert')
  del tensors[missing]
  with pytest.raises(InputError, match=f'no {missing}.*--teacher_pretrained'):
    classifiers.read(write(tmp_path / 'hub', 'bert', tensors), Task('binary'))


def test_a_classifier_of_another_shape_is_refused(tmp_path):
  tensors = random_tensors('bert') | {'classifier.weight': np.zeros([1, 9], np.float32)}
  with pytest.raises(InputError, match=r'classifier: weight \(1, 9\) and bias \(1,\); \(1, 8\)'):
    classifiers.read(write(tmp_path / 'hub', 'bert', tensors), Task('binary'))


def test_what_is_no_teacher_is_refused(tmp_path):
  with pytest.raises(InputError, match=r'no teacher there: neither .*model\.json.* nor .*Hugging'):
    classifiers.read(str(tmp_path), Task('binary'))
  with pytest.raises(InputError, match='random-tiny: no classifier'):
    classifiers.read(checkpoints.RANDOM_TINY, Task('binary'))
