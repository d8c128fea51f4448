"""Encoders of two depths, exported; and what a student does not fit is refused."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from common.data.tokens import TokenizedTuples
from common.distillation.inference import TupleScorer
from common.errors import InputError
from dipair.config import StudentConfig
from dipair.heads import HeadsConfig
from dipair.heads.transformer import TransformerConfig
from dipair.run import DiPairStudent, RunConfig
from dipair.student import DiPair
from tests.conftest import TWO_DEPTHS

LEFT = ['red', 'wide footwear', 'nike shoes', '']
RIGHT = ['black nike shoes for boys', 'red throw', 'x', 'wide red boots']


def test_a_small_left_encoder_loads_and_scores_as_exported(export, load, tmp_path):
  one = export('dipair', **TWO_DEPTHS)
  one.model.save(str(tmp_path), one.tokenizer)
  model, tokenizer = DiPair.load(str(tmp_path))
  assert [encoder.encoder.config.num_layers for encoder in model.encoders] == [1, 2]
  tuples = TokenizedTuples.of_texts(list(zip(LEFT, RIGHT, strict=True)), tokenizer)
  logits = TupleScorer(model, tokenizer, tf.distribute.get_strategy()).logits(tuples)[:, 0]
  scores = load(one.folder).score(LEFT, RIGHT)
  np.testing.assert_allclose(scores, 1 / (1 + np.exp(-logits)), atol=1e-5)
  assert np.ptp(scores) > 1e-3

  # Online are the weights of the left encoder and of the head alone.
  stored = tf.train.list_variables(f'{one.folder}/online/1/variables/variables')
  kept = sum(np.prod(shape, dtype=int) for name, shape in stored if 'variables_' in name)
  layers = [*model.encoder_layers(0), model.exported_head()]
  assert kept == sum(v.numpy().size for layer in layers for v in layer.variables)


@pytest.mark.parametrize(
  ('changes', 'message'),
  [
    ({'left_encoder_layers': 3}, '--left_encoder_layers=3: random-tiny has 2'),
    ({'right_encoder_layers': 4}, '--right_encoder_layers=4: random-tiny has 2'),
    ({'encoder_layers': 5, 'left_encoder_layers': 1}, '--encoder_layers=5: random-tiny has 2'),
    (
      {'left_encoder_layers': 1, 'max_lengths': (8, 8, 8), 'output_tokens': (2, 2, 2)},
      '--left_encoder_layers and .* need pairs; --output_tokens names 3 texts',
    ),
  ],
)
def test_depths_that_cannot_be_are_named_by_their_flag(tiny, changes, message):
  with pytest.raises(InputError, match=message):
    tiny(**changes)


@pytest.mark.parametrize(('projection_dim', 'width'), [(16, 16), (0, 32)])  # 0: random-tiny's own
def test_more_attention_heads_than_the_tokens_are_wide_are_refused_before_a_run(
  projection_dim, width
):
  settings = TransformerConfig(attention_heads=width + 1)
  config = StudentConfig(
    pretrained='random-tiny',
    max_lengths=(8, 8),
    output_tokens=(4, 8),
    projection_dim=projection_dim,
    heads=HeadsConfig(settings),
  )
  error = f'--head_attention_heads={width + 1}: the kept tokens are {width} wide'
  with pytest.raises(InputError, match=error):
    DiPairStudent(RunConfig(student=config)).check()
  DiPair.read_pretrained(dataclasses.replace(config, head='ffnn'))  # has none
  odd = dataclasses.replace(config, heads=HeadsConfig(TransformerConfig(attention_heads=3)))
  DiPair.from_pretrained(odd, 1)  # 16 of 3 heads: 5 a head


def test_all_layers_are_a_number_in_the_student(tiny):
  model, _ = tiny(encoder_layers=0, right_encoder_layers=2)
  assert model.config.depths == (2, 2) and len(model.encoders) == 1  # random-tiny has 2


def test_depths_of_both_sides_leave_encoder_layers_unread(tiny):
  model, _ = tiny(encoder_layers=5, left_encoder_layers=2, right_encoder_layers=2)
  assert [one.encoder.config.num_layers for one in model.encoders] == [2]
