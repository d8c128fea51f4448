"""Pretrains a BERT on texts: `python -m common.pretrain --flagfile=configs/pretrain.flags`."""

from common import flags
from common.pretrain.config import PretrainConfig
from common.pretrain.run import run as main

if __name__ == '__main__':
  flags.command(main, PretrainConfig)
