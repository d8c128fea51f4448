"""A trained model's folder is loaded with the vocabulary of its training, or not at all."""

import json

import pytest
import tf_keras

from common.data.tokenization import Tokenizer
from common.errors import InputError
from common.modeling import saving

WORDS = ('[PAD]', '[UNK]', '[CLS]', '[SEP]', 'red', 'é', 'shoe')
FIELDS = {'kind': 'any', 'encoder': {'vocab_size': len(WORDS)}}


@pytest.fixture(name='saved')
def _saved(tmp_path):
  layer = tf_keras.layers.Dense(1)
  layer.build([None, 1])
  saving.save(str(tmp_path), layer, Tokenizer(WORDS, lower_case=True), FIELDS)
  return tmp_path


def test_what_was_saved_is_read(saved):
  fields, tokenizer = saving.read(str(saved))
  assert fields == FIELDS
  assert (tokenizer.vocabulary, tokenizer.lower_case) == (WORDS, True)


def test_a_folder_that_tensorflow_takes_for_a_pattern_is_refused(tmp_path):
  with pytest.raises(InputError, match=r"a\[1\]: TensorFlow takes '\[' in a path for a pattern"):
    saving.read(str(tmp_path / 'a[1]'))


@pytest.mark.parametrize(
  'words',
  [WORDS[:-1], (*WORDS[:4], *WORDS[5:]), (*WORDS, 'more'), (*WORDS[:4], 'shoe', 'é', 'red')],
  ids=['cut', 'without one', 'one more', 'in another order'],
)
def test_another_vocabulary_is_refused(saved, words):
  (saved / 'vocab.txt').write_text('\n'.join(words) + '\n', encoding='utf-8')
  message = (
    rf'^{saved}/vocab.txt: {len(words)} words, sha256 \w{{12}}; the model was trained with 7, '
    r'\w{12}: bring back that file, or train anew$'
  )
  with pytest.raises(InputError, match=message):
    saving.read(str(saved))


@pytest.mark.parametrize(
  'fields', [[], {'encoder': 3}, {**FIELDS, 'lower_case': True, 'vocabulary': 3}]
)
def test_fields_of_other_types_are_refused(saved, fields):
  (saved / 'digests.json').unlink()
  (saved / 'model.json').write_text(json.dumps(fields))
  with pytest.raises(
    InputError, match=rf'^{saved}/model.json: damaged \(.*\); copy the folder anew'
  ):
    saving.read(str(saved))
