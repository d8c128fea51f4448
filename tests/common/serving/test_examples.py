"""examples/serving: valid files that start what the configuration names; the client, run."""

import re
import runpy
import shlex
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import kubernetes_validate
import pytest
import tensorflow as tf
import yaml
from google.protobuf import text_format
from tensorflow_serving.config import model_server_config_pb2

import common
from common.local_server.__main__ import ServerConfig, serving
from common.serving import config
from common.serving.config import ServingConfig
from tests import limits

EXAMPLES = Path(common.__file__).parents[1] / 'examples' / 'serving'
COMPOSE = EXAMPLES / 'docker-compose.yml'


@pytest.fixture(name='folder', scope='module')
def _folder(export, tmp_path_factory):
  """A configured export: p2t/export."""
  folder = tmp_path_factory.mktemp('runs') / 'p2t' / 'export'
  shutil.copytree(export('dipair').folder, folder)
  config.write(ServingConfig(export_dir=str(folder)))
  return folder


@pytest.fixture(name='options')
def _options(folder):
  """What the README's `docker run` gives the server, with as many threads as batch at a time."""
  readme = (folder / 'serving' / 'README.md').read_text('utf-8')
  command = re.search(r'docker run .+?(?=\n```)', readme, re.DOTALL)[0]
  before, options = command.replace('\\\n', '').split(' tensorflow/serving:2.20.0 ')
  assert before == f'docker run --rm -p 8500:8500 -p 8501:8501 -v {folder}:{folder}:ro'
  threads = re.search(
    r'^num_batch_threads { value: (\d+) }', (folder / 'serving/batching.config').read_text(), re.M
  )[1]
  return [*shlex.split(options), f'--tensorflow_session_parallelism={threads}']


@pytest.fixture(name='service')
def _service(folder):
  """The only service of the compose file, its variables replaced."""
  values = {'EXPORT_DIR': str(folder), 'EXPORT_NAME': 'p2t'}
  text = re.sub(
    r'\$\{(\w+)(:\?[^}]+)?}', lambda found: values[found[1]], COMPOSE.read_text('utf-8')
  )
  (service,) = yaml.safe_load(text)['services'].values()
  return service


@pytest.fixture(name='manifests')
def _manifests(folder):
  """The manifests by kind, with the export's own folder."""
  text = (EXAMPLES / 'kubernetes.yaml').read_text('utf-8').replace('/runs/p2t/export', str(folder))
  return {manifest['kind']: manifest for manifest in yaml.safe_load_all(text)}


def release(image):
  name, tag = image.split(':')
  assert name == 'tensorflow/serving'
  return tag.split('.')[:2]


def test_the_compose_file_starts_the_server_as_the_readme_does(folder, options, service):
  check = ['-m', 'check_jsonschema', '--builtin-schema', 'vendor.compose-spec', str(COMPOSE)]
  done = subprocess.run([sys.executable, *check], capture_output=True, text=True)
  assert done.returncode == 0, done.stdout + done.stderr
  assert service['command'] == options
  assert service['ports'] == ['8500:8500', '8501:8501']
  export = {'type': 'bind', 'source': str(folder), 'target': str(folder), 'read_only': True}
  assert service['volumes'] == [export]
  assert release(service['image']) == tf.__version__.split('.')[:2]
  assert options[-1].endswith(f'={service["cpus"]}')


def test_the_manifests_start_the_server_as_the_readme_does(folder, options, service, manifests):
  for manifest in manifests.values():
    kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)
  assert set(manifests) == {'Deployment', 'Service', 'HorizontalPodAutoscaler'}
  deployment = manifests['Deployment']
  pod = deployment['spec']['template']
  (container,) = pod['spec']['containers']
  assert container['args'] == options
  assert container['image'] == service['image']
  ports = {port['name']: port['containerPort'] for port in container['ports']}
  assert ports == {'grpc': 8500, 'rest': 8501}
  (mount,), (volume,) = container['volumeMounts'], pod['spec']['volumes']
  assert mount == {'name': volume['name'], 'mountPath': str(folder), 'readOnly': True}
  assert options[-1].endswith(f'={container["resources"]["limits"]["cpu"]}')
  # What finds the pods, and the deployment.
  found = manifests['Service']['spec']
  assert [(p['port'], ports[p['targetPort']]) for p in found['ports']] == [(8500,) * 2, (8501,) * 2]
  labels = pod['metadata']['labels']
  assert found['selector'] == deployment['spec']['selector']['matchLabels'] == labels
  target = manifests['HorizontalPodAutoscaler']['spec']['scaleTargetRef']
  assert (target['kind'], target['name']) == ('Deployment', deployment['metadata']['name'])


@pytest.fixture(name='ports', scope='module')
def _ports(folder):
  """Ports of gRPC and REST of a local server that reads the configuration."""
  models = str(folder / 'serving' / 'models.config')
  with serving(ServerConfig(model_config_file=models, port=0, rest_api_port=0)) as ports:
    yield ports


def test_the_healthcheck_and_the_probes_ask_for_a_model_that_is_served(
  folder, ports, service, manifests
):
  kind, *check = service['healthcheck']['test']
  assert kind == 'CMD'

  def healthy(**changes):
    command = [part.replace('8501', str(ports[1])) for part in check]
    for old, new in changes.items():
      command = [part.replace(old, new) for part in command]
    return subprocess.run(command, capture_output=True, timeout=limits.ANSWER).returncode == 0

  assert healthy()
  assert not healthy(p2t_head='another')
  assert not healthy(AVAILABLE='LOADING')
  (container,) = manifests['Deployment']['spec']['template']['spec']['containers']
  text = (folder / 'serving' / 'models.config').read_text('utf-8')
  models = text_format.Parse(text, model_server_config_pb2.ModelServerConfig())
  paths = [f'/v1/models/{model.name}' for model in models.model_config_list.config]
  for probe in ('startupProbe', 'readinessProbe', 'livenessProbe'):
    get = container[probe]['httpGet']
    assert get['port'] == 'rest' and get['path'] in paths
    with urllib.request.urlopen(
      f'http://localhost:{ports[1]}{get["path"]}', timeout=limits.ANSWER
    ) as answer:
      assert answer.status == 200


def test_the_client_ranks_as_the_scorer_does(folder, ports, load, monkeypatch, capsys):
  monkeypatch.setattr(sys, 'argv', ['client.py', f'localhost:{ports[0]}', 'p2t', 'wide red'])
  names = runpy.run_path(str(EXAMPLES / 'client.py'), run_name='__main__')
  printed = [line.split('  ') for line in capsys.readouterr().out.splitlines()]
  ranked = load(str(folder)).rank('wide red', list(names['TITLES']))
  assert [title for _, title in printed] == [names['TITLES'][row] for row, _ in ranked]
  scores = [float(score) for score, _ in printed]
  assert scores == pytest.approx([score for _, score in ranked], abs=6e-4)
