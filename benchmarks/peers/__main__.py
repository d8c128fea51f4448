"""Other libraries beside ours, on the same texts and in one run: encoding, scoring, quality.

  python -m benchmarks.peers --run_dir=runs/homedepot --python=PEERS/bin/python \\
    --output=benchmarks/results/peers.json

Theirs, all of the weights of `--pretrained=minilm`: sentence-transformers in torch, OpenVINO and
OpenVINO int8, its cosine and CrossEncoder, and ColBERT's MaxSim. Ours, of a finished run of
regression: its export, and its teacher. Contenders take turns, round by round; all have the same
cores, and each library the batch size that is fastest for it. benchmarks/peers/README.md says how
their environment is made.
"""

import dataclasses
import functools
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks import committed, tables
from benchmarks.peers.process import Peers, check
from common import flags
from common.data.records import RecordSet
from common.data.tokens import TokenizedTuples
from common.distillation import measure
from common.distillation.converted_teacher import ConvertedTeacher
from common.distillation.teacher import Teacher
from common.errors import InputError
from common.evaluation import benchmark, metrics
from common.evaluation.benchmark import Contender
from common.modeling import checkpoints
from common.scoring import runtimes
from common.scoring.exported import Export
from dipair.scorer import Scorer
from experiments.finished_run import FinishedRun

_BATCH_SIZES = (16, 32, 64, 128)
_TOP_K = 10
_KINDS = ('encoding', 'pairs', 'stored')  # texts; pairs from their text; pairs of stored vectors


@dataclasses.dataclass(frozen=True)
class PeersConfig:
  """Texts and pairs to compare on, and the length of a measurement."""

  run_dir: str = flags.option('', 'a finished run of dipair.run, of --task=regression')
  python: str = flags.option('', "the python of the peers' environment")
  texts: int = flags.option(
    1024, 'distinct right texts of its test set to encode', bounds=(1, 10**9)
  )
  pairs: int = flags.option(512, 'test pairs for cross-encoders', bounds=(1, 10**9))
  queries: int = flags.option(
    8, 'left texts, for which all candidates are scored', bounds=(1, 10**9)
  )
  candidates: int = flags.option(2048, 'right texts, whose vectors are stored', bounds=(1, 10**9))
  threads: int = flags.option(2, 'cores and threads of everybody', bounds=(1, 1024))
  rounds: int = flags.option(5, 'rounds, of which the median is taken', bounds=(1, 1000))
  seconds: float = flags.option(1.0, 'least time of a contender in a round', bounds=(0, 3600))
  trained: str = flags.option('', 'folder of a fine-tuned bi-encoder of theirs, compared too')
  train: bool = flags.option(False, 'first fine-tune it on the train table, one epoch')
  output: str = flags.option('', 'JSON file of the figures')

  def __post_init__(self):
    if self.train and (not self.trained or os.path.exists(self.trained)):
      raise InputError(f'--train: --trained={self.trained}: a folder to be made')
    if self.trained and not self.train and not os.path.isdir(self.trained):
      raise InputError(f'--trained={self.trained}: no such folder; --train makes it')


def main(config: PeersConfig) -> None:
  """Measures, prints, writes."""
  run = FinishedRun(config.run_dir)
  if run.results['task'] != 'regression':
    raise InputError(
      f'--run_dir={config.run_dir}: its task is {run.results["task"]}, not regression'
    )
  check(config.python)
  cores = sorted(os.sched_getaffinity(0))
  if not 0 < config.threads <= len(cores):
    raise InputError(f'--threads={config.threads}: 1 to {len(cores)} here')
  os.sched_setaffinity(0, cores[: config.threads])  # before there are threads; theirs inherit it
  data = _data(config, run)
  with tempfile.TemporaryDirectory() as folder, Peers(config.python, data, folder) as peers:
    labels = RecordSet(run.path('data/test')).tuples().labels
    rows = [dict(described) for described in peers.described]
    for row in rows:
      if 'scores' in row:
        row['test'] = metrics.pearson(labels, np.array(row.pop('scores')))
    timed = [peers.contender(i) for i, row in enumerate(peers.described) if 'rows' in row]
    for row, contender in _ours(run, data):
      rows.append(row)
      timed.append(contender)
    rates = benchmark.rates(timed, rounds=config.rounds, seconds=config.seconds)
  by_name = {rate['name']: rate for rate in rates}
  rows = [{**row, **by_name.get(row['name'], {})} for row in rows]
  rows.sort(key=lambda row: _KINDS.index(row['kind']))
  counts = {name: len(data[name]) for name in ('texts', 'pairs', 'queries', 'candidates')}
  counts['threads'] = config.threads
  told = {'versions': peers.versions, 'counts': counts}
  for table in tables.peers({'rows': rows, **told}):
    print(f'{table}\n')
  if config.output:
    committed.write(config.output, 'benchmarks.peers', config, **told, rows=rows)


def _data(config: PeersConfig, run: FinishedRun) -> dict[str, Any]:
  """Texts and pairs that both sides measure on."""
  test = [list(pair) for pair in RecordSet(run.path('data/test')).texts()]
  lefts, rights = (list(dict.fromkeys(column)) for column in zip(*test, strict=True))
  train = None
  if config.train:
    records = RecordSet(run.path('data/train'))
    train = {'pairs': records.texts(), 'labels': records.tuples().labels.tolist()}
  return {
    'weights': checkpoints.read(checkpoints.MINILM).path,
    'threads': config.threads,
    'batch_sizes': _BATCH_SIZES,
    'top_k': _TOP_K,
    'max_length': run.flags['max_lengths'][1],
    'pair_length': run.flags['teacher_max_length'],
    'texts': rights[: config.texts],
    'pairs': test[: config.pairs],
    'queries': lefts[: config.queries],
    'candidates': rights[: config.candidates],
    'test': test,
    'train': train,
    'trained': os.path.abspath(config.trained) if config.trained else '',
  }


def _ours(run: FinishedRun, data: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Contender]]:
  """Rows of ours, each with its contender: encoders, heads, the teacher."""
  export = Export(run.path('export'))
  texts, pairs = data['texts'], data['pairs']
  exact = None
  for name in runtimes.RUNTIMES:
    scorer = Scorer.load(export, encoder_runtime=name)
    encode = functools.partial(scorer.encode, texts, 'right')
    vectors = encode()
    exact = vectors if exact is None else exact
    cosine = measure.cosine(vectors, exact)
    row: dict[str, Any] = {'kind': 'encoding', 'name': f'DiPair encoder, {name}', 'cosine': cosine}
    if name == 'tensorflow':
      yield _batched(row, encode, len(texts))
    else:  # the others choose their batches themselves
      yield row, Contender(row['name'], encode, len(texts))
  heads = {name: Scorer.load(export, name) for name in runtimes.RUNTIMES}
  queries, candidates = data['queries'], data['candidates']
  left, right = (
    heads['tensorflow'].encode(given, slot)
    for given, slot in ((queries, 'left'), (candidates, 'right'))
  )
  size = {row['dtype']: row['bytes']['right'] for row in run.results['stored']}
  tests = {row['name']: {'test': row['test']} for row in run.results['speed'] if 'test' in row}
  for name, scorer in heads.items():
    row = {'kind': 'stored', 'name': f'DiPair head, {name}', 'bytes': size}
    row |= tests.get(row['name'], {})
    rank = functools.partial(scorer.rank, left, right, _TOP_K)
    yield row, Contender(row['name'], rank, len(queries) * len(candidates))
  teachers = run.teachers()
  if len(teachers) == 1:
    teacher, strategy = teachers[0], tf.distribute.get_strategy()

    def logits(model: Teacher | ConvertedTeacher, **batches: Any) -> np.ndarray:
      tuples = TokenizedTuples.of_texts(pairs, teacher.tokenizer)  # theirs tokenizes within it too
      return model.logits(tuples, strategy=strategy, **batches)

    test = run.results['models'][0]['test']['pearson']
    row = {'kind': 'pairs', 'name': "DiPair's teacher, tensorflow", 'test': test}
    yield _batched(row, functools.partial(logits, teacher), len(pairs))
    name = "DiPair's teacher, litert-int8"
    call = functools.partial(logits, ConvertedTeacher(teacher))
    yield {'kind': 'pairs', 'name': name}, Contender(name, call, len(pairs))


def _batched(
  row: dict[str, Any], call: Callable[..., Any], count: int
) -> tuple[dict[str, Any], Contender]:
  """A row and its contender, at the batch size that is fastest for it."""

  def seconds(size: int) -> float:
    started = time.perf_counter()
    call(batch_size=size)
    return time.perf_counter() - started

  call(batch_size=_BATCH_SIZES[0])
  size = min(_BATCH_SIZES, key=seconds)
  return {**row, 'batch_size': size}, Contender(row['name'], lambda: call(batch_size=size), count)


if __name__ == '__main__':
  flags.command(main, PeersConfig)
