"""A process that scores without TensorFlow: seconds to each step, memory, bytes installed.

  python3 -m venv LIGHT && LIGHT/bin/pip install .
  python -m benchmarks.light --python=LIGHT/bin/python --output=benchmarks/results/light.json

Each round is a new process: Python's own start is in none of the steps.
"""

import dataclasses
import json
import os
import statistics
import subprocess
import tempfile

from benchmarks import committed, tables
from common import flags
from common.errors import InputError

_STEPS = """
import json, sys, time
times = [time.perf_counter()]
import dipair
times.append(time.perf_counter())
scorer = dipair.Scorer.load('medquad')
times.append(time.perf_counter())
scorer.score(['black shoes'], ['a pair of black leather shoes for men'])
times.append(time.perf_counter())
steps = [after - before for before, after in zip(times, times[1:])]
assert not any(name.split('.')[0] == 'tensorflow' for name in sys.modules)
peak = next(line for line in open('/proc/self/status') if line.startswith('VmHWM'))
found = dict(zip(('import', 'load', 'score'), steps), peak_memory=1024 * int(peak.split()[1]))
print(json.dumps(found))
"""


@dataclasses.dataclass(frozen=True)
class LightConfig:
  """The environment that scores."""

  python: str = flags.option('', 'the python of a light environment')
  rounds: int = flags.option(9, 'processes, of which the median is taken', bounds=(1, 1000))
  output: str = flags.option('', 'JSON file of the figures')


def main(config: LightConfig) -> None:
  """Measures, prints, writes."""
  if not os.path.exists(config.python):
    raise InputError(f'--python={config.python}: not there')
  python = os.path.abspath(config.python)
  rounds = [_round(python) for _ in range(config.rounds)]
  found = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
  found['installed'] = _installed(os.path.dirname(os.path.dirname(python)))
  print(tables.light(found))
  if config.output:
    committed.write(config.output, 'benchmarks.light', config, **found)


def _round(python: str) -> dict[str, float]:
  with tempfile.TemporaryDirectory() as elsewhere:  # what is imported is what is installed
    environment = {k: v for k, v in os.environ.items() if k != 'PYTHONPATH'}
    command = [python, '-c', _STEPS]
    done = subprocess.run(
      command, cwd=elsewhere, env=environment, capture_output=True, text=True, check=False
    )
  if done.returncode:
    raise InputError(f'--python={python}: {done.stderr.strip().splitlines()[-1]}')
  return json.loads(done.stdout)


def _installed(environment: str) -> int:
  """Bytes of the environment's files, pip and all."""
  return sum(
    os.lstat(os.path.join(base, name)).st_size
    for base, _, names in os.walk(environment)
    for name in names
  )


if __name__ == '__main__':
  flags.command(main, LightConfig)
