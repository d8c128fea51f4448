"""Pretrains a BERT on texts: `python -m common.pretrain --flagfile=configs/pretrain.flags`."""

import os

from common import files, flags
from common.distillation import results
from common.distillation.run_folder import RunFolder
from common.errors import InputError
from common.evaluation import cells, report
from common.pretrain.config import PretrainConfig
from common.pretrain.language_model import LOSS
from common.pretrain.stages import Pretraining
from common.training import strategies


def main(config: PretrainConfig) -> None:
  """Runs what is missing of a pretraining and writes its results and report."""
  if not config.run_dir:
    raise InputError('--run_dir is needed: the folder of the run')
  strategy = strategies.create(config.devices)  # before anything else runs on the devices
  run = RunFolder(config.run_dir, config, 'common.pretrain', config.redo)
  work = Pretraining(config, strategy, run)
  run.make()
  texts, pieces, written = work.corpus.result, work.pieces.result, work.checkpoint.result
  phases = work.training.result.phases
  for phase in phases:
    phase['sequences_per_second'] = phase.pop('tuples_per_second')
  start = phases[0]['history'][0]['valid']
  collected = {
    'title': f'BERT on {config.title or os.path.basename(os.path.normpath(config.run_dir))}',
    'student': 'bert',
    'task': 'masked language model',
    'primary_metric': LOSS,
    'unit': 'sequences',
    'commit': results.commit(),
    'command': flags.command_line('common.pretrain', flags.changed(config)),
    'environment': results.environment(),
    'flags': flags.kept(config),
    'models': [{'name': 'start', 'valid': start}, {'name': 'checkpoint', 'valid': written.valid}],
    'training': phases,
    'export': {'parameters': written.parameters},
    'corpus': {
      'documents': texts.documents,
      'repeated documents': texts.repeated,
      'held out': texts.held_out,
      'passages': texts.passages,
      'word pieces': pieces.pieces,
      'share of unknown pieces': pieces.unknown,
      'vocabulary': work.vocabulary.result.pieces,
    },
  }
  report.write_report(collected, {}, run.file('report.html'))
  files.write_json(run.file('results.json'), results.finite(collected))
  print(report.summary_table(collected))
  print('held out:', ', '.join(f'{cells.label(n)} {v:.4f}' for n, v in written.valid.items()))
  print(f'report: {run.file("report.html")}')
  print(f'--pretrained={work.checkpoint.folder} takes it')


if __name__ == '__main__':
  flags.command(main, PretrainConfig)
