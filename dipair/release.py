"""A finished run's student as one small archive, to be shared, which `dipair.Scorer.load` opens.

  python -m dipair.release --run_dir=runs/q2p --output=dist/medquad-0.1.0.tar.gz \\
    --license=apache-2.0 --data_license='CC BY 4.0' \\
    --data='MedQuAD, Ben Abacha and Demner-Fushman, 2019'

It holds the files for scoring without TensorFlow: encoder and head in LiteRT's int8, word pieces,
their description, the weight for a first stage's scores where the export has one, digests, and the
run's model card with these licences. Before it gets its name, a fresh process loads it and compares
its scores with the export's.
"""

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence

import numpy as np

from common import extras

with extras.needed('train'):
  import tensorflow  # noqa: F401

from common import digests, files, flags
from common.data.records import RecordSet
from common.distillation.finished_run import FinishedRun
from common.errors import InputError
from common.evaluation import report
from common.evaluation.results import Results
from common.scoring import archive, exported, litert_encoder, litert_head
from common.scoring.first_stage import FirstStageWeight
from dipair.scorer import Scorer

_PRECISION = 'int8'
_RUNTIME = f'litert-{_PRECISION}'
_TUPLES = 64  # of the test set, whose scores are compared
_TOLERANCE = 1e-5
_SCORES = """
import json, sys
sys.modules['tensorflow'] = None  # nothing may import it
import dipair
scores = dipair.Scorer.load(sys.argv[1]).score(*json.load(sys.stdin))
print(json.dumps(scores.tolist()))
"""


@dataclasses.dataclass(frozen=True)
class ReleaseConfig:
  """The run, the archive, and the terms that both are under."""

  run_dir: str = flags.option('', 'a finished run of dipair.run; nothing in it is changed')
  output: str = flags.option('', f'file of the archive; its name ends in {archive.SUFFIX}')
  license: str = flags.option('', "the model's licence, as the hub names it: apache-2.0")
  data: str = flags.option('', 'training data and their authors')
  data_license: str = flags.option('', "the data's licence: CC BY 4.0")

  def check(self) -> None:
    """Refuses what is not stated, or not as it should be."""
    for name in ('run_dir', 'output', 'license', 'data', 'data_license'):
      if not getattr(self, name).strip():
        raise InputError(f'--{name} is needed: a release states its licence, its data and theirs')
    if not re.fullmatch(r'[\w.+-]+', self.license):
      raise InputError(f'--license={self.license}: one word is needed, such as apache-2.0')
    if not archive.is_one(self.output):
      raise InputError(f'--output={self.output}: a name that ends in {archive.SUFFIX}')
    if os.path.exists(self.output):
      raise InputError(f'--output={self.output}: there already; name another')


def write(config: ReleaseConfig) -> None:
  """Writes the archive, whole or not at all.

  Raises:
    InputError: If the flags or the run are not what is needed.
    RuntimeError: If a fresh process does not score as the run's export does.
  """
  config.check()
  run = FinishedRun(config.run_dir, 'dipair')
  records = RecordSet(run.path('data/test'))
  if any(records.widths):
    raise InputError(
      f'--run_dir={config.run_dir}: holds vectors; only a run of texts can be released'
    )
  export, name = run.path('export'), os.path.basename(config.output)
  terms = {key: getattr(config, key) for key in ('license', 'data', 'data_license')}
  with tempfile.TemporaryDirectory() as folder:
    content, packed = os.path.join(folder, 'content'), os.path.join(folder, name)
    for form in (litert_encoder, litert_head):
      _copy(form.file_of(export, _PRECISION), form.file_of(content, _PRECISION))
    _copy(litert_encoder.word_pieces_of(export), litert_encoder.word_pieces_of(content))
    description = {**exported.describe(export), 'runtime': _RUNTIME}
    files.write_json(os.path.join(content, exported.DESCRIPTION), description)
    if weight := FirstStageWeight.of(export):
      weight.write(content)
    card = os.path.join(content, 'README.md')
    results = Results.of_json(run.results)
    report.write_model_card(results, card, {**terms, 'archive': name, 'runtime': _RUNTIME})
    archive.pack(content, packed)
    texts = records.texts(slice(_TUPLES))
    _compare(packed, export, list(zip(*texts, strict=True)))
    os.makedirs(os.path.dirname(config.output) or '.', exist_ok=True)
    with files.whole(config.output) as temporary:
      shutil.copyfile(packed, temporary)


def _copy(source: str, target: str) -> None:
  digests.check(source, exported.REMEDY)
  os.makedirs(os.path.dirname(target), exist_ok=True)
  shutil.copyfile(source, target)


def _compare(packed: str, export: str, texts: Sequence[Sequence[str]]) -> None:
  """Compares an archive's scores, in a process without TensorFlow, with the export's."""
  expected = Scorer.load(export, _RUNTIME, encoder_runtime=_RUNTIME).score(*texts)
  environment = {**os.environ, 'XDG_CACHE_HOME': os.path.dirname(packed)}
  command, given = [sys.executable, '-c', _SCORES, packed], json.dumps(texts)
  done = subprocess.run(
    command, env=environment, input=given, capture_output=True, text=True, check=False
  )
  if done.returncode:
    raise RuntimeError(f'{packed}: not loaded in a fresh process:\n{done.stderr[-2000:]}')
  difference = float(np.abs(np.array(json.loads(done.stdout)) - expected).max())
  if not difference <= _TOLERANCE:
    raise RuntimeError(f"{packed}: scores differ from the export's by {difference:g}")


def main(config: ReleaseConfig) -> None:
  """Writes the archive, and prints its size and SHA-256."""
  write(config)
  size = os.path.getsize(config.output)
  print(f'{config.output}: {size:,} bytes, sha256 {files.sha256(config.output)}')


if __name__ == '__main__':
  flags.command(main, ReleaseConfig)
