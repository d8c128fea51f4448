"""An export's head and encoders in ONNX, for use elsewhere.

  python -m common.export.onnx_export --export=runs/p2t/export

The export gets a folder `onnx`, in float32, each file for any number of rows:

* `head/serving_default.onnx`, `left_part.onnx`, `right_part.onnx`, `of_parts.onnx` and
  `one_to_many.onnx`: the head's signatures of these names;
* `encoder/left/model.onnx`, of each side: `ids`, int32 [texts, tokens], to `vectors`; of a side of
  vectors `vector` to `vectors`;
* `encoder/left/tokenizer.json`, which `tokenizers.Tokenizer.from_file` reads: texts to these ids.
"""

import dataclasses
import os
import shutil
from typing import Any

import numpy as np
import tensorflow as tf
from tokenizers import Tokenizer
from tqdm import tqdm

from common import digests, extras, files, flags
from common.data.word_pieces import WordPieces
from common.errors import InputError, check_pattern_free
from common.export import heads, saved_models
from common.scoring import exported, litert_encoder
from common.scoring.litert_files import DENSE

with extras.needed('onnx', 'ONNX: '):
  import onnxruntime  # noqa: F401
  import tf2onnx.convert

FOLDER = 'onnx'  # in an export
TOKENIZER = 'tokenizer.json'
_ROWS = 8  # that each file is compared with its SavedModel on
_TOLERANCE = 1e-4  # it sums otherwise: 6e-6 was measured for MiniLM-L6's encoder


@dataclasses.dataclass(frozen=True)
class ExportConfig:
  """The export that gets files in ONNX."""

  export: str = flags.option('', 'folder of an export; gets a folder onnx')


def head_file(folder: str, signature: str) -> str:
  """File of a head's signature, in an export's `FOLDER`."""
  return os.path.join(folder, 'head', f'{signature}.onnx')


def encoder_file(folder: str, slot: str) -> str:
  """File of a slot's encoder, in an export's `FOLDER`."""
  return os.path.join(folder, 'encoder', slot, 'model.onnx')


@saved_models.exact()
def write(folder: str) -> float:
  """Writes the folder `onnx` of an export, whole or not at all.

  Args:
    folder: The export.

  Returns:
    The largest difference from the SavedModels, on random rows and texts.

  Raises:
    InputError: If the export has these files, or SavedModels that cannot be converted.
    RuntimeError: If a fresh process computes something else by a file than by its SavedModel.
  """
  export, rng = exported.Export(folder), np.random.default_rng(0)
  described = export.description
  slots, word_pieces = described['slots'], WordPieces.load(litert_encoder.word_pieces_of(folder))
  if os.path.exists(target := os.path.join(folder, FOLDER)):
    raise InputError(f'{target}: there already; delete it to make it anew')
  with files.whole_folder(target) as part:
    wanted, vectors = dict[str, tuple[Any, dict[str, np.ndarray]]](), dict[str, np.ndarray]()
    for slot, length in zip(slots, described['max_lengths'], strict=True):
      path, width = encoder_file(part, slot), described['widths'].get(slot)
      os.makedirs(os.path.dirname(path))
      if width:
        given = {DENSE: rng.normal(size=[_ROWS, width]).astype(np.float32)}
      else:
        tokenizer = os.path.join(os.path.dirname(path), TOKENIZER)
        given = {'ids': _tokenized(word_pieces, length, tokenizer, rng)}
      encode = export.encoder.signatures[slot if width else f'{slot}_ids']
      wanted[path] = encode, given
      vectors[slot] = encode(**_tensors(given))['vectors'].numpy()
    signatures = export.head.signatures.items()
    converted = {name: of for name, of in signatures if name != exported.ONE_TO_MANY_INT8}
    samples = heads.samples(converted, vectors)
    os.makedirs(os.path.dirname(head_file(part, '')))
    for name, signature in converted.items():
      wanted[head_file(part, name)] = signature, samples[name]
    alike = {
      encoder_file(part, slot): encoder_file(part, slots[first])
      for slot, first in zip(slots, described['encoded_as'], strict=True)
    }
    saved = []
    for path, (signature, given) in tqdm(wanted.items(), desc='ONNX', unit=' files'):
      if (first := alike.get(path, path)) != path:
        shutil.copyfile(first, path)
        continue
      _convert(signature, path)
      saved.append(saved_models.Saved(path, {'': signature}, {'': given}, _TOLERANCE))
    difference = saved_models.verify(*saved).result()
    digests.write(part)
  return difference


def _tokenized(
  word_pieces: WordPieces, length: int, path: str, rng: np.random.Generator
) -> np.ndarray:
  """Writes a slot's tokenizer; returns what it makes of texts of no to many random words.

  Raises:
    RuntimeError: If it does not give the ids of `word_pieces`.
  """
  word_pieces.save_tokenizer(path, length)
  counts = np.linspace(0, length, _ROWS, dtype=int)
  texts = [' '.join(rng.choice(word_pieces.vocabulary, count)) for count in counts]
  encoded = Tokenizer.from_file(path).encode_batch(texts)
  ids = np.array([one.ids for one in encoded], np.int32)
  for row, expected in zip(ids, word_pieces.encode(texts, length), strict=True):
    if row[row != word_pieces.pad_id].tolist() != expected.tolist():
      raise RuntimeError(f'{path}: gives other ids than the export of {texts}')
  return ids


def _convert(signature: Any, path: str) -> None:
  """Writes a signature as an ONNX file, its inputs and outputs by their names."""
  specs = signature.structured_input_signature[1]
  function = tf.function(
    lambda *given: signature(**dict(zip(specs, given, strict=True))), autograph=False
  )
  handlers = {'Erfc': (_erfc, [])}
  try:
    tf2onnx.convert.from_function(
      function, [*specs.values()], custom_op_handlers=handlers, output_path=path
    )
  except Exception as error:  # of several kinds
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    raise InputError(f'{path}: tf2onnx does not convert it ({reason})') from error


def _erfc(graph: Any, node: Any, name: str, _: Any) -> None:
  """1 - Erf(x), as ONNX has no Erfc."""
  (output,) = node.output
  of = {'dtypes': [graph.get_dtype(output)], 'shapes': [graph.get_shape(output)]}
  one = graph.make_const(f'{name}_one', np.array(1, np.float32))
  erf = graph.make_node('Erf', node.input, **of)
  graph.remove_node(node.name)
  graph.make_node('Sub', [*one.output, *erf.output], outputs=[output], name=name, **of)


def _tensors(arrays: dict[str, np.ndarray]) -> dict[str, tf.Tensor]:
  return {name: tf.constant(array) for name, array in arrays.items()}


def main(config: ExportConfig) -> None:
  """Writes the files, and says how large and how near they are."""
  if not os.path.isdir(config.export):
    raise InputError(f"--export={config.export}: the folder of a run's export is needed")
  check_pattern_free(config.export, '--export')
  difference = write(config.export)
  folder = os.path.join(config.export, FOLDER)
  size = saved_models.size(folder) / 1e6
  print(f'{folder}: {size:.1f} MB, {difference:.1e} from the SavedModels')


if __name__ == '__main__':
  flags.command(main, ExportConfig)
