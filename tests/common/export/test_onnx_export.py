"""An export's files in ONNX, as others read them: their outputs are the SavedModels'."""

import filecmp
import importlib
import os
import sys

import numpy as np
import onnxruntime
import pytest
import tensorflow as tf
from tokenizers import Tokenizer

from common.errors import InputError
from common.export import heads, onnx_export, saved_models
from common.scoring.exported import Export
from tests.conftest import ENCODES_LITTLE, TERMS, TWO_DEPTHS

SIDES = ('left', 'right')
NOT_CONVERTED = {'one_to_many_int8'}


def run(path, inputs):
  """Outputs of a file by name."""
  session = onnxruntime.InferenceSession(path)
  return dict(
    zip([of.name for of in session.get_outputs()], session.run(None, inputs), strict=True)
  )


def test_each_signature_and_each_side_has_its_file(exported, in_onnx):
  folder = os.path.join(in_onnx(exported.folder), 'onnx')
  walked = os.walk(folder)
  found = {
    os.path.relpath(os.path.join(base, name), folder) for base, _, ns in walked for name in ns
  }
  names = ('serving_default', 'of_parts', 'one_to_many', 'left_part', 'right_part')
  of_sides = {f'encoder/{side}/{n}' for side in SIDES for n in ('model.onnx', 'tokenizer.json')}
  assert found == {*(f'head/{name}.onnx' for name in names), *of_sides, 'digests.json'}


@pytest.mark.parametrize('student', ['transformer', 'ffnn', 'lite', 'dse'])
def test_heads_give_the_saved_models_numbers_at_every_number_of_rows(export, in_onnx, student):
  changes = {'transformer': {}, 'ffnn': TWO_DEPTHS}
  changes = changes.get(student, {'head': student, **ENCODES_LITTLE})
  made = export('dse') if student == 'dse' else export('dipair', **changes)
  saved, folder = Export(made.folder), os.path.join(in_onnx(made.folder), 'onnx')
  signatures, rng = saved.head.signatures, np.random.default_rng(0)
  shapes = dict(zip(SIDES, saved.description['vector_shapes'], strict=True))
  for rows in (1, 2, 257):
    vectors = {side: rng.normal(size=(rows, *shapes[side])).astype(np.float32) for side in SIDES}
    vectors['right'][0, 2:] = 0  # a padded position
    for name, inputs in heads.samples(signatures, vectors).items():
      if name not in NOT_CONVERTED:
        exact = signatures[name](**{key: tf.constant(value) for key, value in inputs.items()})
        found = run(onnx_export.head_file(folder, name), inputs)
        assert set(found) == set(exact)
        for key, value in found.items():
          np.testing.assert_allclose(value, exact[key], atol=1e-5, rtol=1e-5)


def test_encoders_give_the_saved_models_vectors_at_every_number_of_texts(exported, in_onnx):
  folder, saved = os.path.join(in_onnx(exported.folder), 'onnx'), Export(exported.folder)
  texts = ['', '½ ™ ß', 'shoes', 'word ' * 600, *(f'{t} {i}' for t in TERMS for i in range(9))]
  for side in SIDES:
    path = onnx_export.encoder_file(folder, side)
    tokenizer = Tokenizer.from_file(os.path.join(os.path.dirname(path), 'tokenizer.json'))
    for rows in (1, 2, 8, len(texts)):
      exact = saved.encoder.signatures[side](text=tf.constant(texts[-rows:]))['vectors'].numpy()
      ids = np.array([one.ids for one in tokenizer.encode_batch(texts[-rows:])], np.int32)
      (vectors,) = run(path, {'ids': ids}).values()
      np.testing.assert_array_equal(vectors.any(-1), exact.any(-1))  # padding stays all-zero
      np.testing.assert_allclose(vectors, exact, atol=2e-5)
    assert np.ptp(exact) > 1


def test_an_encoder_of_both_sides_is_one_file_twice(export, in_onnx):
  folder = in_onnx(export('dse').folder)
  left, right = (onnx_export.encoder_file(f'{folder}/onnx', side) for side in SIDES)
  assert filecmp.cmp(left, right, shallow=False)


def test_a_file_that_computes_something_else_is_no_export(exported, in_onnx, monkeypatch):
  folder = in_onnx(exported.folder)
  path, saved = onnx_export.head_file(f'{folder}/onnx', 'left_part'), Export(exported.folder)
  signature = saved.head.signatures['left_part']
  given = {'left': np.ones([2, *saved.description['vector_shapes'][0]], np.float32)}
  twice = lambda **inputs: {k: 2 * v for k, v in signature(**inputs).items()}  # noqa: E731
  saved = saved_models.Saved(path, {'': twice}, {'': given}, 1e-3)
  with pytest.raises(RuntimeError, match='left_part.onnx: reloaded outputs differ from the live'):
    saved_models.verify(saved).result()


def test_what_cannot_be_made_is_told_in_one_line(exported, in_onnx, monkeypatch):
  with monkeypatch.context() as patch:
    patch.setitem(sys.modules, 'onnxruntime', None)
    patch.delitem(sys.modules, 'common.export.onnx_export')
    message = "^ONNX: onnxruntime is not installed: pip install 'dipair\\[onnx\\]'$"
    with pytest.raises(InputError, match=message):
      importlib.import_module('common.export.onnx_export')
  with pytest.raises(InputError, match='onnx: there already; delete it to make it anew$'):
    onnx_export.write(in_onnx(exported.folder))
  with pytest.raises(
    InputError, match="^--export=medquad: the folder of a run's export is needed$"
  ):
    onnx_export.main(onnx_export.ExportConfig('medquad'))
