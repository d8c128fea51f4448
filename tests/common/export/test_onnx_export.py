"""An export's files in ONNX; `test_runtimes` has their outputs, `test_tokenization` the ids."""

import filecmp
import os
import shutil
import sys
import types

import numpy as np
import pytest

from common.errors import InputError
from common.export import onnx_export, saved_models
from common.scoring import onnx_runtimes
from common.scoring.scorer import PairScorer

SIDES = ('left', 'right')


def test_each_signature_and_each_side_has_its_file(exported, in_onnx):
  folder = os.path.join(in_onnx(exported.folder), 'onnx')
  walked = os.walk(folder)
  found = {
    os.path.relpath(os.path.join(base, name), folder) for base, _, ns in walked for name in ns
  }
  names = ('serving_default', 'of_parts', 'one_to_many', 'left_part', 'right_part')
  of_sides = {f'encoder/{side}/{n}' for side in SIDES for n in ('model.onnx', 'tokenizer.json')}
  assert found == {*(f'head/{name}.onnx' for name in names), *of_sides, 'digests.json'}


def test_an_encoder_of_both_sides_is_converted_and_loaded_once(export, in_onnx):
  folder = in_onnx(export('dse').folder)
  left, right = (onnx_runtimes.encoder_file(f'{folder}/onnx', side) for side in SIDES)
  assert filecmp.cmp(left, right, shallow=False)
  functions = PairScorer.load(folder, encoder_runtime='onnx')._encoder._functions._functions
  assert functions['left'] is functions['right']


def test_a_file_that_computes_something_else_is_no_export(exported, in_onnx, monkeypatch):
  folder = in_onnx(exported.folder)
  path = onnx_runtimes.head_file(f'{folder}/onnx', 'left_part')
  shape = onnx_runtimes.Function(path)._session.get_inputs()[0].shape[1:]
  signature = PairScorer.load(exported.folder)._export.head.signatures['left_part']
  given = {'left': np.ones([2, *shape], np.float32)}
  twice = lambda **inputs: {k: 2 * v for k, v in signature(**inputs).items()}  # noqa: E731
  saved = saved_models.Saved(path, {'': twice}, {'': given}, 1e-3)
  with pytest.raises(RuntimeError, match='left_part.onnx: reloaded outputs differ from the live'):
    saved_models.verify(saved).result()


def test_what_cannot_be_run_or_made_is_told_in_one_line(exported, in_onnx, monkeypatch, tmp_path):
  command = 'python -m common.export.onnx_export'
  for runtime in ('runtime', 'encoder_runtime'):
    with pytest.raises(
      InputError, match=f'onnx is not there; run {command} --export={exported.folder}$'
    ):
      PairScorer.load(exported.folder, **{runtime: 'onnx'})
    with monkeypatch.context() as patch:
      patch.setitem(sys.modules, 'onnxruntime', None)
      patch.delitem(sys.modules, 'common.scoring.onnx_runtimes')
      message = f"^{runtime}='onnx': onnxruntime is not installed: pip install 'dipair\\[onnx\\]'$"
      with pytest.raises(InputError, match=message):
        PairScorer.load(exported.folder, **{runtime: 'onnx'})
  with pytest.raises(InputError, match='^gs://b/onnx: onnxruntime needs a folder of this machine'):
    onnx_runtimes.ONNXHead(types.SimpleNamespace(folder='gs://b'))
  folder = in_onnx(exported.folder)
  with pytest.raises(InputError, match='onnx: there already; delete it to make it anew$'):
    onnx_export.write(folder)
  with pytest.raises(
    InputError, match="^--export=medquad: the folder of a run's export is needed$"
  ):
    onnx_export.main(onnx_export.ExportConfig('medquad'))
  shutil.copytree(folder, tmp_path / 'cut')
  with open(tmp_path / 'cut/onnx/head/of_parts.onnx', 'ab') as file:
    file.truncate(99)
  with pytest.raises(
    InputError, match=f'of_parts.onnx: damaged: .* delete the folder onnx and run {command}$'
  ):
    PairScorer.load(str(tmp_path / 'cut'), 'onnx')
