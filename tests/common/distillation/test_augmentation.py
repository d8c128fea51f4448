"""Tuples made of training tuples: which texts change, how, and that none is there twice."""

import pytest

from common.data import record_writer
from common.data.examples import Example
from common.data.records import RecordSet
from common.data.tokenization import Tokenizer
from common.distillation import augmentation, dataset
from common.distillation.augmentation import MASK
from common.distillation.dataset import DataConfig
from common.distillation.pairing import PairingConfig
from common.distillation.sources.tables import TablesConfig
from common.errors import InputError

TEXTS = ('one two three four five six seven eight', 'a  b c d e f', 'x y z x y z')


class Draws:
  """A generator of given numbers: uniform ones, and integers clipped to the range drawn from."""

  def __init__(self, uniform, integers=()):
    self.uniform, self.of_ranges = iter(uniform), iter(integers)

  def random(self, count=None):
    return next(self.uniform) if count is None else [next(self.uniform) for _ in range(count)]

  def integers(self, low, high=None):
    first, end = (0, low) if high is None else (low, high)
    found = next(self.of_ranges)
    assert first <= found < end
    return found


@pytest.mark.parametrize(
  ('uniform', 'integers', 'expected'),
  [
    ([0.1, 0.5, 0.99, 0.25], [], 'red wide boots'),  # neither rate is reached
    ([0.09, 0.5, 0.05, 0.25], [], f'{MASK} wide {MASK}'),
    ([0.5, 0.09, 0.5, 0.24], [2, 1], f'{MASK} boots'),
    ([0.5, 0.5, 0.5, 0.0], [5, 0], 'red wide boots'),  # fewer words than the n-gram's
    ([0.5, 0.5, 0.5, 0.0], [1, 2], 'boots'),
  ],
)
def test_a_text_by_hand(uniform, integers, expected):
  assert augmentation.augmented('red wide boots', Draws(uniform, integers)) == expected


def test_texts_change_in_turn_and_no_tuple_is_there_twice(tmp_path):
  rows = [Example('', TEXTS, 0.25), Example('', ('w', 'w', 'w'), 0.5)]
  record_writer.write_sets(str(tmp_path), {'': record_writer.of_examples(rows)}, 3)
  made = list(augmentation.from_training(RecordSet(str(tmp_path)), 200, seed=1))
  assert made == list(augmentation.from_training(RecordSet(str(tmp_path)), 200, seed=1))
  assert len({example.texts for example in made}) == len(made)
  assert made[:2] == rows and all(example.label is None for example in made[2:])
  of_first = [example for example in made if example.texts[0].strip(f'w{MASK}')]
  assert made[2] in of_first and made[3] not in of_first  # in turn, while both have some
  short = {example.texts for example in made if example not in of_first}
  assert short <= {tuple(MASK if n >> i & 1 else 'w' for i in range(3)) for n in range(8)}
  plain = tuple(' '.join(text.split()) for text in TEXTS)
  changes = [sum(a != b for a, b in zip(e.texts, plain, strict=True)) for e in of_first[1:]]
  assert set(changes) == {1, 2, 3} and 100 < len(changes) < 200
  for example in of_first[1:]:
    for text, whole in zip(example.texts, plain, strict=True):
      words, there = text.split(), whole.split()
      fits = [
        all(w in (MASK, t) for w, t in zip(words, there[start:], strict=False))
        for start in range(len(there) - len(words) + 1)
      ]
      assert any(fits) and (len(words) <= 5 or len(words) == len(there))


def test_a_masked_word_is_unknown_in_every_runtime():
  tokenizer = Tokenizer(['[PAD]', '[UNK]', '[CLS]', '[SEP]', 'a', 'b'], lower_case=True)
  text = f'a {MASK} b'
  assert tokenizer.pieces([text]).to_list() == tokenizer.word_pieces().pieces([text]) == [[4, 1, 5]]


def test_a_run_takes_them_in_place_of_pairs_but_none_that_judges(tmp_path, monkeypatch):
  path = tmp_path / 'rows.tsv'
  path.write_text('left\tright\tlabel\nred boots of mine\tblue boots\t1\n', encoding='utf-8')
  judging = tmp_path / 'judging.tsv'
  judging.write_text('left\tright\tlabel\na\tb\t1\n', encoding='utf-8')
  files = TablesConfig(str(path), str(judging), str(judging))
  config = DataConfig(files=files, pairing=PairingConfig(distillation_pairs=0, augmentations=9))
  data, folder = str(tmp_path / 'data'), str(tmp_path / 'unlabelled')
  dataset.write_labelled(config, data, seed=1)
  made, other = augmentation.from_training, Example('', ('A', 'b'))
  monkeypatch.setattr(augmentation, 'from_training', lambda *of: [*made(*of), other])
  found = dataset.write_unlabelled(config, data, folder, seed=1)
  monkeypatch.undo()
  assert found.left_out == 1
  count = found.count
  records = RecordSet(folder)
  assert 1 < count <= 10 and len(records) == count
  assert records.tuples().labelled.tolist() == [True] + [False] * (count - 1)
  assert records.texts()[0] == ('red boots of mine', 'blue boots')
  expected = augmentation.from_training(RecordSet(f'{data}/train'), 9, seed=1)
  assert records.texts() == [example.texts for example in expected]


def test_what_does_not_go_with_them_is_refused():
  with pytest.raises(
    InputError, match='^--augmentations=2 excludes --distillation_pairs=300000; set it to 0'
  ):
    PairingConfig(augmentations=2)
  with pytest.raises(InputError, match='^--augmentations=2 needs the training set; remove'):
    DataConfig(
      files=TablesConfig('', 'v.tsv', 't.tsv', 'd.tsv'), pairing=PairingConfig(0, augmentations=2)
    )
