"""Texts encoded a second: an export's encoder on real texts, and plain tf-models beside it.

  python -m benchmarks.encoding --run_dir=runs/p2t --stored_texts=1000000 \\
    --output=benchmarks/results/p2t_encoding.json

Both have the student's layers and widths. The export tokenizes, sorts by length and keeps the
first rows alone; the plain encoder is given ids, padded to the student's greatest length. Then a
vector store is written of as many left texts as asked for: the run's own, over and over, each with
a number.
"""

import dataclasses
import os
import tempfile
import time
from typing import Any

import tensorflow as tf

from benchmarks import committed, tables
from common import flags
from common.data.records import RecordSet
from common.distillation.run_log import peak_memory
from common.evaluation import benchmark
from common.modeling import bert_network
from dipair.scorer import Scorer
from dipair.student import DiPair
from experiments.finished_run import FinishedRun


@dataclasses.dataclass(frozen=True)
class EncodingConfig:
  """The finished run to measure, and the number of its texts."""

  run_dir: str = flags.option('', 'a finished run of dipair.run')
  texts: int = flags.option(2048, 'distinct texts of its test set, right side', bounds=(1, 10**9))
  stored_texts: int = flags.option(
    0, 'texts of the vector store that is written', bounds=(0, 10**9)
  )
  output: str = flags.option('', 'JSON file of the figures')


def main(config: EncodingConfig) -> None:
  """Measures, prints, writes."""
  run = FinishedRun(config.run_dir)
  with tempfile.TemporaryDirectory() as folder:
    scorer = Scorer.load(run.export(folder))
  test = RecordSet(run.path('data/test')).texts()
  lefts, rights = (list(dict.fromkeys(column)) for column in zip(*test, strict=True))
  texts = rights[: config.texts]
  student, _ = DiPair.load(run.path('student'))
  shape = dataclasses.replace(student.encoder_config, num_layers=student.config.depths[1])
  encoder, length = bert_network.build(shape), student.max_lengths[1]
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
  rows: list[dict[str, Any]] = benchmark.rates(contenders)
  base = rows[0]['pairs_per_second']
  for row in rows:
    row['texts_per_second'] = row.pop('pairs_per_second')
    row['ratio'] = row['texts_per_second'] / base
  if config.stored_texts:
    rows.append({**stored(scorer, lefts, config.stored_texts), 'ratio': None})
  print(tables.encoding({'rows': rows}))
  if config.output:
    committed.write(config.output, 'benchmarks.encoding', config, rows=rows)


def stored(scorer: Scorer, texts: list[str], count: int) -> dict[str, Any]:
  """Writes a store of `count` left texts in int8; its time, its bytes and the memory it took."""
  rows = ((str(i), f'{texts[i % len(texts)]} {i}') for i in range(count))
  before = peak_memory()
  with tempfile.TemporaryDirectory() as folder:
    started = time.monotonic()
    store = scorer.encode_to(folder, rows, 'left', dtype='int8', total=count)
    seconds = time.monotonic() - started
    size = sum(entry.stat().st_size for entry in os.scandir(folder))
  assert len(store) == count
  return {
    'name': f'export into a store, {count:,} left texts, int8',
    'texts_per_second': count / seconds,
    'bytes_per_text': size / count,
    'memory_before': before,
    'peak_memory': peak_memory(),
  }


if __name__ == '__main__':
  flags.command(main, EncodingConfig)
