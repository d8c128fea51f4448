"""A sentence encoder as it is, without training: SavedModels and LiteRT files for `dse.Embedder`.

  python -m dse.export --pretrained=minilm --output=exports/minilm

It takes a folder as sentence-transformers writes it (BERT, DistilBERT or ELECTRA; `modules.json`
says how tokens become a vector). Vectors are its own; a score is sigmoid(5 cos), which ranks as the
cosine does.
"""

import dataclasses
import os
import re
from typing import Any

from common import extras

with extras.needed('train'):
  import tensorflow as tf

from common import files, flags, schema
from common.errors import InputError, check_pattern_free, damaged
from common.export import student_export
from common.modeling import checkpoints, encoders, word_files
from common.modeling.checkpoints import Pretrained
from common.scoring import hub
from dse.config import StudentConfig
from dse.student import DSE

_SAMPLES = (
  '',
  'a',
  'A man is eating food.',
  'Two dogs run over a field, and a third one watches them.',
)
_REMEDY = 'copy the folder anew'
_POOLING = {'mean': 'mean', 'mean_tokens': 'mean', 'cls': 'cls', 'cls_token': 'cls'}
_MODE = 'pooling_mode'


@dataclasses.dataclass(frozen=True)
class ExportConfig:
  """The sentence encoder, and the folder for its export."""

  pretrained: str = flags.option(
    '', "folder of sentence-transformers' layout, a hub id org/name, or minilm"
  )
  output: str = flags.option('', 'new folder for the export')
  max_length: int = flags.option(0, "most tokens of a text; 0: the folder's own", bounds=(0, 8192))


def student_config(pretrained: Pretrained, max_length: int = 0) -> StudentConfig:
  """Config of the student that gives a sentence encoder's vectors.

  Args:
    pretrained: The encoder's folder, read.
    max_length: Most tokens of a text; 0: as the folder says.

  Raises:
    InputError: If the folder does not say how tokens become a vector, or in a way not done here.
  """
  modules = _json(pretrained.path, 'modules.json')
  if modules is None:
    raise InputError(
      f'{pretrained.path}: no modules.json, which says how tokens become a vector: '
      "a folder of sentence-transformers' layout is needed"
    )
  try:
    kinds = [module['type'].rsplit('.', 1)[-1] for module in modules]
    paths = dict(zip(kinds, (module['path'] for module in modules), strict=True))
    schema.check([*paths.values()], list[str])
  except (AttributeError, KeyError, TypeError, ValueError) as error:
    raise InputError(f'{pretrained.path}: modules.json is no list of modules; {_REMEDY}') from error
  if kinds not in (['Transformer', 'Pooling'], ['Transformer', 'Pooling', 'Normalize']):
    raise InputError(
      f'{pretrained.path}: modules {", ".join(kinds)}; Transformer, Pooling and, at the end, '
      'Normalize can be exported'
    )
  if paths['Transformer']:
    raise InputError(
      f'{pretrained.path}: its transformer is in {paths["Transformer"]}/: move the files up'
    )
  settings = _settings(pretrained.path, 'sentence_bert_config.json', {'max_seq_length': int})
  if settings.get('do_lower_case') and not pretrained.lower_case:
    raise InputError(f'{pretrained.path}: do_lower_case before a cased tokenizer is not supported')
  of_own = {'prompts': dict, 'similarity_fn_name': str}
  own = _settings(pretrained.path, 'config_sentence_transformers.json', of_own)
  if prompt := own.get('default_prompt_name'):
    raise InputError(
      f'{pretrained.path}: default_prompt_name={prompt!r}: a prompt before each text is not '
      'supported'
    )
  if named := [name for name, prompt in (own.get('prompts') or {}).items() if prompt]:
    print(f'{pretrained.path}: prompts for {", ".join(named)} are put before no text')
  if (compared := own.get('similarity_fn_name') or 'cosine') != 'cosine' and len(kinds) == 2:
    raise InputError(
      f'{pretrained.path}: similarity_fn_name={compared!r} of vectors that are not of length 1; '
      'the cosine alone is done'
    )
  checkpoints.check_length(pretrained, '--max_length', max_length)
  if max_length == 1:
    raise InputError('--max_length=1: [CLS] and [SEP] alone are two tokens')
  length = max_length or _length(pretrained, settings.get('max_seq_length'))
  return StudentConfig(
    pretrained=pretrained.path,
    max_lengths=(length, length),
    pooled_layers=1,
    pooling=_pooling(pretrained.path, paths['Pooling']),
    pool_cls=True,
    normalize='Normalize' in kinds,
    similarity='cosine',
    dropout=0.0,
  )


def main(config: ExportConfig) -> None:
  """Exports, unless something is there."""
  if not config.pretrained or not config.output:
    raise InputError("--pretrained and --output: a sentence encoder's folder, and a new one")
  check_pattern_free(config.output, '--output')
  if os.path.exists(config.output):
    raise InputError(f'--output={config.output}: there already; name another')
  student = student_config(encoders.read(_local(config.pretrained)), config.max_length)
  model, tokenizer = DSE.from_pretrained(student, 1)
  with files.whole_folder(config.output) as part:
    written = student_export.write(
      part,
      model,
      tokenizer,
      slots=('left', 'right'),
      task='regression',
      samples=(_SAMPLES, _SAMPLES),
    )
  size, difference = written['encoder_bytes'] / 1e6, written['max_difference']
  print(f'{config.output}: an encoder of {size:.1f} MB, {difference:.1e} from the live model')


def _local(path: str) -> str:
  """The folder, see `hub.local`; a bare `org/name` that is no folder is fetched whole."""
  bare = re.fullmatch(extras.HUB_ID, path) and not tf.io.gfile.isdir(path)
  return hub.local(hub.PREFIX + path if bare else path)


def _length(pretrained: Pretrained, named: int | None) -> int:
  """Maximum tokens of a text: the given number, else the tokenizer's; at most the positions."""
  positions = pretrained.config.max_positions
  if not named:
    name = word_files.SETTINGS
    named = _settings(pretrained.path, name, {}).get('model_max_length') or positions
    if not isinstance(named, (int, float)) or not named > 0:
      path = os.path.join(pretrained.path, name)
      raise InputError(f'{path}: model_max_length={named!r}; a number of tokens is needed')
  return int(min(named, positions))


def _pooling(folder: str, path: str) -> str:
  """The one way of pooling that a folder's config names."""
  name = os.path.join(path, 'config.json')
  settings = _json(folder, name)
  if not isinstance(settings, dict):
    raise InputError(f'{folder}: no {name}, which says how tokens are pooled; {_REMEDY}')
  named = settings.get(_MODE) or [
    key.removeprefix(f'{_MODE}_') for key, on in settings.items() if on and key.startswith(_MODE)
  ]
  modes = named if isinstance(named, list) else [named]
  if len(modes) != 1 or str(modes[0]) not in _POOLING:
    how = ' and '.join(map(str, modes)) or 'by nothing'
    raise InputError(
      f'{os.path.join(folder, name)}: pooling {how} cannot be exported; mean_tokens or cls_token '
      'alone can'
    )
  return _POOLING[modes[0]]


def _settings(folder: str, name: str, types: dict[str, Any]) -> dict[str, Any]:
  """The object in a file, empty where there is no file; fields of `types` are of those types."""
  found = _json(folder, name)
  if found is None:
    return {}
  with damaged(os.path.join(folder, name), _REMEDY):
    schema.check(found, {}, 'settings')
    schema.check(found, {n: of for n, of in types.items() if found.get(n) is not None}, 'settings')
  return found


def _json(folder: str, name: str) -> Any:
  """The JSON of a file; None where there is none."""
  path = os.path.join(folder, name)
  return files.read_json(path, _REMEDY) if files.stat(path) else None


if __name__ == '__main__':
  flags.command(main, ExportConfig)
