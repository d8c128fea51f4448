"""Universal sentence embeddings on SentEval's tasks (DSE, §4.2, Table 2).

  python -m experiments.senteval --run_dir=runs/allnli --data_dir=senteval

It judges every variant of the run whose encoder was trained, and the checkpoint that they started
from, by a linear model on fixed vectors: a sentence is its vector, a pair is [|u - v|, u * v].
Sentences are encoded as left texts, or where one encoder has both sides as the texts of the longer
--max_lengths.

A logistic regression tells classes. Its L2 weight is tuned on the dev split, or without one by
cross-validation of the training split; MR, CR, SUBJ and MPQA are cross-validated, and tuned within
each fold. Relatedness is a distribution over the whole scores beside it, and its expectation the
prediction. The same command goes on where it was stopped.
"""

import dataclasses
import functools
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf
import tf_keras
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.metrics import accuracy_score, f1_score
from sklearn.model_selection import StratifiedKFold
from tqdm import tqdm

from common import flags
from common.data.tokenization import Tokenizer
from common.data.tokens import TokenTable
from common.distillation import provenance
from common.distillation.finished_run import FinishedRun
from common.distillation.inference import TupleScorer
from common.distillation.run_folder import RunFolder, Stage
from common.errors import InputError
from common.evaluation.metrics import METRICS, pearson
from common.evaluation.tables import Table
from common.files import write_json
from common.training import strategies
from dse import training
from dse.config import StudentConfig, TrainConfig
from dse.student import DSE
from experiments import senteval_data, suite
from experiments.senteval_data import Dataset

_WEIGHTS = [2.0**power for power in range(-2, 4)]  # C of the logistic regression, as SentEval tries
_FOLDS = 10  # of cross-validation, the outer and the inner ones
_PAPER = {
  'BERT-Large, the paper': '83.5 88.8 95.5 89.1 87.1 93.2 83.5/76.4 83.8 82.2 68.4/68.3',
  'DSE (alpha = 0.5), the paper': '83.6 90.2 93.6 89.8 91.0 91.8 83.8/77.9 85.6 86.7 70.7/71.4',
  'DSE (alpha = 0), the paper': '83.1 89.8 93.1 89.4 88.3 92.0 81.8/76.2 84.7 86.1 73.1/74.1',
}
_NAMES = ('MR', 'CR', 'SUBJ', 'MPQA', 'SST', 'TREC', 'MRPC', 'SICK-R', 'SICK-E', 'STS-B')
Encode = Callable[[Sequence[str]], np.ndarray]


@dataclasses.dataclass(frozen=True)
class SentEvalConfig:
  """Encoders to evaluate, and the tasks."""

  run_dir: str = flags.option('', 'a finished run of dse.run')
  data_dir: str = flags.option('', "folder of SentEval's downstream folders (MR, CR, SUBJ, ...)")
  tasks: tuple[str, ...] = flags.option((), f'of {", ".join(_NAMES)}; empty: all that are there')
  output: str = flags.option('', 'JSON file of the table')
  redo: bool = flags.option(False, 'evaluate anew, where other flags made the scores', kept=False)


@dataclasses.dataclass(frozen=True)
class Scores:
  """An encoder's one or two scores of a task, in percent."""

  scores: list[float]


def main(config: SentEvalConfig) -> None:
  """Evaluates a run's students and their checkpoint, prints Table 2, writes the file."""
  if not config.run_dir or not config.data_dir:
    raise InputError("--run_dir, of dse.run, and --data_dir, SentEval's folder, are needed")
  datasets = senteval_data.read(config.data_dir, config.tasks)
  os.makedirs(os.path.dirname(config.output) or '.', exist_ok=True)
  run = FinishedRun(config.run_dir, 'dse')
  made = {'student': run.stage('student')['fingerprint']}
  folder = RunFolder(run.path('senteval'), config, 'experiments.senteval', config.redo)
  stages: dict[str, dict[str, Stage[Scores]]] = {}
  for title, encode in _encoders(run):
    for dataset in datasets:
      work = functools.partial(_score, dataset, encode, title)
      name = f'{title}-{dataset.name}'.replace('/', '-')
      stage = folder.stage(name, Scores, work, {**made, 'rows': _digest(dataset)}, resumes=False)
      stages.setdefault(title, {})[dataset.name] = stage
  folder.make()
  found = {
    title: {task: stage.result.scores for task, stage in of.items()} for title, of in stages.items()
  }
  table = table2(found)
  print(table)
  if config.output:
    command = flags.command_line('experiments.senteval', flags.changed(config))
    about = {'command': command, 'commit': provenance.commit()}
    write_json(config.output, {**about, 'scores': found, 'table': table._asdict()})


def evaluate(
  dataset: Dataset, vectors: dict[str, list[np.ndarray]], title: str = ''
) -> list[float]:
  """A task's one or two scores in percent.

  Args:
    dataset: The task.
    vectors: [rows, d] of each split's slots.
    title: Title of the progress bar.

  Returns:
    Accuracy; F1 and accuracy of MRPC; Pearson of SICK-R; Pearson and Spearman of STS-B.
  """
  features = {
    name: v[0] if len(v) == 1 else np.concatenate([np.abs(v[0] - v[1]), v[0] * v[1]], 1)
    for name, v in vectors.items()
  }
  # The same optimum, as the intercept is not regularized, in fewer steps.
  middle = features['train'].mean(0)
  features = {name: x - middle for name, x in features.items()}
  labels = {name: split.labels for name, split in dataset.splits.items()}
  bar = functools.partial(tqdm, desc=f'{title}: {dataset.name}', unit=' fits', leave=False)
  x, y = features['train'], labels['train']
  if 'test' not in labels:
    scores = [
      accuracy_score(y[test], _tuned(x[train], y[train]).predict(x[test]))
      for train, test in bar(_folds(y))
    ]
    return [100 * float(np.mean(scores))]
  if dataset.scored:
    fits = [_relatedness(x, y, weight) for weight in bar(_WEIGHTS)]
    best = max(fits, key=lambda fit: pearson(labels['dev'], fit(features['dev'])))
    predicted = best(features['test'])
    spearman = METRICS['regression']['spearman']
    both = [pearson(labels['test'], predicted), spearman(labels['test'], predicted)]
    return [100 * score for score in (both if dataset.name == 'STS-B' else both[:1])]
  if 'dev' in labels:
    tried = [_fit(x, y, weight) for weight in bar(_WEIGHTS)]
    best = max(tried, key=lambda fit: accuracy_score(labels['dev'], fit.predict(features['dev'])))
  else:
    best = _tuned(x, y)
  predicted = best.predict(features['test'])
  accuracy = 100 * accuracy_score(labels['test'], predicted)
  if dataset.name != 'MRPC':
    return [accuracy]
  return [100 * f1_score(labels['test'], predicted, pos_label='1'), accuracy]


def table2(found: dict[str, dict[str, list[float]]]) -> Table:
  """Table 2 of the scores of each model by task, the paper's rows below; AVG as in the paper."""
  names = [name for name in _NAMES if any(name in scores for scores in found.values())]
  rows = dict(found)
  for title, text in _PAPER.items():
    cells = dict(zip(_NAMES, text.split(), strict=True))
    rows[title] = {name: [float(s) for s in cells[name].split('/')] for name in names}
  shown = [
    [
      title,
      *('/'.join(f'{score:.1f}' for score in scores[name]) for name in names),
      f'{np.mean([np.mean(scores[name]) for name in names]):.1f}',
    ]
    for title, scores in rows.items()
  ]
  note = 'MRPC: F1/accuracy; SICK-R: Pearson x 100; STS-B: Pearson/Spearman x 100; else accuracy.'
  return Table(note, ['Model', *names, 'AVG'], shown)


def _fit(
  x: np.ndarray, y: np.ndarray, weight: float, shares: np.ndarray | None = None
) -> LogisticRegression:
  return LogisticRegression(C=weight, tol=1e-3, max_iter=300).fit(x, y, sample_weight=shares)


def _folds(labels: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
  folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=1111)
  return list(folds.split(labels, labels))


def _tuned(x: np.ndarray, y: np.ndarray) -> LogisticRegressionCV:
  """A fit with the weight that is best in cross-validation."""
  return LogisticRegressionCV(
    Cs=_WEIGHTS,
    l1_ratios=(0,),
    cv=_folds(y),
    scoring='accuracy',
    max_iter=300,
    use_legacy_attributes=False,
  ).fit(x, y)


def _relatedness(
  x: np.ndarray, scores: np.ndarray, weight: float
) -> Callable[[np.ndarray], np.ndarray]:
  """A fit of distributions: a score of 3.2 is 0.8 of a 3 and 0.2 of a 4."""
  low = np.floor(scores).astype(int)
  shares = np.concatenate([1 - (scores - low), scores - low])
  rows, levels = np.tile(np.arange(len(x)), 2), np.concatenate([low, low + 1])
  kept = shares > 0
  fit = _fit(x[rows[kept]], levels[kept], weight, shares[kept])
  return lambda features: fit.predict_proba(features) @ fit.classes_


def _digest(dataset: Dataset) -> str:
  """Digest of a task's sentences and labels."""
  rows = [(name, of.texts, of.labels.tolist()) for name, of in dataset.splits.items()]
  return hashlib.sha256(repr(rows).encode()).hexdigest()[:12]


def _score(dataset: Dataset, encode: Encode, title: str, folder: str) -> Scores:
  """An encoder's scores of a task; the fits take from minutes to an hour."""
  del folder  # the scores are all that is kept
  return Scores(evaluate(dataset, _vectors(dataset, encode), title))


def _vectors(dataset: Dataset, encode: Encode) -> dict[str, list[np.ndarray]]:
  """Vectors [rows, d] of each split's slots; each text is encoded once."""
  texts = sorted({text for s in dataset.splits.values() for column in s.texts for text in column})
  blocks = [texts[i : i + 4096] for i in range(0, len(texts), 4096)]
  bar = tqdm(blocks, desc=f'encode {dataset.name}', unit=' blocks', leave=False)
  vectors = np.concatenate([encode(block) for block in bar])
  row = {text: number for number, text in enumerate(texts)}
  return {
    name: [vectors[[row[text] for text in column]] for column in split.texts]
    for name, split in dataset.splits.items()
  }


def _encoders(run: FinishedRun) -> Iterator[tuple[str, Encode]]:
  """Names and encoders: the checkpoint as it is, pooled alike, and each variant trained from it."""
  student, train = run.config(StudentConfig), run.config(TrainConfig)
  strategies.create(strategies.DeviceConfig())  # random weights are then drawn as in training
  tf_keras.utils.set_random_seed(run.flags['seed'])
  yield student.pretrained, _encoder(*DSE.from_pretrained(student, outputs=1))
  for variant in train.variants:
    if variant != 'frozen':  # its vectors are the checkpoint's own
      folder = training.path(run.path('student'), train, variant)
      name = suite.model_name(training.title(train, variant), run.flags)
      yield name, _encoder(*DSE.load(folder))


def _encoder(student: DSE, tokenizer: Tokenizer) -> Encode:
  scorer = TupleScorer(student, tokenizer, tf.distribute.get_strategy())
  slot = _slot(student.config)

  def encode(texts: Sequence[str]) -> np.ndarray:
    table = TokenTable.of_texts(texts, tokenizer)
    features = scorer.features(table, np.arange(len(texts)), slot)
    return student.vectors(tf.constant(features), slot).numpy()

  return encode


def _slot(config: StudentConfig) -> int:
  """Slot that sentences are encoded as: the first, or that of the longest texts of one encoder."""
  lengths = config.max_lengths
  return lengths.index(max(lengths)) if config.shared_encoder else 0


if __name__ == '__main__':
  flags.command(main, SentEvalConfig)
