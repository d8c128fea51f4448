"""A finished run of a toy student, by its files: nothing is trained for it."""

import os

from common import flags
from common.files import write_json
from dipair.run import RunConfig
from experiments.finished_run import FinishedRun
from tests.conftest import TINY, write_distill

_SHORT = {
  f'{stage}_{name}': value
  for stage in ('stage1', 'stage2')
  for name, value in (('steps', 2), ('batch_size', 20), ('warmup_steps', 1), ('eval_every', 2))
}


def finish(folder, model=None, tokenizer=None, **changes):
  """The finished run of a tiny student of DiPair, whose sets hold the teacher's logits."""
  of_teacher = {
    'teacher_pretrained': 'random-tiny',
    'teacher_max_length': 24,
    'teacher_similarity': '',
  }
  settled = {'alpha': 1.0, 'head': 'transformer', 'precision': 'float32'}
  tiny = {**TINY['dipair'], **of_teacher, **_SHORT, **settled, 'seed': 3, **changes}
  about = {'title': 'toys', 'primary_metric': 'pearson', 'task': 'regression', 'command': 'c'}
  phases = [{'name': name, 'pairs_per_second': 20.0} for name in ('stage 1', 'teacher')]
  for name in ('distill', 'data/valid', 'data/test'):
    write_distill(f'{folder}/{name}')
  os.makedirs(f'{folder}/student', exist_ok=True)
  if model:
    model.save(f'{folder}/student', tokenizer)
  for name in ('distill', 'student'):
    write_json(f'{folder}/{name}/stage.json', {'fingerprint': '1', 'after': {}})
  made = {'flags': {**flags.flat(RunConfig()), **tiny}, 'training': phases, 'commit': '1'}
  write_json(f'{folder}/results.json', {'student': 'dipair', **about, **made})
  return FinishedRun(str(folder))
