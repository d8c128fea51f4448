"""What a run sets by its flags, devices and data."""

import pytest

from common import flags
from common.data import record_writer
from common.data.examples import Example
from common.distillation import recipe
from common.distillation.run_folder import RunFolder
from common.errors import InputError
from common.training import strategies
from dipair.run import RunConfig
from dse.run import RunConfig as DSEConfig

TABLE = {'train_file': 'a.tsv', 'pretrained': 'random-tiny'}


@pytest.fixture(name='tuples')
def _tuples(tmp_path):
  """400 pairs of a word, of one piece, and of one to 100 words."""
  rows = [Example(str(n), ('ab', ' '.join(['a'] * (n % 100 + 1)))) for n in range(400)]
  record_writer.write_sets(str(tmp_path), {'': record_writer.of_examples(rows, 10)}, 2)
  return str(tmp_path)


INT8, EXACT = {'annotation_runtime': 'litert-int8'}, {'annotation_runtime': 'tensorflow'}
FILE = {'distillation_file': 'b.tsv'}
MINED = {'mine_from': 'qa'}


@pytest.mark.parametrize(
  ('given', 'expected'),
  [
    (TABLE, {'alpha': -1, 'head': 'lite', **INT8}),
    ({**TABLE, 'text_columns': 'a,b,c'}, {'alpha': -1, 'head': 'transformer'}),
    ({**TABLE, 'alpha': 1, 'annotation_runtime': 'tensorflow'}, {'alpha': 1}),
    ({**TABLE, 'annotation_runtime': 'tensorflow'}, {'annotation_runtime': 'tensorflow'}),
    ({**TABLE, 'loss': 'margin_mse'}, {'alpha': 1}),
    ({**TABLE, **FILE}, {'alpha': 1}),
    (MINED, {'alpha': 1, **INT8}),
    ({**TABLE, **FILE, 'teacher_logits_column': 'z'}, EXACT),
    ({**TABLE, 'teacher': 'none'}, {'alpha': 0, 'annotation_runtime': 'auto'}),
    ({**TABLE, 'precision': 'float32'}, {'precision': 'float32'}),
  ],
)
def test_flags_and_devices_settle(given, expected, monkeypatch):
  monkeypatch.setattr(strategies.DeviceConfig, 'accelerated', False)
  settled = flags.flat(recipe.settled(flags.parse(RunConfig, given)))
  assert expected.items() <= settled.items()
  assert settled['precision'] != 'auto'


def test_an_accelerator_annotates_with_tensorflow(monkeypatch):
  monkeypatch.setattr(strategies.DeviceConfig, 'accelerated', True)
  settled = recipe.settled(flags.parse(DSEConfig, TABLE))
  assert settled.experiment.annotation.annotation_runtime == 'tensorflow'


@pytest.mark.parametrize(
  ('given', 'expected'),
  [
    # [CLS] and [SEP] beside the words: the median is 52.5 and 99 of 100 have 101 or fewer.
    ({}, {'alpha': 1, 'max_lengths': (16, 104), 'output_tokens': (4, 16)}),
    ({'output_tokens': '2,120'}, {'max_lengths': (16, 120), 'output_tokens': (2, 120)}),
    ({'max_lengths': '8,12'}, {'max_lengths': (8, 12), 'output_tokens': (4, 12)}),
    # 101 texts.
    ({}, {'teacher_steps': 1500, 'stage1_steps': 300, 'stage2_steps': 300}),
    ({'stage1_batch_size': 2, 'stage2_steps': 7}, {'stage1_steps': 1212, 'stage2_steps': 7}),
    ({'teacher': 'a'}, {'teacher_steps': -1, 'stage1_steps': 300}),
  ],
)
def test_the_data_set_what_is_open(given, expected, tuples):
  config = flags.parse(RunConfig, {**TABLE, **given})
  found = recipe.of_data(config, tuples, tuples)
  assert not recipe.of_data_flags(found)
  assert expected.items() <= flags.flat(found).items()
  left = flags.flat(recipe.of_data(found, '', ''))  # reads nothing
  assert left == flags.flat(found)
  changed = recipe.difference(config, found)
  assert changed.keys() == set(recipe.of_data_flags(config))


def test_many_labels_are_learnt_beside_the_teacher(tuples, monkeypatch):
  monkeypatch.setattr(recipe, '_LABELS', 400)
  found = recipe.of_data(flags.parse(RunConfig, TABLE), tuples, tuples)
  assert flags.flat(found)['alpha'] == 0.5


def test_an_alpha_below_0_is_open_or_refused():
  with pytest.raises(InputError, match='--alpha=-0.5: a number from 0 to 1 is needed, or -1'):
    flags.parse(RunConfig, {**TABLE, 'alpha': -0.5})


def test_a_later_start_takes_the_values_that_are_kept(tmp_path):
  config, names = flags.parse(RunConfig, TABLE), ['max_lengths', 'output_tokens', 'stage1_steps']
  folder = RunFolder(str(tmp_path / 'run'), config, 'dipair.run', redo=False)
  assert folder.kept(names) == {}
  chosen = {'max_lengths': (16, 48), 'output_tokens': (2, 3), 'stage1_steps': 11}
  folder.make(recipe.filled(config, chosen))
  again = RunFolder(folder.path, config, 'dipair.run', redo=False)
  assert again.kept(names) == chosen
  folder.make(config)  # what is still open is no choice
  left = recipe.filled(config, again.kept(names))
  assert set(recipe.open_flags(left)) >= set(names)
