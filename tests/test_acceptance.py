"""The parts that users were promised, on a finished smoke run."""

import os

import numpy as np
import pytest
import tensorflow as tf
from official.nlp.modeling import networks

from common import flags
from common.data import records
from dipair.run import RunConfig

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TEMPERATURE = 1.0  # the smoke run's
_WORDS = ('vocab', 'lookup', 'hash', 'regex', 'token', 'string')  # ops of a tokenizer


def test_the_top_level_is_the_one_that_was_asked_for():
  names = ('setup.py', 'dipair', 'dse', 'common', 'configs', 'tests', 'README.md')
  assert set(names) <= set(os.listdir(ROOT))


def test_the_main_command_takes_its_flagfile():
  config = flags.parse(RunConfig, {'flagfile': os.path.join(ROOT, 'configs', 'p2t.flags')})
  assert config.student.output_tokens == (4, 12) and config.student.projection_dim == 128


def test_the_distillation_set_is_tfrecord_with_sigmoid_of_z_by_t(smoke_run):
  folder = smoke_run / 'run' / 'distill'
  shards = sorted(folder.glob('*.tfrecord'))
  assert shards and sum(1 for _ in tf.data.TFRecordDataset(list(map(str, shards))))
  tuples = records.RecordSet(str(folder)).tuples()
  assert tuples.teacher_logits.shape == tuples.soft_labels.shape == (len(tuples), 1)
  expected = 1 / (1 + np.exp(-tuples.teacher_logits / TEMPERATURE))
  np.testing.assert_allclose(tuples.soft_labels, expected, rtol=1e-5)


def test_encoder_and_head_are_savedmodels_of_their_own_and_the_head_has_no_tokenizer(smoke_run):
  export = smoke_run / 'run' / 'export'
  encoder, head = (tf.saved_model.load(str(export / name / '1')) for name in ('encoder', 'head'))
  inputs = [
    spec.dtype
    for signature in head.signatures.values()
    for spec in signature.structured_input_signature[1].values()
  ]
  assert set(inputs) == {tf.float32, tf.int8}  # vectors, also as an int8 store holds them
  for signature in head.signatures.values():
    kinds = {node.type.lower() for node in signature.graph.get_operations()}
    assert not [kind for kind in kinds if any(word in kind for word in _WORDS)]
  of_encoder = [one.structured_input_signature[1] for one in encoder.signatures.values()]
  assert any(spec.dtype == tf.string for specs in of_encoder for spec in specs.values())


@pytest.mark.parametrize('student', ['dipair', 'dse'])
def test_encoders_are_those_of_tf_models(build, student):
  model, _ = build(student)
  assert any(isinstance(part, networks.BertEncoderV2) for part in model.submodules)
