"""Programs of other projects that call this one, each in an environment of its own.

  python -m benchmarks.clients --output=benchmarks/results/clients.json

It makes an environment for each client, of the client's requirements and this project's wheel, and
one for the server, of the wheel with `[serve]`. None has TensorFlow. A client's check is
`check_CLIENT.py`, which compares scores with the export's own.
"""

import csv
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from typing import Any

from tqdm import tqdm

import dipair
from benchmarks import committed, tables
from benchmarks.servers import server
from common import flags
from common.errors import InputError
from common.files import write_json

_HERE = os.path.dirname(os.path.abspath(__file__))
_EXAMPLES = os.path.join(committed.ROOT, 'examples')
_CLIENTS = ('cohere', 'langchain', 'haystack', 'sentence_transformers')
_QUERY = 'what causes gout'
_TOLERANCE = 0.02  # the server keeps vectors in int8


@dataclasses.dataclass(frozen=True)
class ClientsConfig:
  """The model that the clients call."""

  export: str = flags.option('medquad', "a run's export, an archive of one, or medquad")
  output: str = flags.option('', 'JSON file of what was checked')


def main(config: ClientsConfig) -> None:
  """Makes the environments, runs the checks, prints, writes."""
  clients = {}
  with tempfile.TemporaryDirectory() as folder:
    wheel = _wheel(folder)
    given = _given(config.export)
    key = os.path.join(folder, 'key')
    with open(key, 'w', encoding='utf-8') as file:
      file.write('secret\n')
    python = _environment(folder, 'server', f'{wheel}[serve]')
    args = ['--port=0', f'--export={config.export}', f'--api_key_file={key}']
    with server('common.rerank_server', r'(http://\S+)', *args, python=python) as (_, address):
      path = os.path.join(folder, 'given.json')
      write_json(path, {**given, 'url': address[1]})
      for name in (bar := tqdm(_CLIENTS, unit=' clients')):
        bar.set_postfix_str(name)
        python = _environment(folder, name, wheel, '-r', os.path.join(_HERE, f'{name}.txt'))
        clients[name] = run(python, f'check_{name}', path)
  made = {'clients': clients}
  print(tables.clients(made))
  if config.output:
    committed.write(config.output, 'benchmarks.clients', config, **made)


def run(python: str, check: str, given: str) -> dict[str, Any]:
  """Runs a check in an environment; returns its packages' versions, and what it checked.

  Raises:
    InputError: If the check fails.
  """
  environment = {**os.environ, 'PYTHONPATH': _EXAMPLES, 'HF_HUB_OFFLINE': '1'}
  command = [python, os.path.join(_HERE, 'run.py'), check, given]
  done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
  if done.returncode:
    raise InputError(f'{check}: {done.stderr.strip().splitlines()[-1]}')
  return json.loads(done.stdout.splitlines()[-1])


def _given(export: str) -> dict[str, Any]:
  """A query, documents, and their scores by the export itself."""
  with open(os.path.join(_EXAMPLES, 'answers.tsv'), encoding='utf-8') as file:
    documents = [row['text'] for row in csv.DictReader(file, delimiter='\t')]
  scorer = dipair.Scorer.load(export, 'litert-int8', encoder_runtime='litert-int8')
  scores = dict(scorer.rank(_QUERY, documents, len(documents)))
  in_order = [scores[row] for row in range(len(documents))]
  told = {'query': _QUERY, 'documents': documents, 'scores': in_order, 'tolerance': _TOLERANCE}
  return {'export': export if export == 'medquad' else os.path.abspath(export), **told}


def _wheel(folder: str) -> str:
  """The project's wheel, made of its source distribution: a build folder may hold old files."""
  setup = ['setup.py', '-q', 'egg_info', f'--egg-base={folder}', 'sdist', f'--dist-dir={folder}']
  subprocess.run([sys.executable, *setup], cwd=committed.ROOT, check=True)
  (source,) = (name for name in os.listdir(folder) if name.endswith('.tar.gz'))
  pip = ['-m', 'pip', 'wheel', '-q', '--no-deps', f'--wheel-dir={folder}']
  subprocess.run([sys.executable, *pip, os.path.join(folder, source)], check=True)
  (wheel,) = (name for name in os.listdir(folder) if name.endswith('.whl'))
  return os.path.join(folder, wheel)


def _environment(folder: str, name: str, *requirements: str) -> str:
  """Makes an environment; returns its Python."""
  home = os.path.join(folder, name)
  subprocess.run([sys.executable, '-m', 'venv', home], check=True)
  python = os.path.join(home, 'bin', 'python')
  subprocess.run([python, '-m', 'pip', 'install', '-q', *requirements], check=True)
  return python


if __name__ == '__main__':
  flags.command(main, ClientsConfig)
