"""The command at toy size: what it leaves, killed and resumed, gone on from, and misled."""

import json
import pathlib
import shutil

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf
import tf_keras

from common import flags
from common.data.tokenization import Tokenizer
from common.distillation.run_folder import RunFolder
from common.errors import InputError
from common.modeling import checkpoints
from common.modeling.bert import Bert
from common.modeling.bert_network import EncoderConfig
from common.pretrain import checkpoint, language_model
from common.pretrain.batches import Batch
from common.pretrain.config import PretrainConfig
from common.pretrain.language_model import LanguageModel
from common.pretrain.run import declare, run, starting_point
from common.training import strategies
from tests.common.modeling import slow_bert

FLAGFILE = str(pathlib.Path(__file__).parents[3] / 'configs' / 'pretrain.flags')
TOY = {
  **{'flagfile': FLAGFILE, 'catalog_sizes': '60,1,1,1024', 'held_out': 30, 'vocab_size': 300},
  **{'hidden_size': 32, 'attention_heads': 2, 'encoder_layers': 2, 'max_length': 48},
  **{'batch_size': 8, 'steps': 40, 'warmup_steps': 4, 'eval_every': 20, 'learning_rate': 3e-3},
}
STAGES = ('corpus', 'vocabulary', 'pieces', 'training', 'checkpoint')


def command(*arguments):
  return ['-m', 'common.pretrain', *flags.lines(TOY), *arguments]


def results(folder):
  return json.loads((folder / 'results.json').read_text('utf-8'), parse_constant=pytest.fail)


def made_here(folder, **given):
  """The results of a run in this process."""
  with strategies.settings_restored():
    run(flags.parse(PretrainConfig, {**TOY, 'run_dir': str(folder), **given}))
  return results(folder)


@pytest.fixture(name='toy', scope='module')
def _toy(tmp_path_factory, python):
  """A finished run's folder."""
  folder = tmp_path_factory.mktemp('pretrain') / 'run'
  done = python(*command(f'--run_dir={folder}'))
  assert done.returncode == 0, done.stderr[-3000:]
  assert f'--pretrained={folder}/checkpoint takes it' in done.stdout
  return folder


def test_a_run_learns_and_leaves_its_stages_results_and_report(toy):
  for name in (*STAGES, 'flags.txt', 'results.json', 'report.html'):
    assert (toy / name).exists(), name
  found = results(toy)
  start, end = (model['valid'] for model in found['models'])
  blind = np.log(found['corpus']['vocabulary'])  # all word pieces are as likely
  assert start['mlm_loss'] == pytest.approx(blind, abs=0.3)
  assert end['mlm_loss'] < start['mlm_loss'] - 0.3
  assert end['mlm_accuracy'] > start['mlm_accuracy']
  (phase,) = found['training']
  assert [entry['step'] for entry in phase['history']] == [0, 20, 40]
  # The checkpoint as it was read back is the model that was trained.
  best = min(entry['valid']['mlm_loss'] for entry in phase['history'])
  assert end['mlm_loss'] == pytest.approx(best, abs=1e-4)
  page = (toy / 'report.html').read_text('utf-8')
  assert 'MLM loss (valid)' in page and 'Sequences/s' in page and page.count('<figure>') == 1


def test_its_checkpoint_is_one_for_students_and_its_tokens_are_the_trained_models(toy, build):
  folder = str(toy / 'checkpoint')
  found = checkpoints.read(folder)
  assert (found.format, found.config.max_positions, found.lower_case) == ('safetensors', 48, True)
  with strategies.precision():
    trained = LanguageModel(found.config, 0, next_sentence=False)
  best = tf.train.latest_checkpoint(str(toy / 'training' / 'best'))
  tf.train.Checkpoint(variables=trained.variables).restore(best).assert_consumed()
  encoder = Bert(found.config, 0)
  encoder.restore(found)
  tokenizer = Tokenizer(found.vocabulary, found.lower_case)
  ids = tokenizer.encode(['black nike shoes for boys', 'Crimson throw'], 16).to_tensor()
  expected = trained.encoder(ids).tokens
  np.testing.assert_allclose(encoder(ids).tokens, expected, atol=1e-5)
  other_segment = encoder(ids, tf.ones_like(ids)).tokens  # never seen: it is as the first
  np.testing.assert_allclose(other_segment, expected, atol=1e-5)

  student, own = build('dipair', pretrained=folder)
  assert own.vocabulary == tokenizer.vocabulary
  np.testing.assert_allclose(
    student.encoders[0].encoder(ids).tokens[:, :3], expected[:, :3], atol=1e-5
  )


def test_killed_and_resumed_it_ends_with_equal_weights(toy, python, tmp_path, kill_at, last_step):
  folder = tmp_path / 'killed'
  kill_at(command(f'--run_dir={folder}'), folder / 'training.part', 20)
  done = python(*command(f'--run_dir={folder}'))
  assert done.returncode == 0, done.stderr[-3000:]
  assert 'vocabulary: done' in done.stdout and 'pretraining: goes on from step' in done.stdout
  expected, found = (last_step(run / 'training') for run in (toy, folder))
  assert found.keys() == expected.keys()
  for name, values in expected.items():
    np.testing.assert_array_equal(found[name], values, err_msg=name)
  weights = [run / 'checkpoint' / 'model.safetensors' for run in (toy, folder)]
  assert weights[0].read_bytes() == weights[1].read_bytes()
  assert results(folder)['models'] == results(toy)['models']


def test_a_student_of_every_other_layer_learns_from_it(toy, tmp_path):
  folder = tmp_path / 'run'
  made = made_here(folder, distil_from=f'{toy}/checkpoint', steps=20, encoder_layers=1)
  start, end = (model['valid']['mlm_loss'] for model in made['models'])
  assert end < start < results(toy)['models'][0]['valid']['mlm_loss']  # embeddings came along
  found, teacher = (checkpoints.read(str(run / 'checkpoint')) for run in (folder, toy))
  assert (found.config.num_layers, teacher.config.num_layers) == (1, 2)
  assert found.vocabulary == teacher.vocabulary


_ON_TWO = """
import runpy
import tensorflow as tf
cpu = tf.config.list_physical_devices('CPU')[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
runpy.run_module('common.pretrain', run_name='__main__', alter_sys=True)
"""


def test_it_goes_on_with_next_sentences_on_two_devices_as_on_one_and_in_bfloat16_nearly(
  toy, python, tmp_path
):
  lines = (toy / 'corpus' / 'train.txt').read_text('utf-8').split('. ')
  documents = ['\n'.join(lines[first : first + 6]) for first in range(0, len(lines), 6)]
  (tmp_path / 'texts.txt').write_text('\n\n'.join(d.replace('\n\n', '\n') for d in documents))
  texts = {'input_files': f'{tmp_path}/texts.txt', 'documents': 'blocks', 'held_out': 5}
  start = tmp_path / 'without_dropout'
  shutil.copytree(toy / 'checkpoint', start)
  config = json.loads((start / 'config.json').read_text())
  config['hidden_dropout_prob'] = 0.0  # else each device has its own
  (start / 'config.json').write_text(json.dumps(config))
  how = {'pretrained': str(start), 'next_sentence': True, 'static_masks': 2}
  given = {**texts, **how, 'steps': 20}
  on_two = {**TOY, **given, 'run_dir': tmp_path / 'two', 'distribution_strategy': 'mirrored'}
  done = python('-c', _ON_TWO, *flags.lines(on_two))
  assert done.returncode == 0, done.stderr[-3000:]
  made = {
    'two': results(tmp_path / 'two'),
    'one': made_here(tmp_path / 'one', **given),
    'bfloat16': made_here(tmp_path / 'bfloat16', **given, precision='mixed_bfloat16'),
  }
  found = {
    name: [of['training'][0]['history'][-1]['loss'], of['models'][-1]['valid']['mlm_loss']]
    for name, of in made.items()
  }
  np.testing.assert_allclose(found['two'], found['one'], rtol=1e-4)
  np.testing.assert_allclose(found['bfloat16'], found['one'], rtol=0.02)
  assert found['bfloat16'] != found['one']
  before, after = (model['valid'] for model in made['one']['models'])
  assert set(after) == {'mlm_loss', 'mlm_accuracy', 'nsp_loss', 'nsp_accuracy'}
  from_random = results(toy)['models'][0]['valid']['mlm_loss']
  assert before['mlm_loss'] < from_random - 0.2  # heads came along
  words, of_toy = (run / 'checkpoint' / 'vocab.txt' for run in (tmp_path / 'one', toy))
  assert words.read_text() == of_toy.read_text()


def declared(config):
  """The stages of a pretraining, declared and not made."""
  folder = RunFolder('run', config, 'common.pretrain', redo=False)
  declare(folder, config, None)
  return folder.stages


@pytest.mark.parametrize(
  ('flag', 'value', 'anew'),
  [
    ('seed', 3, 'corpus'),
    ('held_out', 9, 'corpus'),
    ('lower_case', False, 'vocabulary'),
    ('encoder_layers', 2, 'training'),
    ('whole_words', False, 'training'),
    ('title', 'another', None),
  ],
)
def test_a_flag_makes_its_stage_and_those_after_it_anew(flag, value, anew):
  one, other = (
    declared(flags.build(PretrainConfig, {'run_dir': 'run', **given}))
    for given in ({}, {flag: value})
  )
  changed = [a.name for a, b in zip(one, other, strict=True) if a.fingerprint != b.fingerprint]
  assert changed == list(STAGES[STAGES.index(anew) :] if anew else ())


def test_it_starts_anew_from_another_checkpoint_at_the_same_path(tmp_path, monkeypatch):
  (tmp_path / 'weights').write_text('one')
  of = PretrainConfig(run_dir='run', pretrained=str(tmp_path), max_length=64)
  tiny = checkpoints.read('random-tiny')
  monkeypatch.setattr(checkpoints, 'read', lambda path: tiny)

  def fingerprints():
    return [stage.fingerprint for stage in declared(of)]

  before = fingerprints()
  (tmp_path / 'weights').write_text('two')
  equal = [one == other for one, other in zip(before, fingerprints(), strict=True)]
  assert equal == [True, False, False, False, False]


def test_metrics_and_losses_by_hand():
  tf_keras.utils.set_random_seed(2)
  config = EncoderConfig(
    vocab_size=7, hidden_size=8, num_layers=1, num_heads=2, inner_dim=8, max_positions=5, dropout=0
  )
  model = LanguageModel(config, pad_id=0, next_sentence=True)
  batch = Batch(
    ids=tf.constant([[2, 5, 6, 3, 0], [2, 4, 3, 5, 3]]),
    segments=tf.constant([[0, 0, 0, 0, 0], [0, 0, 0, 1, 1]]),
    positions=tf.constant([[1, 2], [3, 0]]),
    labels=tf.constant([[5, 4], [6, 0]]),
    weights=tf.constant([[1.0, 1.0], [1.0, 0.0]]),
    next_sentence=tf.constant([1, 0]),
  )
  words, following, *_ = model(batch.ids, batch.segments, batch.positions)
  words, following = (tf.nn.log_softmax(logits).numpy() for logits in (words, following))
  of_words = [-words[0, 0, 5], -words[0, 1, 4], -words[1, 0, 6]]
  of_next = [-following[0, 1], -following[1, 0]]
  losses = [(of_words[0] + of_words[1]) / 2 + of_next[0], of_words[2] + of_next[1]]
  np.testing.assert_allclose(model.losses(batch), losses, rtol=1e-5)
  found = language_model.metrics(model.sums(*batch).numpy())
  right = [words[0, 0].argmax() == 5, words[0, 1].argmax() == 4, words[1, 0].argmax() == 6]
  assert found == pytest.approx(
    {
      'mlm_loss': np.mean(of_words),
      'mlm_accuracy': np.mean(right),
      'nsp_loss': np.mean(of_next),
      'nsp_accuracy': np.mean(following.argmax(1) == [1, 0]),
    },
    rel=1e-5,
  )


@pytest.mark.parametrize('activation', ['gelu', 'gelu_tanh', 'relu'])
def test_a_checkpoint_keeps_encoder_and_heads(tmp_path, activation):
  strategies.create(strategies.DeviceConfig())
  tokenizer = Tokenizer(['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', 'A', 'b'], lower_case=False)
  config = EncoderConfig(7, 8, 2, 2, 12, max_positions=6, activation=activation, dropout=0.25)
  model, again = (LanguageModel(config, 0, next_sentence=True) for _ in range(2))
  for variable in model.variables:
    variable.assign(tf.random.normal(variable.shape))
  checkpoint.write(str(tmp_path), model, tokenizer, one_segment=False)
  found = checkpoints.read(str(tmp_path))
  assert (found.config, found.vocabulary, found.lower_case) == (config, tokenizer.vocabulary, False)
  checkpoint.restore(again, found)
  for one, other in zip(model.variables, again.variables, strict=True):
    np.testing.assert_array_equal(one, other, err_msg=one.name)


@pytest.fixture(name='headed')
def _headed(tmp_path):
  """A model with a random head, written to `tmp_path`; one to restore into; and a tokenizer."""
  tokenizer = Tokenizer(['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', 'A', 'b'], lower_case=False)
  config = EncoderConfig(7, 8, 1, 2, 12)
  model, again = (LanguageModel(config, 0, next_sentence=False) for _ in range(2))
  for variable in model.masked_lm.variables:
    variable.assign(tf.random.normal(variable.shape))
  checkpoint.write(str(tmp_path), model, tokenizer, one_segment=False)
  return model, again, tokenizer


GOOGLES = {  # as converted from TensorFlow, of a tied bias
  'LayerNorm.weight': 'LayerNorm.gamma',
  'LayerNorm.bias': 'LayerNorm.beta',
  'predictions.bias': 'predictions.decoder.bias',
}
DISTILBERTS = {
  'cls.predictions.transform.dense': 'vocab_transform',
  'cls.predictions.transform.LayerNorm': 'vocab_layer_norm',
  'cls.predictions.bias': 'vocab_projector.bias',
}


def rename_head(folder, names):
  """The checkpoint in a folder, once the tensors of its head have other names."""
  path = str(folder / 'model.safetensors')
  tensors = safetensors.numpy.load_file(path)
  for name in [name for name in tensors if name.startswith('cls.')]:
    tensor, renamed = tensors.pop(name), name
    for own, other in names.items():
      renamed = renamed.replace(own, other)
    tensors[renamed] = tensor
  safetensors.numpy.save_file(tensors, path)
  return checkpoints.read(str(folder))


@pytest.mark.parametrize('names', [GOOGLES, DISTILBERTS], ids=['google', 'distilbert'])
def test_a_head_goes_by_other_names_too(headed, tmp_path, capsys, names):
  model, again, _ = headed
  found = rename_head(tmp_path, names)
  assert checkpoint.predicts(found)
  checkpoint.restore(again, found)
  for one, other in zip(model.masked_lm.variables, again.masked_lm.variables, strict=True):
    np.testing.assert_array_equal(one, other, err_msg=one.name)
  assert 'random weights' not in capsys.readouterr().out


def test_a_head_is_whole_or_refused(headed, tmp_path):
  _, again, _ = headed
  found = rename_head(tmp_path, {'LayerNorm.bias': 'unknown'})
  missing = r'a head without cls\.predictions\.transform\.LayerNorm\.bias \(8,\)$'
  with pytest.raises(InputError, match=missing):
    checkpoint.restore(again, found)


def test_segments_that_were_never_told_apart_are_written_alike(headed, tmp_path):
  model, _, tokenizer = headed
  assert checkpoint.tells_segments(checkpoints.read(str(tmp_path)))
  (tmp_path / 'one').mkdir()
  checkpoint.write(str(tmp_path / 'one'), model, tokenizer, one_segment=True)
  assert not checkpoint.tells_segments(checkpoints.read(str(tmp_path / 'one')))


def test_a_masked_word_head_that_is_not_read_is_told(tmp_path, capsys):
  classifier = slow_bert.write(tmp_path / 'hub', 'bert', slow_bert.random_tensors('bert'))
  for path, why in (
    ('random-tiny', 'of Hugging Face folders alone it is read'),
    (classifier, 'there is none'),
  ):
    found = checkpoints.read(path)
    checkpoint.restore(LanguageModel(found.config, 0, next_sentence=False), found)
    message = f'{path}: its masked-word head starts from random weights: {why}\n'
    assert capsys.readouterr().out == message


def test_without_next_sentences_the_pooler_is_not_trained():
  config = EncoderConfig(7, 8, 1, 2, 12)
  with_it, without = (len(LanguageModel(config, 0, on).used_variables) for on in (True, False))
  assert with_it - without == 4  # the pooler's and the head's kernel and bias


REFUSED = (
  (['--run_dir='], '--run_dir is needed'),
  (['--input_files=/nowhere.txt'], '/nowhere.txt: no such file'),
  (['--text_columns=title'], '--text_columns names columns of tables: name them by --input_files'),
  (['--max_length=4'], '--max_length=4: a number from 8 to 8,192 is needed'),
  (['--hidden_size=30', '--attention_heads=4'], 'hidden_size=30: not a multiple of 4 heads'),
  (['--pretrained=/nowhere'], '/nowhere: no such folder'),
  (['--pretrained=random-tiny', '--max_length=256'], 'random-tiny has 128 positions'),
  (['--distil_from=random-tiny'], 'random-tiny has no head for masked tokens (cls.predictions)'),
  (
    ['--pretrained=minilm'],
    '--encoder_layers=2 needs random weights; minilm has 6: remove the flag',
  ),
  (['--pretrained=random-tiny', '--nolower_case'], 'the vocabulary of random-tiny is lower-cased'),
  (
    ['--input_files=a.tsv', '--text_columns=a', '--documents=blocks'],
    '--documents=blocks is of plain files; with --text_columns each cell is a document',
  ),
  (['--distil_from=a', '--pretrained=b'], '--distil_from or --pretrained, not both'),
  (['--held_out=1000'], '--held_out=1000: the texts are'),
  (['--vocab_size=20'], '--vocab_size=20: special tokens and the characters of the texts are'),
  (['--next_sentence'], '--next_sentence needs documents of several passages: --input_files'),
  (['--static_masks=-1'], '--static_masks=-1: a number from 0 to 1,000 is needed'),
  (['--encoding=utf-16'], '--encoding=utf-16: bytes must extend ASCII'),
)


def test_what_cannot_be_is_refused_in_one_line(refusals, tmp_path):
  cases = [command(f'--run_dir={tmp_path / str(n)}', *a)[2:] for n, (a, _) in enumerate(REFUSED)]
  for (status, stderr), (arguments, expected) in zip(
    refusals('common.pretrain', cases), REFUSED, strict=True
  ):
    lines = [line for line in stderr.splitlines() if line.startswith('error:')]
    assert status == 2 and len(lines) == 1 and expected in lines[0], (arguments, stderr[-2000:])


@pytest.mark.parametrize(
  ('changes', 'flag', 'message'),
  [
    ({'type_vocab_size': 1}, 'next_sentence', '--next_sentence takes two segments; x has one'),
    ({}, 'whole_words', r'x: its vocabulary has no \[MASK\]'),
    ({'embedding_width': 8}, 'whole_words', 'x: an ELECTRA; pretraining goes on from'),
    ({'pooler_activation': 'gelu'}, 'whole_words', 'x: an ELECTRA; pretraining goes on from'),
  ],
)
def test_a_checkpoint_that_is_not_gone_on_from(monkeypatch, changes, flag, message):
  config = EncoderConfig(7, 8, 1, 2, 12, **changes)
  found = checkpoints.Pretrained('x', 'tf1', config, ('[PAD]', 'a'), True)
  monkeypatch.setattr(checkpoints, 'read', lambda path: found)
  given = {'input_files': 'a.txt', 'documents': 'blocks', 'pretrained': 'x', flag: True}
  given |= {'encoder_layers': 1, 'hidden_size': 8, 'attention_heads': 2}
  with pytest.raises(InputError, match=f'^{message}'):
    starting_point(flags.parse(PretrainConfig, given))


def test_the_flagfile_goes_on_from_a_checkpoint_as_it_says():
  given = {'flagfile': FLAGFILE, 'pretrained': 'minilm', 'learning_rate': 1e-4}
  assert starting_point(flags.parse(PretrainConfig, given)) == checkpoints.read('minilm')
