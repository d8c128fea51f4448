"""Pretrains a BERT on texts: `python -m common.pretrain --flagfile=configs/pretrain.flags`."""

import os
from typing import Any

from common import files, flags
from common.distillation import results
from common.distillation.run_folder import RunFolder
from common.errors import InputError
from common.evaluation import cells, report
from common.pretrain import stages
from common.pretrain.config import PretrainConfig
from common.pretrain.language_model import LOSS
from common.training import strategies


def main(config: PretrainConfig) -> None:
  """Runs what is missing of a pretraining and writes its results and report."""
  if not config.run_dir:
    raise InputError('--run_dir is needed: the folder of the run')
  strategy = strategies.create(config.devices)  # before anything else runs on the devices
  stages.check(config)
  folder = RunFolder(config.run_dir, config, 'common.pretrain', config.redo)
  corpus = stages.Corpus(config)
  vocabulary = stages.Vocabulary(config, corpus)
  pieces = stages.Tokenization(config, corpus, vocabulary)
  training = stages.Training(config, pieces, strategy)
  checkpoint = stages.Checkpoint(config, training)
  for stage in (corpus, vocabulary, pieces, training, checkpoint):
    stage.declare(folder)
  folder.make()
  texts, words, tokenized, trained, written = (stage.result for stage in folder.stages)
  collected = collect(config, trained.phases, written)
  collected['corpus'] = {
    'documents': texts.documents,
    'repeated documents': texts.repeated,
    'held out': texts.held_out,
    'passages': texts.passages,
    'word pieces': tokenized.pieces,
    'share of unknown pieces': tokenized.unknown,
    'vocabulary': words.pieces,
  }
  report.write_report(collected, {}, folder.file('report.html'))
  files.write_json(folder.file('results.json'), results.finite(collected))
  print(report.summary_table(collected))
  held_out = collected['models'][-1]['valid']
  print('held out:', ', '.join(f'{cells.label(n)} {v:.4f}' for n, v in held_out.items()))
  print(f'report: {folder.file("report.html")}')
  print(f'--pretrained={checkpoint.folder} takes it')


def collect(
  config: PretrainConfig, phases: list[dict[str, Any]], written: stages.Written
) -> dict[str, Any]:
  """The results of a pretraining, as in `results.json`, without its corpus."""
  renamed = {'tuples_per_second': 'sequences_per_second'}
  phases = [{renamed.get(name, name): value for name, value in of.items()} for of in phases]
  start = phases[0]['history'][0]['valid']
  return {
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
  }


if __name__ == '__main__':
  flags.command(main, PretrainConfig)
