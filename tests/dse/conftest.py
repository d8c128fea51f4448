"""What DSE's tests share: a tiny student."""

import dataclasses

import pytest
import tf_keras

from dse.config import StudentConfig
from dse.student import DSE

CONFIG = StudentConfig(
  pretrained='random-tiny', max_lengths=(16, 16), pooled_layers=2, similarity_dim=6, dropout=0.0
)


@pytest.fixture(name='tiny', scope='session')
def _tiny():
  """A function (outputs, **changes of the config) -> (model, tokenizer)."""

  def build(outputs=1, **changes):
    tf_keras.utils.set_random_seed(3)
    return DSE.from_pretrained(dataclasses.replace(CONFIG, **changes), outputs)

  return build
