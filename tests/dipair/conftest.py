"""A tiny student and a tiny distillation set."""

import numpy as np
import pytest
import tf_keras

from common import flags
from common.data import record_writer
from common.data.examples import Example
from common.export import student_export
from common.training import strategies
from dipair.config import StudentConfig
from dipair.student import DiPair

TERMS = ['red', 'wide footwear', 'nike shoes', 'a', 'blue queen blanket']
PRODUCTS = ['black nike shoes for boys', 'red throw', 'wide red boots', 'x y']


def tiny_config(**changes):
  fields = {
    'pretrained': 'random-tiny',
    'encoder_layers': 2,
    'max_lengths': (16, 32),
    'output_tokens': (3, 4),
    'projection_dim': 8,
    'head_inner_dim': 16,
    'dropout': 0.0,
  }
  return flags.build(StudentConfig, {**fields, **changes})


@pytest.fixture(name='tiny', scope='session')
def _tiny():
  """Builds (model, tokenizer) with changes, by flag, to the tiny config."""

  def build(outputs=1, **changes):
    strategies.create(strategies.DeviceConfig())
    tf_keras.utils.set_random_seed(3)
    return DiPair.from_pretrained(tiny_config(**changes), outputs)

  return build


@pytest.fixture(name='exported', scope='session')
def _exported(tiny, tmp_path_factory):
  """An export's folder, the model, its tokenizer, and what exporting reported."""
  model, tokenizer = tiny()
  folder = str(tmp_path_factory.mktemp('run') / 'export')
  samples = (TERMS[:4], PRODUCTS)
  result = student_export.write(
    folder, model, tokenizer, slots=('left', 'right'), task='regression', samples=samples
  )
  return folder, model, tokenizer, result


@pytest.fixture(name='distill')
def _distill(tmp_path):
  """A folder of every term with every product, in one group, with soft labels and labels."""
  rng = np.random.default_rng(0)
  examples = [
    Example(f'{t}-{p}', (term, product), float(label), soft_labels=(float(label),))
    for t, term in enumerate(TERMS)
    for p, product in enumerate(PRODUCTS)
    for label in [rng.uniform()]
  ]
  folder = str(tmp_path / 'distill')
  groups = record_writer.of_examples(examples, len(examples))
  record_writer.write_sets(folder, {'': groups}, 2)
  return folder
