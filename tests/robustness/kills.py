"""Commands killed before a step that writes, and run again: their files beside an unbroken run's.

  python -m tests.robustness.kills --output=benchmarks/results/kills.json

A step opens a file to write, renames, removes, syncs, or makes a folder. Each toy command is killed
before one of its steps, every other time by SIGTERM, in a process of its own. The same command must
then end with the same files: weights, records and scores are equal bit by bit. A command that
refuses to do whole work twice must find it so.
"""

import dataclasses
import importlib
import os
import shutil
import signal
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl.flags import FLAGS

os.environ.setdefault('TF_ENABLE_ONEDNN_OPTS', '0')  # as tests/conftest.py has it, of toy shapes

from benchmarks import committed
from common import flags
from common.errors import InputError
from tests.robustness import contents, killed

_ROWS = 48
_TINY = '--pretrained=random-tiny --encoder_layers=1 --max_lengths=16,16'
_DATA = (
  '--catalog_sizes=48,16,16,96 --text_columns=term,product --pairing_pretrained=random-tiny '
  '--distillation_pairs=64'
)
_TEACHER = (
  '--teacher_pretrained=random-tiny --teacher_max_length=32 --teacher_batch_size=8 '
  '--teacher_similarity= '
  '--teacher_steps=4 --teacher_warmup_steps=1 --teacher_eval_every=2'
)
_DIPAIR = (
  f'{_TINY} --output_tokens=2,3 --projection_dim=8 --head_inner_dim=16 --stage1_batch_size=8 '
  '--stage1_steps=4 --stage1_warmup_steps=1 --stage1_eval_every=2 --stage2_batch_size=16 '
  '--stage2_steps=2 --stage2_warmup_steps=1 --stage2_eval_every=1'
)
_DSE = (
  '--pretrained=random-tiny --encoder_layers=0 --pooled_layers=2 --max_lengths=16,16 '
  '--batch_size=8 --similarity_dim=8 --steps=4 --eval_every=2 --frozen_batch_size=8 '
  '--frozen_steps=4 --frozen_eval_every=2 --variants=distilled,labels,frozen --distillation_pairs=0'
)
_PRETRAIN = (
  '--catalog_sizes=60,1,1,1024 --held_out=30 --vocab_size=300 --hidden_size=16 --attention_heads=2 '
  '--encoder_layers=1 --max_length=32 --batch_size=8 --steps=4 --warmup_steps=1 --eval_every=2'
)
_MINE = (
  '--mine_from={0}/questions --embedder={0}/run/export --negative_quantile=0.9 '
  '--split_shares=0.5,0.25,0.25 --negatives_from=10 --transfer_per_query=5 --transfer_pairs=0'
)
_FILES = '--input={0}/pairs.tsv --unit_bytes=300 --output={1}'
_STORE = """
import os, sys
from common import termination
from dipair import Scorer
termination.expect()
scorer = Scorer.load(sys.argv[1], encoder_runtime='litert-int8')
begun = os.path.exists(f'{sys.argv[2]}/manifest.json')
for number in (2,) if begun else (1, 2):  # the second call replaces texts of the first
  rows = ((str(i), f'thing {i * number}') for i in range(12 * number))
  scorer.encode_to(sys.argv[2], rows, 'right', shard_size=5, replace=True)
"""
# A command's module (or lines of code) and flags; {0} is a folder of inputs, {1} the output's.
SUBJECTS: dict[str, tuple[str, str]] = {
  'dipair': ('dipair.run', f'{_DATA} {_TEACHER} {_DIPAIR} --run_dir={{1}}'),
  'dse': ('dse.run', f'{_DATA} {_TEACHER} {_DSE} --run_dir={{1}}'),
  'mine': ('dipair.mine', f'{_MINE} --run_dir={{1}}'),
  'pretrain': ('common.pretrain', f'{_PRETRAIN} --run_dir={{1}}'),
  'study': ('experiments.study', '--figures=3a --rounds=1 --run_dir={0}/run'),
  'annotate': ('common.pipelines.annotate', f'--teacher={{0}}/run/teacher --id_column=id {_FILES}'),
  'encode': (
    'common.pipelines.encode',
    f'--export_dir={{0}}/run/export --text_column=right --threads=1 {_FILES}',
  ),
  'score': ('common.pipelines.score', f'--export_dir={{0}}/run/export --threads=1 {_FILES}'),
  'store': (_STORE, '{0}/run/export {1}'),
}
_WHOLE = ' already; name another'
_OUTPUTS = {'study': 'inputs/run/study'}  # where it is not a folder of the subject's name
_OF_A_RUN = {'mine', 'study', 'annotate', 'encode', 'score', 'store'}


@dataclasses.dataclass(frozen=True)
class KillsConfig:
  """Commands to kill, and how often."""

  subjects: tuple[str, ...] = flags.option(tuple(SUBJECTS), 'commands to kill')
  kills: int = flags.option(
    10, 'kills of each, spread over its steps; 0: one before every step', bounds=(0, 10**6)
  )
  output: str = flags.option('', 'JSON file of the figures')

  def __post_init__(self):
    if unknown := set(self.subjects) - SUBJECTS.keys():
      raise InputError(f'--subjects={",".join(sorted(unknown))}: of {", ".join(SUBJECTS)}')


def main(config: KillsConfig) -> None:
  """Kills, prints, writes."""
  FLAGS.remove_flag_values(flags.flat(config))  # forks define theirs
  with tempfile.TemporaryDirectory() as folder:
    inputs = os.path.join(folder, 'inputs')
    _write_inputs(inputs)
    if _OF_A_RUN & set(config.subjects):
      _finish(*_command('dipair', inputs, run := os.path.join(inputs, 'run')), run)
    found = {}
    for name in config.subjects:
      output = os.path.join(folder, _OUTPUTS.get(name, name))
      found[name] = kills(*_command(name, inputs, output), output, config.kills)
  done = [kill for of in found.values() for kill in of['kills']]
  equal = sum(not kill['wrong'] for kill in done)
  print(f'{len(done)} kills, {equal} ended as an unbroken run')
  if config.output:
    figures = {'kills': len(done), 'equal': equal, 'subjects': found}
    committed.write(config.output, 'tests.robustness.kills', config, **figures)


def kills(program: str, arguments: Sequence[str], output: str, count: int) -> dict[str, Any]:
  """Kills a program before so many of its steps, one at a time, and runs it again.

  Args:
    program: As of `killed.fork`, likewise the next.
    arguments: What follows it.
    output: The folder that it writes, made anew each time.
    count: Kills, spread over the steps; 0: one before every step.

  Returns:
    {'steps': of an unbroken run, 'kills': [{'step', 'signal', 'status', 'wrong': differences}]}.
  """
  shutil.rmtree(output, ignore_errors=True)
  _finish(program, arguments, output)
  expected, steps = contents.of(output), len(killed.steps(output))
  found = []
  places = np.linspace(1, steps, min(count or steps, steps)).round().astype(int)
  for turn, at in enumerate(places):
    shutil.rmtree(output, ignore_errors=True)
    number = (signal.SIGKILL, signal.SIGTERM)[turn % 2]
    status = _ended(killed.fork(program, arguments, output, at, number))
    step = killed.steps(output)[:at][-1]
    wrong = [] if status in (-signal.SIGKILL, 128 + signal.SIGTERM) else [f'status {status}']
    refused = []
    try:
      _finish(program, arguments, output)
    except RuntimeError as error:
      refused.append(str(error))
    there = contents.of(output)
    differ = sorted(p for p in there.keys() | expected.keys() if there.get(p) != expected.get(p))
    if differ or not all(_WHOLE in said for said in refused):  # some refuse what is whole already
      wrong += refused + differ
    kill = {'step': step, 'signal': number.name, 'status': status}
    found.append({**kill, 'wrong': wrong})
    print(f'{at} of {steps}:', *kill.values(), *(wrong or ['equal']), flush=True)
  return {'steps': steps, 'kills': found}


def _command(name: str, inputs: str, output: str) -> tuple[str, list[str]]:
  program, arguments = SUBJECTS[name]
  print(f'{name}:', flush=True)
  return program, arguments.format(inputs, output).split()


def _finish(program: str, arguments: Sequence[str], output: str) -> None:
  """Runs a program to its end; raises RuntimeError with its output if it fails."""
  if '\n' not in program:
    importlib.import_module(program)  # once for all forks
  if status := _ended(killed.fork(program, arguments, output)):
    with open(f'{output}.said', encoding='utf-8') as file:
      raise RuntimeError(f'status {status}: {file.read()[-3000:]}')


def _ended(process: int) -> int:
  return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def _write_inputs(folder: str) -> None:
  """A table of pairs, and one of questions with their answers."""
  rows = [f'{i}\tterm {i}\tthing {i % 5}\t{i % 2}' for i in range(_ROWS)]
  questions = [
    f'What are the {aspect} of {topic}?\tThe {aspect} of {topic} are many.'
    for topic in ('gout', 'asthma', 'measles', 'a stroke', 'acne', 'a cold')
    for aspect in ('symptoms', 'causes', 'treatments', 'history', 'genetics')
  ]
  os.makedirs(os.path.join(folder, 'questions'))
  for name, lines in (
    ('pairs.tsv', ['id\tleft\tright\tlabel', *rows]),
    ('questions/qa.tsv', ['question\tanswer', *questions]),
  ):
    with open(os.path.join(folder, name), 'w', encoding='utf-8') as file:
      file.write('\n'.join(lines) + '\n')


if __name__ == '__main__':
  flags.command(main, KillsConfig)
