"""Provenance of a measurement: machine, versions, commit."""

import os
import platform
import subprocess
from typing import Any

from common import __version__


def commit() -> str:
  """The repository's commit, with -dirty where files differ from it; empty outside a repository."""
  root, own = os.path.split(os.path.abspath(__file__))
  described = ''
  for command in (
    [
      'ls-files',
      '--error-unmatch',
      own,
    ],  # else the repository is another's, with this installed in it
    ['describe', '--always', '--dirty', '--abbrev=10'],
  ):
    done = subprocess.run(
      ['git', '-C', root, *command], capture_output=True, text=True, check=False
    )
    if done.returncode:
      return ''
    described = done.stdout.strip()
  return described


def environment() -> dict[str, Any]:
  """The machine and the versions that a result was measured with."""
  import psutil  # a scorer's environment may lack them
  import tensorflow as tf

  from common.distillation import run_log

  return {
    'dipair': __version__,
    'python': platform.python_version(),
    'tensorflow': tf.__version__,
    'cpu': _cpu(),
    'cores': os.cpu_count(),
    'memory_gb': round(psutil.virtual_memory().total / 1e9, 1),
    'accelerators': ', '.join(_accelerators()) or 'none',
    'peak_memory_gb': round(run_log.peak_memory() / 1e9, 2),
  }


def _accelerators() -> list[str]:
  import tensorflow as tf

  devices = [one for one in tf.config.list_physical_devices() if one.device_type != 'CPU']
  details = [tf.config.experimental.get_device_details(one) for one in devices]
  return [of.get('device_name', one.device_type) for one, of in zip(devices, details, strict=True)]


def _cpu() -> str:
  try:
    with open('/proc/cpuinfo', encoding='utf-8') as file:
      return next(line.split(':')[1].strip() for line in file if line.startswith('model name'))
  except (OSError, StopIteration):
    return platform.processor()
