"""Exported students with random weights, which do not change the time; most have a tiny encoder."""

import os
from typing import Any

from common import flags
from common.data.tokenization import Tokenizer
from common.export import student_export
from common.modeling import checkpoints
from common.modeling.bert_network import EncoderConfig
from dipair.config import StudentConfig as DiPairConfig
from dipair.student import DiPair
from dse.config import StudentConfig as DSEConfig
from dse.student import DSE

_SAMPLES = (['a', 'red shoe'], ['b', 'a blue dog'])


def dipair(folder: str, **config: Any) -> str:
  """DiPair's head as the paper has it but for `config`: N=4, M=8, D=256, 2 layers of 1,024.

  With `pretrained` the encoder has that checkpoint's words and shape.
  """
  tokenizer, encoder = _tiny(64, 1)
  if 'pretrained' in config:
    words = checkpoints.read(config['pretrained'])
    tokenizer, encoder = Tokenizer(words.vocabulary, words.lower_case), words.config
  options = {'encoder_layers': encoder.num_layers, 'max_lengths': (16, 16), **config}
  model = DiPair(flags.build(DiPairConfig, options), encoder, 1, tokenizer.pad_id)
  return _write(folder, model, tokenizer)


def dse(folder: str) -> str:
  """DSE's similarity in BERT-Large's shapes: d = 4 * 1,024, r = 512."""
  tokenizer, encoder = _tiny(1024, 4)
  config = DSEConfig(similarity_dim=512, max_lengths=(16, 16))
  return _write(folder, DSE(config, encoder, 1, tokenizer.pad_id), tokenizer)


def _tiny(width: int, layers: int) -> tuple[Tokenizer, EncoderConfig]:
  words = checkpoints.read(checkpoints.RANDOM_TINY)
  encoder = EncoderConfig(len(words.vocabulary), width, layers, width // 64, 4 * width)
  return Tokenizer(words.vocabulary, words.lower_case), encoder


def _write(folder: str, model: Any, tokenizer: Tokenizer) -> str:
  slots = ('left', 'right')
  student_export.write(folder, model, tokenizer, slots=slots, task='regression', samples=_SAMPLES)
  return os.path.abspath(folder)
