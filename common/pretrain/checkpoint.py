"""The pretrained folder, in Hugging Face's form of a BERT, with the heads of its pretraining.

`--pretrained` takes it as any other, and pretraining goes on from it with the heads.
"""

import os

import numpy as np
import safetensors.numpy
import tensorflow as tf

from common import files
from common.data.tokenization import Tokenizer
from common.errors import InputError
from common.modeling import bert_weights, checkpoints, hugging_face, word_files
from common.modeling.checkpoint_files import located
from common.modeling.checkpoints import Pretrained
from common.pretrain.language_model import LanguageModel

_ALSO = {  # of Google's checkpoints as they were converted, of tied biases, and DistilBERT's
  'LayerNorm.weight': 'LayerNorm.gamma',
  'LayerNorm.bias': 'LayerNorm.beta',
  'predictions.bias': 'predictions.decoder.bias',
  'cls.predictions.transform.dense.': 'vocab_transform.',
  'cls.predictions.transform.LayerNorm.': 'vocab_layer_norm.',
  'cls.predictions.bias': 'vocab_projector.bias',
}


def check(pretrained: Pretrained) -> None:
  """Refuses an ELECTRA: a BERT alone can be written."""
  config = pretrained.config
  if config.embedding_width is not None or config.pooler_activation != 'tanh':
    raise InputError(f'{pretrained.path}: an ELECTRA; pretraining goes on from a BERT')


def predicts(pretrained: Pretrained) -> bool:
  """Whether a checkpoint has a head that predicts masked tokens, which `restore` reads."""
  names = _names('cls.predictions.transform.dense.weight')
  return not _tensors(pretrained).keys().isdisjoint(names)


def tells_segments(pretrained: Pretrained) -> bool:
  """Whether a checkpoint's segments have embeddings of their own.

  `write` leaves one embedding for all where the model has seen one segment.
  """
  count = pretrained.config.type_vocab_size
  rows = checkpoints.embeddings(pretrained, bert_weights.SEGMENTS, count)
  return rows is None or not (rows == rows[0]).all()


def write(folder: str, model: LanguageModel, tokenizer: Tokenizer, *, one_segment: bool) -> None:
  """Writes weights, config and vocabulary.

  Args:
    folder: Where they go.
    model: The trained model.
    tokenizer: Its tokenizer.
    one_segment: Whether the model has seen one segment alone. The others get its embedding, so that
      a text means the same there.
  """
  weights = bert_weights.of_encoder(model.encoder.network)
  if one_segment:
    weights[bert_weights.SEGMENTS][1:] = weights[bert_weights.SEGMENTS][0]
  tensors = hugging_face.tensors(weights)
  for head in _heads(model):
    tensors |= {name: np.ascontiguousarray(v.numpy().T) for name, v in head.items()}
  architecture = 'BertForPreTraining' if model.next_sentence else 'BertForMaskedLM'
  fields = hugging_face.config_json(model.encoder.config, architecture)
  files.write_json(os.path.join(folder, hugging_face.CONFIG), fields)
  settings = {'do_lower_case': tokenizer.lower_case, 'tokenizer_class': 'BertTokenizer'}
  files.write_json(os.path.join(folder, word_files.SETTINGS), settings)
  with open(os.path.join(folder, word_files.WORDS), 'wb') as file:
    file.write(word_files.written(tokenizer.vocabulary))
  with open(os.path.join(folder, hugging_face.TENSORS), 'wb') as file:
    file.write(safetensors.numpy.save(tensors, {'format': 'pt'}))


def restore(model: LanguageModel, pretrained: Pretrained) -> None:
  """Loads the encoder and, of a Hugging Face folder, the heads that it has.

  It says so where none predicts masked tokens.

  Raises:
    InputError: It has a head in part, or of another shape.
  """
  model.encoder.restore(pretrained)
  tensors = _tensors(pretrained)
  for head in _heads(model):
    found, missing = [], []
    for name, variable in head.items():
      shape = tuple(variable.shape[::-1])
      array = next((tensors[other] for other in _names(name) if other in tensors), None)
      if array is None or array.shape != shape:
        missing.append(f'{name} {shape}')
      else:
        found.append((variable, array.T))
    if found and missing:
      raise InputError(f'{pretrained.path}: a head without {", ".join(missing)}')
    if not found and 'cls.predictions.bias' in head:
      why = 'there is none' if tensors else 'of Hugging Face folders alone it is read'
      print(f'{pretrained.path}: its masked-word head starts from random weights: {why}')
    for variable, array in found:
      variable.assign(np.asarray(array, np.float32))


def _tensors(pretrained: Pretrained) -> dict[str, np.ndarray]:
  """The tensors of a Hugging Face folder; none of another checkpoint."""
  if pretrained.format != 'safetensors':
    return {}
  with located(pretrained.path):
    return hugging_face.read_tensors(pretrained.path)


def _names(key: str) -> list[str]:
  """The names that a head's tensor goes by."""
  return [key, *(key.replace(name, other) for name, other in _ALSO.items() if name in key)]


def _heads(model: LanguageModel) -> list[dict[str, tf.Variable]]:
  """Each head's variables by Hugging Face's names, where a matrix is transposed."""
  masked = model.masked_lm
  heads = [
    {
      'cls.predictions.transform.dense.weight': masked.dense.kernel,
      'cls.predictions.transform.dense.bias': masked.dense.bias,
      'cls.predictions.transform.LayerNorm.weight': masked.layer_norm.gamma,
      'cls.predictions.transform.LayerNorm.bias': masked.layer_norm.beta,
      'cls.predictions.bias': masked.bias,
    }
  ]
  if model.next_sentence is not None:
    out = model.next_sentence.out_proj
    heads.append({'cls.seq_relationship.weight': out.kernel, 'cls.seq_relationship.bias': out.bias})
  return heads
