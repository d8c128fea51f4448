"""The peers' side of `benchmarks.peers` and `benchmarks.latency`: a process of their environment.

  PEERS/bin/python benchmarks/peers/measure.py given.json

Once all is loaded it writes a line of JSON, its contenders. Then it calls one for each number that
it reads, and answers each with a line. Whatever the libraries print goes to stderr.

Dimensions: q queries of s tokens, d documents of t, h the encoder's width.
"""

import csv
import functools
import itertools
import json
import os
import sys
import time
from collections.abc import Callable
from importlib import metadata
from typing import Any

import torch
from bi_encoder import fine_tune  # beside this script
from sentence_transformers import (
  CrossEncoder,
  SentenceTransformer,
  export_static_quantized_openvino_model,
  util,
)
from transformers.modeling_outputs import SequenceClassifierOutput

_LEAST = 0.1  # seconds of a request; a shorter call is repeated
_BLOCK = 256  # documents that MaxSim takes at a time
_PACKAGES = ('sentence-transformers', 'transformers', 'torch', 'optimum-intel', 'openvino', 'nncf')
_PACKAGES += ('onnxruntime',)
_BYTES = {'float32': (4, 0), 'int8': (1, 4)}  # of a number, and of a vector's scale


def max_sim(queries: torch.Tensor, documents: torch.Tensor) -> torch.Tensor:
  """ColBERT's score, as PyLate's `colbert_scores`: of each query token its best document token.

  [q, s, h] and [d, t, h], zero rows past a text's end, to [q, d].
  """
  return torch.einsum('qsh,dth->qdst', queries, documents).max(-1).values.sum(-1)


class Contenders:
  """Contenders: descriptions, as JSON wants them, and their calls, by the same number."""

  def __init__(self, batch_sizes: list[int]):
    self.described: list[dict[str, Any]] = []
    self.calls: list[Callable[[], Any]] = []
    self._batch_sizes = batch_sizes

  def batched(
    self, kind: str, name: str, call: Callable[[int], Any], rows: int, **more: Any
  ) -> None:
    """Adds a call that takes a batch size, with the size that is fastest."""
    call(self._batch_sizes[0])
    size = min(self._batch_sizes, key=lambda size: _seconds(lambda: call(size)))
    self.add(kind, name, lambda: call(size), rows, batch_size=size, **more)

  def add(self, kind: str, name: str, call: Callable[[], Any], rows: int, **more: Any) -> None:
    """Adds a call of so many texts or pairs; `more` stands in its description."""
    call()
    repeats = max(1, round(_LEAST / _seconds(call)))
    self.described.append({'kind': kind, 'name': name, 'rows': rows * repeats, **more})
    self.calls.append(lambda: [call() for _ in range(repeats)])

  def known(self, kind: str, name: str, scores: list[float]) -> None:
    """Adds what is scored as fast as another: its scores alone."""
    self.described.append({'kind': kind, 'name': name, 'scores': scores})
    self.calls.append(lambda: None)


def main(path: str) -> None:
  """Loads the models, describes them, and answers calls."""
  answers = os.fdopen(os.dup(1), 'w', encoding='utf-8')
  os.dup2(2, 1)
  with open(path, encoding='utf-8') as file:
    given = json.load(file)
  torch.set_num_threads(given['threads'])
  if given['train']:
    _progress(f'fine-tuning into {given["trained"]}')
    fine_tune(given).save_pretrained(given['trained'])
  found = Contenders(given['batch_sizes'])
  if 'reranked' in given:
    add_rerankers(found, given)
  else:
    encoder = add_encoders(found, given)
    add_stored(found, given, encoder)
    add_cross_encoders(found, given)
  versions = {name: metadata.version(name) for name in _PACKAGES}
  ready = {'contenders': found.described, 'versions': versions}
  print(json.dumps(ready), file=answers, flush=True)
  for line in sys.stdin:
    found.calls[int(line)]()
    print('done', file=answers, flush=True)


def add_encoders(found: Contenders, given: dict[str, Any]) -> SentenceTransformer:
  """Texts to sentence vectors, and their cosine with torch's; returns torch's encoder."""
  texts = given['texts']
  encoders = three(SentenceTransformer, given['weights'], given)
  exact = None
  for name, encoder in encoders.items():
    encoder.max_seq_length = given['max_length']
    _progress(f'sentence-transformers, {name}')

    def call(size: int, encoder: SentenceTransformer = encoder) -> Any:
      return encoder.encode(texts, batch_size=size)

    vectors = encoder.encode(texts, convert_to_tensor=True)
    exact = vectors if exact is None else exact
    cosine = float(util.pairwise_cos_sim(vectors, exact).mean())
    found.batched('encoding', f'sentence-transformers, {name}', call, len(texts), cosine=cosine)
  return encoders['torch']


def add_stored(found: Contenders, given: dict[str, Any], encoder: SentenceTransformer) -> None:
  """The best candidates of each query, by stored vectors: cosine, and MaxSim of all tokens."""
  queries, candidates, test = given['queries'], given['candidates'], given['test']
  pairs, best = len(queries) * len(candidates), min(given['top_k'], len(candidates))
  options: dict[str, Any] = {'convert_to_tensor': True, 'normalize_embeddings': True}
  q, d = (encoder.encode(texts, **options) for texts in (queries, candidates))
  found.add(
    'stored',
    'cosine of sentence vectors',
    lambda: util.semantic_search(q, d, top_k=best, score_function=util.dot_score),
    pairs,
    scores=cosines(encoder, test),
    bytes=stored_bytes(1, d.shape[1]),
  )
  if given['trained']:
    trained = SentenceTransformer(given['trained'], device='cpu')
    trained.max_seq_length = given['max_length']
    found.known('stored', 'the same, fine-tuned on the train table', cosines(trained, test))
  tokens = sorted(token_vectors(encoder, candidates), key=len)  # blocks of like length pad little
  blocks = [padded(tokens[start : start + _BLOCK]) for start in range(0, len(tokens), _BLOCK)]
  s = padded(token_vectors(encoder, queries))
  found.add(
    'stored',
    'MaxSim of all tokens',
    lambda: torch.cat([max_sim(s, block) for block in blocks], 1).topk(best),
    pairs,
    scores=mean_max_sims(encoder, test),
    bytes=stored_bytes(sum(map(len, tokens)) / len(tokens), s.shape[2]),
  )


def add_cross_encoders(found: Contenders, given: dict[str, Any]) -> None:
  """Pairs of texts to scores."""
  pairs = given['pairs']
  for name, model in cross_encoders(given).items():
    _progress(f'CrossEncoder, {name}')

    def call(size: int, model: CrossEncoder = model) -> Any:
      return model.predict(pairs, batch_size=size)

    found.batched('pairs', f'CrossEncoder, {name}', call, len(pairs))


def add_rerankers(found: Contenders, given: dict[str, Any]) -> None:
  """Candidates of a query to the best of them: by each count, one request a call."""
  models = cross_encoders(given)
  models['ONNX int8'] = onnx_int8(given)
  queries, most = itertools.cycle(given['queries']), max(given['reranked'])
  for name, model in models.items():
    _progress(f'CrossEncoder, {name}')

    def call(count: int, size: int, model: CrossEncoder = model) -> Any:
      texts = given['texts'][:count]
      return model.rank(next(queries), texts, top_k=given['top_k'], batch_size=size)

    call(most, given['batch_sizes'][0])
    tried = {size: _seconds(functools.partial(call, most, size)) for size in given['batch_sizes']}
    size = min(tried, key=tried.__getitem__)
    for count in given['reranked']:
      row = {'kind': 'rerank', 'name': f'CrossEncoder, {name}', 'rows': count, 'batch_size': size}
      found.described.append(row)
      found.calls.append(functools.partial(call, count, size))


def cross_encoders(given: dict[str, Any]) -> dict[str, CrossEncoder]:
  """Cross-encoders by runtime; the output layer is random, which does not change the time."""
  folder = untrained(given)
  torch.manual_seed(0)
  CrossEncoder(given['weights'], num_labels=1, device='cpu').save_pretrained(folder)
  return three(CrossEncoder, folder, given, max_length=given['pair_length'])


def untrained(given: dict[str, Any]) -> str:
  """Folder of the cross-encoder with a random output layer."""
  return os.path.join(given['folder'], 'untrained')


def onnx_int8(given: dict[str, Any]) -> CrossEncoder:
  """The cross-encoder over ONNX Runtime, quantized dynamically by its own tool.

  sentence-transformers does the same through optimum-onnx, which takes no transformers 5.
  """
  import onnxruntime
  from onnxruntime import quantization

  model = CrossEncoder(untrained(given), device='cpu', max_length=given['pair_length'])
  network, names = model[0].model, ('input_ids', 'attention_mask', 'token_type_ids')
  features = model[0].preprocess([['a', 'b'], ['a', 'b c']])
  exact, path = (os.path.join(given['folder'], f'{name}.onnx') for name in ('exact', 'int8'))
  free = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}  # rows and tokens
  torch.onnx.export(
    network.eval(),
    kwargs={name: features[name] for name in names},
    f=exact,
    dynamic_shapes={name: free for name in names},
    output_names=['logits'],
  )
  quantization.quantize_dynamic(exact, path, per_channel=True)
  options = onnxruntime.SessionOptions()
  options.intra_op_num_threads = given['threads']
  session = onnxruntime.InferenceSession(path, options)

  def forward(**given: Any) -> Any:
    (logits,) = session.run(None, {name: given[name].numpy() for name in names})
    return SequenceClassifierOutput(logits=torch.from_numpy(logits))

  network.forward = forward
  return model


def three(cls: Any, weights: str, given: dict[str, Any], **options: Any) -> dict[str, Any]:
  """A model in torch in float32, in OpenVINO in the CPU's precision, and in OpenVINO int8.

  int8 is the library's own static quantization, calibrated on the texts.
  """
  folder = os.path.join(given['folder'], cls.__name__)
  config = {'INFERENCE_NUM_THREADS': given['threads']}

  def load(path: str, **more: Any) -> Any:
    model_kwargs = {'ov_config': dict(config), **more}
    return cls(path, device='cpu', backend='openvino', model_kwargs=model_kwargs, **options)

  _progress(f'{cls.__name__}: exports to OpenVINO')
  exported = load(weights, export=True)
  exported.save_pretrained(folder)
  export_static_quantized_openvino_model(exported, None, folder, *calibration(given))
  exact = load(folder, file_name='openvino_model.xml')
  return {
    'torch': cls(weights, device='cpu', **options),
    f'OpenVINO {precision(exact)}': exact,
    'OpenVINO int8': load(folder, file_name='openvino_model_qint8_quantized.xml'),
  }


def calibration(given: dict[str, Any]) -> tuple[str, str, str, str]:
  """Writes the texts as a data set; returns its folder, configuration, split and column."""
  folder = os.path.join(given['folder'], 'calibration')
  os.makedirs(folder, exist_ok=True)
  with open(os.path.join(folder, 'train.csv'), 'w', encoding='utf-8', newline='') as file:
    csv.writer(file).writerows([['text'], *([text] for text in given['texts'])])
  return folder, 'default', 'train', 'text'


def precision(model: Any) -> str:
  """Precision in which OpenVINO computes: bfloat16 where the CPU has it."""
  hint = model.transformers_model.request.get_property('INFERENCE_PRECISION_HINT')
  return {'f32': 'float32', 'bf16': 'bfloat16'}[hint.to_string()]


def cosines(encoder: SentenceTransformer, pairs: list[list[str]]) -> list[float]:
  """Cosine of each pair's sentence vectors, each distinct text encoded once."""
  texts = list(dict.fromkeys(text for pair in pairs for text in pair))
  vectors = encoder.encode(texts, convert_to_tensor=True, show_progress_bar=True)
  number = {text: i for i, text in enumerate(texts)}
  left, right = (vectors[[number[pair[side]] for pair in pairs]] for side in (0, 1))
  return util.pairwise_cos_sim(left, right).tolist()


def mean_max_sims(encoder: SentenceTransformer, pairs: list[list[str]]) -> list[float]:
  """MaxSim of each pair over its left tokens' number, so that pairs of any length compare."""
  texts = list(dict.fromkeys(text for pair in pairs for text in pair))
  vectors = dict(zip(texts, token_vectors(encoder, texts, progress=True), strict=True))
  return [
    float(max_sim(vectors[left][None], vectors[right][None])) / len(vectors[left])
    for left, right in pairs
  ]


def token_vectors(
  encoder: SentenceTransformer, texts: list[str], progress: bool = False
) -> list[torch.Tensor]:
  """Token vectors of each text, [CLS] and [SEP] too: [t, h] each, of length one."""
  options: dict[str, Any] = {'output_value': 'token_embeddings', 'show_progress_bar': progress}
  return [torch.nn.functional.normalize(v, dim=-1) for v in encoder.encode(texts, **options)]


def padded(vectors: list[torch.Tensor]) -> torch.Tensor:
  """Texts' tokens in one tensor, zero rows past a text's end: [texts, t, h]."""
  return torch.nn.utils.rnn.pad_sequence(vectors, batch_first=True)


def stored_bytes(vectors: float, width: int) -> dict[str, float]:
  """Bytes of a text's vectors, by dtype; as ours, int8 has a float32 scale a vector."""
  return {dtype: vectors * (width * number + scale) for dtype, (number, scale) in _BYTES.items()}


def _seconds(call: Callable[[], Any]) -> float:
  started = time.perf_counter()
  call()
  return time.perf_counter() - started


def _progress(text: str) -> None:
  print(f'peers: {text}', file=sys.stderr, flush=True)


if __name__ == '__main__':
  main(sys.argv[1])
