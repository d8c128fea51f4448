"""Texts encoded a second: an export's encoder on real texts, and plain tf-models beside it.

  python -m benchmarks.encoding --run_dir=runs/homedepot \\
    --output=benchmarks/results/homedepot_encoding.json

Both have the student's layers and widths. The export tokenizes, sorts by length and keeps the first
rows alone; the plain encoder is given ids, padded to the student's greatest length.
"""

import dataclasses
import os
import sys

import tensorflow as tf
from absl import flags as absl_flags

from benchmarks.finished_run import FinishedRun
from common import flags
from common.data import records
from common.evaluation import benchmark
from common.modeling import encoders
from dipair import model as models
from dipair.scorer import Scorer


@dataclasses.dataclass(frozen=True)
class EncodingConfig:
  """Of what."""

  run_dir: str = flags.option('', 'a finished run of dipair.run')
  texts: int = flags.option(2048, 'distinct texts of its test set, right side')
  output: str = flags.option('', 'JSON file of the figures')


def main(config: EncodingConfig) -> None:
  """Measures, prints, writes."""
  run = FinishedRun(config.run_dir)
  scorer = Scorer.load(run.path('export'))
  examples = records.read(run.path('data/test'))
  texts = list(dict.fromkeys(example.texts[1] for example in examples))[: config.texts]
  student, _ = models.load(run.path('student'))
  encoder, length = encoders.build(student.encoder_config), student.max_lengths[1]
  ids = tf.random.uniform([128, length], 1, student.encoder_config.vocab_size, tf.int32, seed=0)
  inputs = {
    'input_word_ids': ids,
    'input_mask': tf.ones_like(ids),
    'input_type_ids': tf.zeros_like(ids),
  }
  plain = tf.function(lambda: encoder(inputs, training=False)['sequence_output'])
  contenders = [
    benchmark.Contender(f'tf-models, {length} tokens', lambda: plain().numpy(), 128),
    benchmark.Contender('export', lambda: scorer.encode(texts, 'right'), len(texts)),
  ]
  rows = benchmark.rates(contenders)
  base = rows[0]['pairs_per_second']
  for row in rows:
    row['texts_per_second'] = row.pop('pairs_per_second')
    row['ratio'] = row['texts_per_second'] / base
    print(f'{row["name"]}: {row["texts_per_second"]:,.0f} texts/s, {row["ratio"]:.2f}x')
  if config.output:
    os.makedirs(os.path.dirname(config.output) or '.', exist_ok=True)
    run.write(config.output, 'encoding', config, rows)


if __name__ == '__main__':
  flags.define(EncodingConfig)
  absl_flags.adopt_module_key_flags(sys.modules['common.flags'])
  flags.run(main, EncodingConfig)
