"""TensorFlow Serving's files of an export: parsed as the server does, warm-up requests called."""

import os
import shutil
import sys

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import (
  descriptor_pb2,
  descriptor_pool,
  message_factory,
  text_format,
  wrappers_pb2,  # noqa: F401  (of BatchingParameters)
)
from tensorflow_serving.apis import prediction_log_pb2
from tensorflow_serving.config import model_server_config_pb2

from common.errors import InputError
from common.export import saved_models
from common.scoring import exported
from common.serving import config
from common.serving.config import ServingConfig


@pytest.fixture(name='served', scope='module')
def _served(exported, tmp_path_factory):
  """A configured copy of an export: p2t/export."""
  folder = tmp_path_factory.mktemp('runs') / 'p2t' / 'export'
  shutil.copytree(exported[0], folder)
  config.write(ServingConfig(export_dir=str(folder), max_batch_size=32))
  return folder


def batching_parameters(path):
  """`BatchingParameters`, of which the package has no class: the proto's fields, by hand."""
  file = descriptor_pb2.FileDescriptorProto(
    name='batching.proto', syntax='proto3', dependency=['google/protobuf/wrappers.proto']
  )
  message = file.message_type.add(name='BatchingParameters')
  values = ('max_batch_size', 'batch_timeout_micros', 'max_enqueued_batches', 'num_batch_threads')
  for number, name in enumerate(values, 1):
    field = message.field.add(name=name, number=number, label=1, type=11)
    field.type_name = '.google.protobuf.Int64Value'
  message.field.add(name='allowed_batch_sizes', number=6, label=3, type=3)
  pool = descriptor_pool.DescriptorPool()
  wrappers = descriptor_pb2.FileDescriptorProto()
  wrappers_pb2.DESCRIPTOR.CopyToProto(wrappers)
  pool.Add(wrappers)
  pool.Add(file)
  kind = message_factory.GetMessageClass(pool.FindMessageTypeByName('BatchingParameters'))
  found = text_format.Parse(path.read_text(encoding='utf-8'), kind())
  return {
    'most': found.max_batch_size.value,
    'allowed': list(found.allowed_batch_sizes),
    'threads': found.num_batch_threads.value,
  }


def test_the_server_finds_three_models_of_which_two_are_batched(served):
  text = (served / 'serving' / 'models.config').read_text(encoding='utf-8')
  models = text_format.Parse(text, model_server_config_pb2.ModelServerConfig())
  found = {c.name: (c.base_path, c.model_platform) for c in models.model_config_list.config}
  assert found == {
    f'p2t_{name}': (str(served / name), 'tensorflow') for name in ('encoder', 'head', 'online')
  }
  head = {'most': 32, 'allowed': [16, 32], 'threads': 0}
  assert batching_parameters(served / 'head' / '1' / 'batching_params.pbtxt') == head
  common = batching_parameters(served / 'serving' / 'batching.config')
  assert common == {**head, 'threads': 4}
  encoder = batching_parameters(served / 'encoder' / '1' / 'batching_params.pbtxt')
  assert encoder == {'most': 32, 'allowed': [], 'threads': 0}
  assert not (served / 'online' / '1' / 'batching_params.pbtxt').exists()


@pytest.mark.parametrize('model', ['encoder', 'head', 'online'])
def test_warm_up_requests_call_every_signature_at_every_size(served, model):
  path = served / model / '1' / 'assets.extra' / 'tf_serving_warmup_requests'
  signatures = exported.load(str(served / model)).signatures
  called = []
  for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
    request = prediction_log_pb2.PredictionLog.FromString(record).predict_log.request
    assert request.model_spec.name == f'p2t_{model}'
    inputs = {name: tf.constant(tf.make_ndarray(t)) for name, t in request.inputs.items()}
    rows = [len(value) for value in inputs.values()]
    if model != 'online':  # a batched model takes as many rows of each input
      assert len(set(rows)) == 1
    outputs = signatures[request.model_spec.signature_name](**inputs)
    floats = [value for value in outputs.values() if value.dtype.is_floating]
    assert all(np.isfinite(value).all() for value in floats)
    assert all(len(value) == max(rows) for value in outputs.values())
    called.append((request.model_spec.signature_name, max(rows)))
  sizes = [1, 16] if model == 'encoder' else [16, 32]
  assert called == [(name, size) for name in sorted(signatures) for size in sizes]


def test_again_gives_the_same_files_and_the_same_model(served, exported):
  def contents():
    files = [path for path in sorted(served.rglob('*')) if path.is_file()]
    return {str(path): path.read_bytes() for path in files}

  before = contents()
  config.write(ServingConfig(export_dir=str(served), max_batch_size=32))
  assert before and contents() == before
  assert not [path for path in before if path.endswith('.tmp')]
  assert saved_models.fingerprint(str(served / 'encoder')) == saved_models.fingerprint(
    f'{exported[0]}/encoder'
  )
  assert 'serving' not in os.listdir(exported[0])  # the fixture's export is as it was


def test_the_command_prints_how_to_serve_and_refuses_what_is_no_export(export, tmp_path, python):
  served = tmp_path / 'p2t' / 'export'
  shutil.copytree(export('dipair').folder, served)

  def run(*arguments):
    return python('-m', 'common.serving.config', *arguments)

  done = run(f'--export_dir={served}', '--name=terms', '--max_batch_size=32')
  assert done.returncode == 0, done.stderr
  assert f'docker run --rm -p 8500:8500 -p 8501:8501 -v {served}:{served}:ro' in done.stdout
  assert 'tensorflow_model_server --port=8500' in done.stdout
  assert done.stdout.count('--enable_per_model_batching_parameters=true') == 2
  assert 'name: "terms_online"' in (served / 'serving' / 'models.config').read_text()
  done = run(f'--export_dir={tmp_path}')
  assert (done.returncode, 'no export there' in done.stderr) == (2, True)
  with pytest.raises(InputError, match="an archive has no SavedModels; a run's export has"):
    config.write(ServingConfig(export_dir='pretrained/medquad.tar.gz'))
  with pytest.raises(InputError, match='--export_dir is needed'):
    config.write(ServingConfig())
  with pytest.raises(InputError, match='--export_dir=hf://a/b: a folder of this machine is needed'):
    config.write(ServingConfig(export_dir='hf://a/b'))
  with pytest.raises(InputError, match='--name=my run: letters of ASCII, digits, _, . and -'):
    config.write(ServingConfig(export_dir=str(served), name='my run'))


def test_without_the_protocol_buffers_nothing_is_written(exported, tmp_path, monkeypatch):
  folder = tmp_path / 'export'
  shutil.copytree(exported[0], folder)
  before = sorted(folder.rglob('*'))
  monkeypatch.setitem(sys.modules, 'tensorflow_serving.apis', None)
  with pytest.raises(
    InputError, match=r"tensorflow_serving is not installed: pip install 'dipair\[serving\]'"
  ):
    config.write(ServingConfig(export_dir=str(folder)))
  assert sorted(folder.rglob('*')) == before
