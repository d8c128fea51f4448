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
from common.modeling import bert_weights, checkpoints, hugging_face
from common.modeling.checkpoint_files import located, read_json
from common.modeling.checkpoints import Pretrained
from common.modeling.encoders import EncoderConfig
from common.pretrain.language_model import LanguageModel

_HEAD = 'cls/predictions/'  # of masked tokens
_ALSO = {  # of Google's checkpoints as they were converted, of tied biases, and DistilBERT's
  'LayerNorm.weight': 'LayerNorm.gamma',
  'LayerNorm.bias': 'LayerNorm.beta',
  'predictions.bias': 'predictions.decoder.bias',
  'cls.predictions.transform.dense.': 'vocab_transform.',
  'cls.predictions.transform.LayerNorm.': 'vocab_layer_norm.',
  'cls.predictions.bias': 'vocab_projector.bias',
}


def check(pretrained: Pretrained) -> None:
  """Refuses a checkpoint whose network is not BERT's own, which alone can be written, or that has ELECTRA's heads."""
  config = pretrained.config
  electra = config.embedding_width not in (None, config.hidden_size)
  if pretrained.format == 'safetensors' and not electra:
    with located(pretrained.path):
      fields = read_json(pretrained.path, hugging_face.CONFIG)
      electra = hugging_face.kind(fields) == 'electra'
  if electra or config.pooler_activation != 'tanh':
    raise InputError(f'{pretrained.path}: an ELECTRA; pretraining goes on from a BERT')


def predicts(pretrained: Pretrained) -> bool:
  """Whether a checkpoint has the head that predicts masked tokens, by the names `restore` reads."""
  if pretrained.format != 'safetensors':
    return False
  with located(pretrained.path):
    tensors = hugging_face.read_tensors(pretrained.path)
  return any(name in tensors for name in _names('cls.predictions.transform.dense.weight'))


def write(
  folder: str, model: LanguageModel, config: EncoderConfig, tokenizer: Tokenizer, segments: int
) -> None:
  """Writes weights, config and vocabulary.

  Args:
    folder: Where they go.
    model: What was trained.
    config: Its encoder's.
    tokenizer: Its.
    segments: Segments that it has seen; the others get the last one's embedding, so that a text
      means the same there.
  """
  weights = bert_weights.of_encoder(model.encoder.network)
  seen = np.minimum(np.arange(config.type_vocab_size), segments - 1)
  weights[bert_weights.SEGMENTS] = weights[bert_weights.SEGMENTS][seen]
  heads = {name: variable.numpy() for name, variable in _heads(model).items()}
  tensors = hugging_face.tensors({**weights, **heads})
  architecture = 'BertForPreTraining' if model.next_sentence else 'BertForMaskedLM'
  fields = hugging_face.config_json(config, architecture)
  files.write_json(os.path.join(folder, hugging_face.CONFIG), fields)
  settings = {'do_lower_case': tokenizer.lower_case, 'tokenizer_class': 'BertTokenizer'}
  files.write_json(os.path.join(folder, 'tokenizer_config.json'), settings)
  contents = {
    'vocab.txt': ('\n'.join(tokenizer.vocabulary) + '\n').encode(),
    'model.safetensors': safetensors.numpy.save(tensors, {'format': 'pt'}),
  }
  for name, content in contents.items():
    with open(os.path.join(folder, name), 'wb') as file:
      file.write(content)


def segments(pretrained: Pretrained) -> int:
  """Segments that a checkpoint tells apart: one, where all have the first one's embedding, as `write` leaves it."""
  count = pretrained.config.type_vocab_size
  rows = checkpoints.embeddings(pretrained, bert_weights.SEGMENTS, count)
  return 1 if rows is not None and (rows == rows[0]).all() else count


def restore(model: LanguageModel, pretrained: Pretrained) -> None:
  """Loads the encoder and, of a Hugging Face folder, the heads that it has; says so where none predicts masked tokens.

  Raises:
    InputError: It has a head in part, or of another shape.
  """
  model.encoder.restore(pretrained)
  tensors = {}
  if pretrained.format == 'safetensors':
    with located(pretrained.path):
      tensors = hugging_face.read_tensors(pretrained.path)
  variables = _heads(model)
  likes = {n: hugging_face.tensors({n: v.numpy()}).popitem() for n, v in variables.items()}
  for head in (_HEAD, 'cls/seq_relationship/'):
    found, missing = {}, []
    for name, (key, like) in likes.items():
      if name.startswith(head):
        there = next((tensors[other] for other in _names(key) if other in tensors), None)
        if there is None or there.shape != like.shape:
          missing.append(f'{key} {like.shape}')
        else:
          found[name] = there.T if name.endswith('kernel') else there
    if found and missing:
      raise InputError(f'{pretrained.path}: a head without {", ".join(missing)}')
    if head == _HEAD and not found:
      why = 'there is none' if tensors else 'of Hugging Face folders alone it is read'
      print(f'{pretrained.path}: its masked-word head starts from random weights: {why}')
    for name, array in found.items():
      variables[name].assign(np.asarray(array, np.float32))


def _names(key: str) -> list[str]:
  """The names that a head's tensor goes by."""
  return [key, *(key.replace(name, other) for name, other in _ALSO.items() if name in key)]


def _heads(model: LanguageModel) -> dict[str, tf.Variable]:
  """The heads' variables, by names as `hugging_face.tensors` takes them."""
  masked = model.masked_lm
  found = {
    'cls/predictions/transform/dense/kernel': masked.dense.kernel,
    'cls/predictions/transform/dense/bias': masked.dense.bias,
    'cls/predictions/transform/LayerNorm/gamma': masked.layer_norm.gamma,
    'cls/predictions/transform/LayerNorm/beta': masked.layer_norm.beta,
    'cls/predictions/bias': masked.bias,
  }
  if model.next_sentence is not None:
    out = model.next_sentence.out_proj
    found |= {'cls/seq_relationship/kernel': out.kernel, 'cls/seq_relationship/bias': out.bias}
  return found
