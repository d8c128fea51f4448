"""Sequence classifiers in Hugging Face's folders: cross-encoders that somebody has trained already.

logits = activation(x D + d) K + b, of the first token's output x. BERT calls the dense layer D its
pooler, with tanh; DistilBERT's has a ReLU, ELECTRA's a GELU.
"""

import dataclasses
import os
import re
from typing import Any

import numpy as np
import tensorflow as tf

from common import extras
from common.data.task import Task
from common.errors import InputError
from common.modeling import checkpoints, hugging_face
from common.modeling.checkpoint_files import located, read_json
from common.modeling.checkpoints import Pretrained
from common.modeling.cross_encoder import CrossEncoder

# Model type -> names of D, its activation, and of K.
_LAYERS = {
  'bert': ('bert.pooler.dense', 'tanh', 'classifier'),
  'distilbert': ('pre_classifier', 'relu', 'classifier'),
  'electra': ('classifier.dense', 'gelu', 'classifier.out_proj'),
}

_BUILT_IN = (checkpoints.MINILM, checkpoints.RANDOM_TINY)  # encoders alone


@dataclasses.dataclass(frozen=True)
class Classifier:
  """A classifier whose encoder's weights are not in a model yet.

  Attributes:
    pretrained: The encoder, its config with the activation of the dense layer.
    dense: D [H, H] and d [H].
    logits: K [H, outputs] and b [outputs].
  """

  pretrained: Pretrained
  dense: tuple[np.ndarray, np.ndarray]
  logits: tuple[np.ndarray, np.ndarray]

  @property
  def outputs(self) -> int:
    """Logits a tuple."""
    return len(self.logits[1])


def read(path: str, task: Task) -> Classifier:
  """Reads a classifier for a task.

  For a binary task, two classes become one logit: sigmoid(z_1 - z_0) = softmax(z)_1, exactly. For a
  task of classes, the names in `id2label` put the logits in the task's order. Names that say
  nothing (LABEL_0, …) are in that order already, as are any where the task's names are numbers.

  Args:
    path: Folder or hub id, of BERT, DistilBERT or ELECTRA.
    task: What its scores mean.

  Raises:
    InputError: It is no classifier, or its labels are not the task's; one line says why.
  """
  config_file, folder = os.path.join(path, hugging_face.CONFIG), tf.io.gfile.isdir(path)
  if not folder and path not in _BUILT_IN and not re.fullmatch(extras.HUB_ID, path):
    raise InputError(f'{path}: no such folder, nor a hub id org/name')
  if folder and not tf.io.gfile.exists(config_file):
    raise InputError(
      f"{path}: no teacher there: neither a run's (model.json) nor a Hugging Face folder "
      f'({hugging_face.CONFIG}, model.safetensors, vocab.txt or tokenizer.json)'
    )
  pretrained = checkpoints.read(path)
  with located(pretrained.path):
    if pretrained.format != 'safetensors':
      raise InputError('no classifier: a teacher is a Hugging Face folder, or from a run')
    fields = read_json(pretrained.path, hugging_face.CONFIG)
    kind, width = hugging_face.kind(fields), pretrained.config.hidden_size
    dense, activation, last = _LAYERS[kind]
    tensors = hugging_face.read_tensors(pretrained.path)
    _check_kind(fields, kind, tensors)
    labels = tensors[f'{last}.bias'].size
    first = _linear(tensors, dense, width, width)
    logits = _for_task(*_linear(tensors, last, width, labels), fields, task)
  config = dataclasses.replace(pretrained.config, pooler_activation=activation)
  return Classifier(dataclasses.replace(pretrained, config=config), first, logits)


def restore(model: CrossEncoder, classifier: Classifier) -> None:
  """Loads encoder and classifier into a model of the same config and outputs."""
  model.encoder.restore(classifier.pretrained)
  model.encoder.network.pooler_layer.set_weights(classifier.dense)
  model.classifier.set_weights(classifier.logits)


def _check_kind(fields: dict[str, Any], kind: str, tensors: dict[str, np.ndarray]) -> None:
  """Refuses a folder that is no sequence classifier, by its config or its tensors' names."""
  made = ', '.join(fields.get('architectures') or ())
  dense, _, last = _LAYERS[kind]
  needed = [f'{name}.{leaf}' for name in (dense, last) for leaf in ('weight', 'bias')]
  missing = next((name for name in needed if name not in tensors), None)
  if missing or (made and not made.endswith('ForSequenceClassification')):
    what = f'no {missing}' if missing else 'not ForSequenceClassification'
    raise InputError(
      f'no classifier to teach with (architectures: {made or "none"}; {what}); as an encoder to '
      'fine-tune it is for --teacher_pretrained'
    )
  if (problem := fields.get('problem_type')) == 'regression':
    raise InputError(
      f'problem_type={problem!r}: its output is a value, where a logit is needed; score tuples '
      'with it and bring them by --distillation_file'
    )


def _linear(
  tensors: dict[str, np.ndarray], name: str, inputs: int, outputs: int
) -> tuple[np.ndarray, np.ndarray]:
  """Kernel [inputs, outputs] and bias [outputs]; torch keeps a linear layer as [out, in]."""
  weight, bias = (tensors[f'{name}.{leaf}'] for leaf in ('weight', 'bias'))
  if weight.shape != (outputs, inputs) or bias.shape != (outputs,):
    raise InputError(
      f'{name}: weight {weight.shape} and bias {bias.shape}; {(outputs, inputs)} and '
      f'{(outputs,)} are needed'
    )
  return weight.T.astype(np.float32), bias.astype(np.float32)


def _for_task(
  kernel: np.ndarray, bias: np.ndarray, fields: dict[str, Any], task: Task
) -> tuple[np.ndarray, np.ndarray]:
  """Kernel and bias of the task's outputs."""
  labels, kind, classes = len(bias), task.kind, task.classes
  named = fields.get('id2label') or {}
  names = [str(named.get(str(i), f'LABEL_{i}')) for i in range(labels)]
  listed = f'has {labels} labels ({", ".join(names)})' if labels > 1 else 'has one label'
  if labels > 1 and (problem := fields.get('problem_type')) == 'multi_label_classification':
    raise InputError(f'problem_type={problem!r}: {listed} that do not exclude one another')
  if not classes:
    if labels == 2 and kind == 'binary':
      return kernel[:, 1:] - kernel[:, :1], bias[1:] - bias[:1]
    if labels != 1:
      needed = 'one or two' if kind == 'binary' else 'one (of two, --task=binary makes one)'
      raise InputError(f'{listed}; --task={kind} needs {needed}')
    return kernel, bias
  if labels != len(classes):
    raise InputError(f'{listed}; --task needs {len(classes)} ({", ".join(classes)})')
  numbered = list(classes) == [str(i) for i in range(labels)] and not set(classes) & set(names)
  if numbered or all(re.fullmatch(r'LABEL_\d+', name) for name in names):
    return kernel, bias
  numbers = {name.casefold(): i for i, name in enumerate(names)}
  order = [numbers.get(name.casefold(), -1) for name in classes]
  if sorted(order) != list(range(labels)):
    raise InputError(
      f"{listed}; the task's are {', '.join(classes)}: id2label in {hugging_face.CONFIG} must name "
      'the same'
    )
  return kernel[:, order], bias[order]
