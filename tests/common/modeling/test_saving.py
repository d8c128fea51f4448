"""A trained model's folder is loaded with the vocabulary that it was trained with, or not at all."""

import json

import pytest
import tf_keras

from common.data.tokenization import Tokenizer
from common.errors import InputError
from common.modeling import saving

WORDS = ('[PAD]', '[UNK]', '[CLS]', '[SEP]', 'red', 'é', 'shoe')
FIELDS = {'kind': 'any', 'encoder': {'vocab_size': len(WORDS)}}


@pytest.fixture(name='saved', params=[True, False], ids=['digest', 'none'])
def _saved(tmp_path, request):
  """A model's folder, and whether `model.json` has the vocabulary's digest; older ones have none."""
  layer = tf_keras.layers.Dense(1)
  layer.build([None, 1])
  saving.save(str(tmp_path), layer, Tokenizer(WORDS, lower_case=True), FIELDS)
  if not request.param:
    fields = json.loads((tmp_path / 'model.json').read_text())
    assert fields.pop('vocabulary')['words'] == 7
    (tmp_path / 'model.json').write_text(json.dumps(fields))
    (tmp_path / 'digests.json').unlink()
  return tmp_path, request.param


def test_what_was_saved_is_read(saved):
  fields, tokenizer = saving.read(str(saved[0]))
  assert fields == FIELDS
  assert (tokenizer.vocabulary, tokenizer.lower_case) == (WORDS, True)


def test_a_folder_that_tensorflow_takes_for_a_pattern_is_refused(tmp_path):
  with pytest.raises(InputError, match=r"a\[1\]: TensorFlow takes '\[' in a path for a pattern"):
    saving.read(str(tmp_path / 'a[1]'))


@pytest.mark.parametrize('words', [WORDS[:-1], (*WORDS[:4], *WORDS[5:]), (*WORDS, 'more')])
def test_a_vocabulary_of_another_size_is_refused(saved, words):
  folder, _ = saved
  (folder / 'vocab.txt').write_text('\n'.join(words) + '\n', encoding='utf-8')
  message = rf'^{folder}/vocab.txt: {len(words)} words, .*; the model was trained with 7.*: bring '
  with pytest.raises(InputError, match=message):
    saving.read(str(folder))


@pytest.mark.parametrize(
  'fields', [[], {'encoder': 3}, {**FIELDS, 'lower_case': True, 'vocabulary': 3}]
)
def test_fields_of_other_types_are_refused(saved, fields):
  folder, _ = saved
  (folder / 'digests.json').unlink(missing_ok=True)
  (folder / 'model.json').write_text(json.dumps(fields))
  with pytest.raises(
    InputError, match=rf'^{folder}/model.json: damaged \(.*\); copy the folder anew'
  ):
    saving.read(str(folder))


def test_a_vocabulary_of_other_words_is_refused_where_there_is_a_digest(saved):
  folder, digest = saved
  words = [*WORDS[:4], 'shoe', 'é', 'red']
  (folder / 'vocab.txt').write_text('\n'.join(words) + '\n', encoding='utf-8')
  if not digest:  # the number of words says nothing
    assert saving.read(str(folder))[1].vocabulary == tuple(words)
    return
  with pytest.raises(InputError, match=r'7 words, sha256 \w{12}; .* trained with 7, \w{12}: bring'):
    saving.read(str(folder))
