"""Several teachers as one."""

import numpy as np
import tensorflow as tf

from common.data.examples import Example
from common.data.tokenization import Tokenizer
from common.distillation.teacher import Teacher, mean_logits
from common.modeling import checkpoints


def test_several_teachers_are_one_of_mean_logits():
  tiny = checkpoints.read(checkpoints.RANDOM_TINY)
  tokenizer = Tokenizer(tiny.vocabulary, tiny.lower_case)
  one, other = (Teacher(tiny.config, tokenizer, 16, outputs=2) for _ in range(2))
  examples = [Example('a', ('red', 'blue')), Example('b', ('a longer one', 'x'))]
  strategy, told = tf.distribute.get_strategy(), []
  found = mean_logits([one, other], examples, strategy=strategy, advance=told.append)
  expected = sum(t.logits(examples, strategy=strategy) for t in (one, other)) / 2
  np.testing.assert_allclose(found, expected, atol=1e-6)
  assert np.abs(found - one.logits(examples, strategy=strategy)).max() > 1e-4
  assert sum(told) == 2
