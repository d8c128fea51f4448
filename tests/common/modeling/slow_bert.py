"""BERT, DistilBERT and ELECTRA in numpy; toy weights, inputs and folders for them.

E width of the embeddings, H of the layers, F inside a layer.
"""

import json

import numpy as np
import safetensors.numpy
import scipy.special
import tensorflow as tf

from common.modeling.bert_network import EncoderConfig

WORDS = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', 'a', 'b', '##c', 'd', '\u2028', '[unused1]']
WORDS.append('é')
V, P, H, F, DEPTH, HEADS = len(WORDS), 7, 8, 12, 2, 2
WIDTH = {'bert': H, 'distilbert': H, 'electra': 4}
TINY = EncoderConfig(V, H, DEPTH, HEADS, F, max_positions=P, dropout=0.3)  # with the tanh GELU
BERT_JSON = {
  'vocab_size': V,
  'hidden_size': H,
  'num_hidden_layers': DEPTH,
  'num_attention_heads': HEADS,
  'intermediate_size': F,
  'max_position_embeddings': P,
  'type_vocab_size': 2,
  'hidden_act': 'gelu',
  'hidden_dropout_prob': 0.3,
  'layer_norm_eps': 1e-12,
}
CONFIGS = {
  'bert': BERT_JSON,
  'distilbert': {
    'vocab_size': V,
    'dim': H,
    'n_layers': DEPTH,
    'n_heads': HEADS,
    'hidden_dim': F,
    'max_position_embeddings': P,
    'activation': 'gelu',
    'dropout': 0.3,
  },
  'electra': BERT_JSON | {'embedding_size': WIDTH['electra']},
}
BERT_LAYER = (
  *('attention.self.query', 'attention.self.key', 'attention.self.value'),
  *('attention.output.dense', 'attention.output.LayerNorm'),
  *('intermediate.dense', 'output.dense', 'output.LayerNorm'),
)
LAYERS = {  # query, key, value, output, its norm, inner, outer, its norm
  'bert': ('encoder', *BERT_LAYER),
  'electra': ('encoder', *BERT_LAYER),
  'distilbert': (
    *('transformer', 'attention.q_lin', 'attention.k_lin', 'attention.v_lin'),
    *('attention.out_lin', 'sa_layer_norm', 'ffn.lin1', 'ffn.lin2', 'output_layer_norm'),
  ),
}
HEAD = {  # dense layer on the first token, layer of the logits
  'bert': ('bert.pooler.dense', 'classifier'),
  'distilbert': ('pre_classifier', 'classifier'),
  'electra': ('classifier.dense', 'classifier.out_proj'),
}
CLASS = {
  'bert': 'BertForSequenceClassification',
  'distilbert': 'DistilBertForSequenceClassification',
  'electra': 'ElectraForSequenceClassification',
}
KINDS = tuple(CLASS)
IDS = np.array([[2, 5, 8, 3, 6, 3, 0], [2, 7, 3, 8, 5, 6, 3]])
SEGMENTS = np.array([[0, 0, 0, 0, 1, 1, 0], [0, 0, 0, 1, 1, 1, 1]])


def inputs(ids=IDS, segments=SEGMENTS):
  """Inputs of tf-models' encoder."""
  arrays = {'input_word_ids': ids, 'input_mask': ids != 0, 'input_type_ids': segments}
  return {name: tf.constant(array, tf.int32) for name, array in arrays.items()}


def random_tensors(kind, labels=1):
  """Weights of a sequence classifier, as Hugging Face names and shapes them: [out, in]."""
  width, scope = WIDTH[kind], f'{kind}.'
  shapes = {
    f'{scope}embeddings.word_embeddings.weight': (V, width),
    f'{scope}embeddings.position_embeddings.weight': (P, width),
    f'{scope}embeddings.LayerNorm.weight': (width,),
    f'{scope}embeddings.LayerNorm.bias': (width,),
  }
  if kind != 'distilbert':
    shapes[f'{scope}embeddings.token_type_embeddings.weight'] = (2, width)
  linear = {HEAD[kind][0]: (H, H), HEAD[kind][1]: (labels, H)}
  if width != H:
    linear[f'{scope}embeddings_project'] = (H, width)
  stack, *names = LAYERS[kind]
  for i in range(DEPTH):
    for name in names:
      wide = {names[5]: (F, H), names[6]: (H, F)}.get(name, (H, H))
      linear[f'{scope}{stack}.layer.{i}.{name}'] = (H,) if 'orm' in name else wide
  for name, shape in linear.items():
    shapes |= {f'{name}.weight': shape, f'{name}.bias': shape[:1]}
  rng = np.random.default_rng(4)
  return {name: rng.normal(0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}


def unscoped(kind, tensors):
  """The encoder's tensors alone, as `BertModel`, `DistilBertModel` and `ElectraModel` name them."""
  own = f'{kind}.'
  return {n.removeprefix(own): t for n, t in tensors.items() if n.startswith(own)}


def tf1(tensors):
  """A BERT's tensors, without scope, as google-research/bert names and shapes them."""
  weights = {}
  for key, array in tensors.items():
    name = 'bert/' + key.replace('layer.', 'layer_').replace('.', '/')
    if 'LayerNorm' in name:
      name = name.replace('weight', 'gamma').replace('bias', 'beta')
    elif 'embeddings' in name:
      name = name.removesuffix('/weight')
    elif name.endswith('weight'):
      name, array = name.replace('weight', 'kernel'), array.T
    weights[name] = array
  return weights


def gelu(x):
  return x * (1 + scipy.special.erf(x / np.sqrt(2))) / 2


def gelu_tanh(x):
  return x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2


def slow(kind, tensors, ids, segments, heads=HEADS, act=gelu):
  """Outputs of the layers, and of the dense layer on the first token; head by head."""
  scope, (stack, *names) = f'{kind}.', LAYERS[kind]
  tensors = {name: value.astype(np.float64) for name, value in tensors.items()}
  depth = len({n.split('.')[3] for n in tensors if n.startswith(f'{scope}{stack}.layer.')})

  def dense(x, name):
    return x @ tensors[f'{name}.weight'].T + tensors[f'{name}.bias']

  def norm(x, name):
    x = x - x.mean(-1, keepdims=True)
    x = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-12)
    return x * tensors[f'{name}.weight'] + tensors[f'{name}.bias']

  layers, pooled = [[] for _ in range(depth)], []
  for text, segment in zip(ids, segments, strict=True):
    table = {
      name: tensors.get(f'{scope}embeddings.{name}_embeddings.weight')
      for name in ('word', 'position', 'token_type')
    }
    x = table['word'][text] + table['position'][: len(text)]
    if table['token_type'] is not None:
      x = x + table['token_type'][segment]
    x = norm(x, f'{scope}embeddings.LayerNorm')
    if f'{scope}embeddings_project.weight' in tensors:
      x = dense(x, f'{scope}embeddings_project')
    for i in range(depth):
      query, key, value, out, out_norm, inner, outer, outer_norm = (
        f'{scope}{stack}.layer.{i}.{name}' for name in names
      )
      seen = []
      split = (np.split(dense(x, name), heads, -1) for name in (query, key, value))
      for q, k, v in zip(*split, strict=True):
        weights = q @ k.T / np.sqrt(q.shape[-1]) + np.where(text == 0, -np.inf, 0)
        seen.append(scipy.special.softmax(weights, -1) @ v)
      x = norm(x + dense(np.concatenate(seen, -1), out), out_norm)
      x = norm(x + dense(act(dense(x, inner)), outer), outer_norm)
      layers[i].append(x)
    of_first = {'bert': np.tanh, 'distilbert': lambda x: np.maximum(x, 0), 'electra': gelu}[kind]
    pooled.append(of_first(dense(x[0], HEAD[kind][0])))
  return [np.stack(layer) for layer in layers], np.stack(pooled)


def slow_logits(kind, tensors, ids=IDS, segments=SEGMENTS):
  """Logits of a sequence classifier."""
  last = HEAD[kind][1]
  pooled = slow(kind, tensors, ids, segments)[1]
  return pooled @ tensors[f'{last}.weight'].T + tensors[f'{last}.bias']


def write(folder, kind, tensors, **changes):
  """Writes a Hugging Face folder; `changes` are of its config."""
  folder.mkdir()
  fields = {'model_type': kind, 'architectures': [CLASS[kind]], **CONFIGS[kind], **changes}
  (folder / 'config.json').write_text(json.dumps(fields))
  (folder / 'vocab.txt').write_text('\n'.join(WORDS) + '\n', encoding='utf-8')
  tensors = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
  safetensors.numpy.save_file(tensors, str(folder / 'model.safetensors'))
  return str(folder)
