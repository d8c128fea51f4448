"""The commands by short names, once installed: `dipair run …` is `python -m dipair.run …`."""

import os
import sys

from common import __version__
from common.errors import InputError, refuse

_SHARED = {
  'pretrain': 'common.pretrain',
  'rerank': 'common.rerank',
  'evaluate': 'common.evaluate',
  'verify': 'common.verify',
  'serve': 'common.rerank_server',
  'local-server': 'common.local_server',
  'serving-config': 'common.serving.config',
  'annotate': 'common.pipelines.annotate',
  'encode': 'common.pipelines.encode',
  'score': 'common.pipelines.score',
  'export-onnx': 'common.export.onnx_export',
}
COMMANDS = {  # by program and name, the module
  'dipair': {
    **{name: f'dipair.{name}' for name in ('run', 'mine', 'release')},
    **_SHARED,
  },
  'dse': {**{name: f'dse.{name}' for name in ('run', 'export')}, **_SHARED},
}


def dipair() -> None:
  """The program `dipair`."""
  _run('dipair', sys.argv[1:])


def dse() -> None:
  """The program `dse`."""
  _run('dse', sys.argv[1:])


def _run(program: str, arguments: list[str]) -> None:
  """Becomes the command's process, like `python -m`, but without the working folder's modules."""
  commands = COMMANDS[program]
  if not arguments or arguments[0] in ('-h', '-help', '--help'):
    lines = (f'  {program} {name:<16} python -m {module}' for name, module in commands.items())
    print(
      f'{program} COMMAND --flag=value …; each explains its flags by --help\n', *lines, sep='\n'
    )
    return
  if arguments[0] == '--version':
    print(program, __version__)
    return
  name, *rest = arguments
  if name not in commands:
    refuse(InputError(f'{program} {name}: no such command; one of {", ".join(commands)}'))
  os.execv(sys.executable, [sys.executable, '-P', '-m', commands[name], *rest])
