"""A run's teacher or student as a checkpoint: the one BERT encoder that it has."""

import dataclasses

from common.data.tokenization import Tokenizer
from common.errors import InputError
from common.modeling import bert_network, bert_weights, saving
from common.modeling.bert_network import EncoderConfig
from common.modeling.bert_weights import Weights


def read(folder: str) -> tuple[EncoderConfig, Tokenizer]:
  """The encoder's config and the tokenizer.

  Raises:
    InputError: If the folder is damaged, or has no BERT, or one a text column.
  """
  fields, tokenizer = saving.read(folder)
  if (kind := fields.get('encoder_kind', 'bert')) != 'bert':  # a teacher's is a BERT
    raise InputError(f"a trained model whose encoder is a {kind}; a BERT's can be taken")
  with saving.described(folder):
    config = EncoderConfig(**fields['encoder'])
  words = (config.vocab_size, config.embedding_width or config.hidden_size)
  if saving.shapes(folder).count(words) > 1:
    raise InputError('has an encoder a text column; one that all texts share can be taken')
  if fields['kind'] != 'cross_encoder':  # a student's dropout is of its own training
    config = dataclasses.replace(config, dropout=EncoderConfig.dropout)
  return config, tokenizer


def weights(folder: str) -> Weights:
  """The encoder's weights, which come first among a model's."""
  network = bert_network.build(read(folder)[0])
  saving.restore_first(folder, network.variables)
  return bert_weights.of_encoder(network)
