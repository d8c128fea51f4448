"""Several teachers as one; one from a Hugging Face folder; a teacher as a SavedModel."""

import dataclasses
import json
import sys

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf
import tf_keras

from common import digests
from common.data.task import Task
from common.data.tokenization import Tokenizer
from common.data.tokens import TokenizedTuples
from common.distillation import teacher
from common.distillation.config import ExperimentConfig
from common.distillation.converted_teacher import ConvertedTeacher
from common.distillation.teacher import Teacher, TeacherConfig, mean_logits
from common.distillation.teachers import Teachers, check
from common.errors import InputError
from common.modeling import bert_weights, checkpoints, encoders
from common.modeling.bert_network import EncoderConfig
from common.scoring import litert


def test_several_teachers_are_one_of_mean_logits():
  tiny = checkpoints.read(checkpoints.RANDOM_TINY)
  tokenizer = Tokenizer(tiny.vocabulary, tiny.lower_case)
  one, other = (Teacher(tiny.config, tokenizer, 16, outputs=2) for _ in range(2))
  tuples = TokenizedTuples.of_texts([('red', 'blue'), ('a longer one', 'x')], tokenizer)
  strategy, told = tf.distribute.get_strategy(), []
  found = mean_logits([one, other], [tuples] * 2, strategy=strategy, advance=told.append)
  expected = sum(t.logits(tuples, strategy=strategy) for t in (one, other)) / 2
  np.testing.assert_allclose(found, expected, atol=1e-6)
  assert np.abs(found - one.logits(tuples, strategy=strategy)).max() > 1e-4
  assert sum(told) == 2


def write_ready(folder, teacher):
  """A teacher's folder as `BertForSequenceClassification.save_pretrained` writes it."""
  folder.mkdir()
  network, tensors = teacher.model.encoder.network, {}
  kernel, bias = teacher.model.classifier.get_weights()
  for name, array in bert_weights.of_encoder(network).items():
    name = name.replace('/', '.').replace('layer_', 'layer.')
    name = name.replace('gamma', 'weight').replace('beta', 'bias')
    if name.endswith('kernel'):
      name, array = name.replace('kernel', 'weight'), array.T
    tensors[name + '.weight' * name.endswith('_embeddings')] = array
  tensors |= {'classifier.weight': kernel.T, 'classifier.bias': bias}
  tensors = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
  safetensors.numpy.save_file(tensors, str(folder / 'model.safetensors'))
  config = teacher.encoder_config
  fields = {
    'architectures': ['BertForSequenceClassification'],
    'vocab_size': config.vocab_size,
    'hidden_size': config.hidden_size,
    'num_hidden_layers': config.num_layers,
    'num_attention_heads': config.num_heads,
    'intermediate_size': config.inner_dim,
    'max_position_embeddings': config.max_positions,
    'type_vocab_size': config.type_vocab_size,
    'hidden_act': 'gelu_new',
  }
  (folder / 'config.json').write_text(json.dumps(fields))
  (folder / 'vocab.txt').write_text('\n'.join(teacher.tokenizer.vocabulary) + '\n')
  (folder / 'tokenizer_config.json').write_text('{"do_lower_case": false}')


def test_a_hugging_face_folder_is_a_teacher(tmp_path):
  tf_keras.utils.set_random_seed(1)
  tiny = checkpoints.read(checkpoints.RANDOM_TINY)
  teacher = Teacher(tiny.config, Tokenizer(tiny.vocabulary, lower_case=False), 12, outputs=2)
  teacher.model.classifier.kernel.assign(tf.random.normal([32, 2], seed=1))
  write_ready(tmp_path / 'ready', teacher)
  folder, strategy = str(tmp_path / 'ready'), tf.distribute.get_strategy()
  tuples = [('red', 'blue'), ('Cased, and a longer one', 'x y z')]

  def logits(one):
    return one.logits(TokenizedTuples.of_texts(tuples, one.tokenizer), strategy=strategy)

  found, expected = logits(Teacher.load(folder, max_length=12)), logits(teacher)
  np.testing.assert_allclose(found[:, 0], expected[:, 1] - expected[:, 0], atol=1e-5)
  assert not np.allclose(logits(Teacher.load(folder, max_length=16))[1], found[1], atol=1e-6)
  with pytest.raises(InputError, match='--teacher_max_length=129: .* has 128 positions'):
    Teacher.load(folder, max_length=129)


def test_soft_labels_depend_on_the_length_of_a_ready_teacher_alone(tmp_path):
  tiny = checkpoints.read(checkpoints.RANDOM_TINY)
  teacher = Teacher(tiny.config, Tokenizer(tiny.vocabulary, lower_case=True), 16, outputs=1)
  teacher.save(str(tmp_path / 'run'))
  write_ready(tmp_path / 'ready', teacher)
  run, ready = str(tmp_path / 'run'), str(tmp_path / 'ready')
  contents = digests.contents(run, ready)

  def depends_on(*teachers):
    config = ExperimentConfig(teachers=teachers, teacher=TeacherConfig(max_length=32))
    return Teachers(config, None).depends_on

  assert depends_on(run) == {'teachers': (run,), **digests.contents(run)}
  both = depends_on(run, ready)
  assert both == {'teachers': (run, ready), 'teacher_max_length': 32, **contents}
  check((run, ready), 32, Task())
  for path in (run, ready):
    with pytest.raises(InputError, match=f'{path}.* has .*--task needs 3'):
      check((path,), 32, Task('multiclass', ('a', 'b', 'c')))


def test_several_teachers_score_as_their_mean_and_each_alone_asked_once(monkeypatch):
  asked = []

  def scorer_of(teachers, strategy):
    def score(records):
      asked.append(teachers[0])
      return np.full([2, 1], teachers[0])

    return score

  monkeypatch.setattr(teacher, 'scorer_of', scorer_of)
  monkeypatch.setattr(Teachers, 'load', lambda self: [1.0, 4.0])
  scorers = Teachers(ExperimentConfig(teachers=('a', 'b')), None).scorers()
  found = {name: score('test')[0, 0] for name, score in scorers.items()}
  assert found == {'teacher': 2.5, 'teacher 1': 1.0, 'teacher 2': 4.0}
  assert asked == [1.0, 4.0]


def test_a_checkpoint_may_be_a_teacher_of_narrow_embeddings(tmp_path):  # ELECTRA-small's
  config = EncoderConfig(8, 16, 1, 2, 32, embedding_width=4)
  tokenizer = Tokenizer([*'[PAD] [UNK] [CLS] [SEP]'.split(), *'abcd'], lower_case=True)
  teacher = Teacher(config, tokenizer, 8, outputs=1)
  teacher.save(str(tmp_path))
  encoder = encoders.build(config, pad_id=0)
  encoder.restore(encoders.read(str(tmp_path)))
  ids = tf.constant([[2, 4, 5, 3]])
  first = encoder(ids).tokens[:, :1]  # the one that a teacher computes
  np.testing.assert_allclose(first, teacher.model.encoder(ids).tokens, atol=1e-6)


def test_a_converted_teacher_is_near_it_in_16_threads_at_the_most(monkeypatch):
  monkeypatch.setattr(litert, 'cores', lambda: 40)
  tf_keras.utils.set_random_seed(5)
  tokenizer = Tokenizer([*'[PAD] [UNK] [CLS] [SEP]'.split(), *'abcdefgh'], lower_case=True)
  config = EncoderConfig(len(tokenizer.vocabulary), 32, 2, 2, 64)
  teacher = Teacher(config, tokenizer, max_length=24, outputs=2)
  kernel = teacher.model.classifier.kernel
  kernel.assign(tf.random.normal(kernel.shape))
  pairs = [('a b c ' * (n % 11), 'd e f g ' * (n % 7)) for n in range(19)]
  tuples = TokenizedTuples.of_texts(pairs, tokenizer)
  scored = []
  exact = teacher.logits(tuples, strategy=tf.distribute.get_strategy())
  converted = ConvertedTeacher(teacher)
  assert len(converted._functions._interpreters._interpreters) == 16
  near = converted.logits(tuples, strategy=None, advance=scored.append)
  assert sum(scored) == 19 and 0 < np.abs(near - exact).max() < 0.2 * exact.std()


def test_a_teacher_is_a_checkpoint_too(tmp_path):
  tiny = checkpoints.read('random-tiny')
  tokenizer = Tokenizer(tiny.vocabulary, tiny.lower_case)
  teacher = Teacher(tiny.config, tokenizer, 16, 1)
  teacher.save(str(tmp_path))
  read = encoders.read(str(tmp_path))
  assert (read.config, read.vocabulary) == (tiny.config, tiny.vocabulary)
  first = encoders.build(dataclasses.replace(read.config, num_layers=1), tokenizer.pad_id)
  first.restore(read)
  ids = tf.constant([[2, 7, 9, 3, 0], [2, 8, 3, 0, 0]])
  segments = tf.zeros_like(ids)
  expected = teacher.model.encoder.network(
    {'input_word_ids': ids, 'input_mask': tf.cast(ids > 0, tf.int32), 'input_type_ids': segments}
  )['encoder_outputs'][0]
  np.testing.assert_allclose(first(ids).layers[0], expected, atol=1e-6)


@pytest.mark.parametrize(
  ('path', 'message'),
  [
    ('nowhere', 'nowhere: no such folder, nor a hub id org/name$'),
    ('runs/other', 'runs/other: no such folder; for a hub id, huggingface_hub is not installed'),
  ],
)
def test_a_teacher_that_is_not_there_is_told_by_the_flag(monkeypatch, path, message):
  monkeypatch.setitem(sys.modules, 'huggingface_hub', None)
  with pytest.raises(InputError, match=f'^--teacher={message}'):
    check([path], 16, Task())


def test_a_student_is_no_teacher(build, tmp_path):
  model, tokenizer = build('dse')
  model.save(str(tmp_path), tokenizer)
  with pytest.raises(
    InputError, match=f'^--teacher={tmp_path}: a dse student, and no teacher; --pre'
  ):
    check([str(tmp_path)], 16, Task())
