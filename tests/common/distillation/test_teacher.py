"""Several teachers as one; a teacher as a SavedModel."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from common.data.tokenization import Tokenizer
from common.data.tokens import TokenizedTuples
from common.distillation import export_teacher
from common.distillation.quantized_teacher import QuantizedTeacher
from common.distillation.teacher import Teacher, mean_logits
from common.errors import InputError
from common.modeling import checkpoints
from common.modeling.encoders import EncoderConfig
from common.scoring import exported


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


def test_a_teacher_as_a_saved_model_of_texts(tmp_path):
  tiny = checkpoints.read(checkpoints.RANDOM_TINY)
  teacher = Teacher(tiny.config, Tokenizer(tiny.vocabulary, tiny.lower_case), 16, outputs=1)
  teacher.save(str(tmp_path / 'teacher'))
  config = export_teacher.ExportConfig(str(tmp_path / 'teacher'), str(tmp_path / 'export'))
  export_teacher.main(config)
  left, right = ['red', 'a longer one than sixteen tokens'], ['blue shoe', 'x']
  pairs = list(zip(left, right, strict=True))
  tuples = TokenizedTuples.of_texts(pairs, teacher.tokenizer)
  logits = teacher.logits(tuples, strategy=tf.distribute.get_strategy())
  served = exported.load(str(tmp_path / 'export')).signatures['serving_default']
  outputs = served(left=tf.constant(left), right=tf.constant(right))
  np.testing.assert_allclose(outputs['logits'], logits, atol=1e-5)
  np.testing.assert_allclose(outputs['score'], 1 / (1 + np.exp(-logits[:, 0])), atol=1e-5)
  with pytest.raises(InputError, match='holds an export already'):
    export_teacher.main(config)


def test_a_quantized_teacher_is_near_it():
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
  near = QuantizedTeacher(teacher).logits(tuples, strategy=None, advance=scored.append)
  assert sum(scored) == 19 and 0 < np.abs(near - exact).max() < 0.2 * exact.std()
