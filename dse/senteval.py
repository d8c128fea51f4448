"""Universal sentence embeddings on SentEval's tasks (§4.2, Table 2).

  python -m dse.senteval --run_dir=runs/allnli --data_dir=senteval

Every variant of the run whose encoder was trained, beside the checkpoint that they started from. A
linear model is trained on fixed vectors. A sentence is its vector; a pair is [|u - v|, u * v]. Sentences are
encoded and cut as left texts, or where one encoder has both sides as those of the longer --max_lengths.
Logistic regression, its L2 weight tuned on the dev split, or by cross-validation of the training
split where there is none; MR, CR, SUBJ and MPQA are cross-validated, tuned within each fold.
Relatedness is a distribution over the whole scores beside it, and its expectation the prediction.
"""

import dataclasses
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

from common import digests, files, flags
from common.data.tokenization import Tokenizer
from common.data.tokens import TokenTable
from common.distillation import results
from common.distillation.finished_run import FinishedRun
from common.distillation.inference import TupleScorer
from common.errors import InputError
from common.evaluation import report
from common.evaluation.metrics import pearson, spearman
from common.evaluation.tables import Table
from common.files import read_json, write_json
from common.training import strategies
from dse import senteval_data, suite, training
from dse.config import StudentConfig, TrainConfig
from dse.senteval_data import Dataset, Split
from dse.student import DSE

_WEIGHTS = [2.0**power for power in range(-2, 4)]  # C of the logistic regression, as SentEval tries
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
  cache_dir: str = flags.option('', "folder of vectors and scores; empty: senteval in the run's")
  folds: int = flags.option(
    10, 'folds of cross-validation, the outer and the inner ones', bounds=(2, 1000)
  )
  output: str = flags.option('', 'JSON file of the table')


def main(config: SentEvalConfig) -> None:
  """Evaluates a run's students and their checkpoint, prints Table 2, writes the file."""
  if not config.run_dir or not config.data_dir:
    raise InputError("--run_dir, of dse.run, and --data_dir, SentEval's folder, are needed")
  datasets = senteval_data.read(config.data_dir, config.tasks)
  os.makedirs(os.path.dirname(config.output) or '.', exist_ok=True)
  run = FinishedRun(config.run_dir, 'dse')
  encoders = dict(_encoders(run))
  cache = os.path.join(config.cache_dir or run.path('senteval'), _made(run))
  found: dict[str, dict[str, list[float]]] = {name: {} for name in encoders}
  for dataset in datasets:
    for name, encode in encoders.items():
      folder = os.path.join(cache, name.replace('/', '-'))
      scores = found[name][dataset.name] = _scores(dataset, encode, folder, config.folds, name)
      print(f'{name}, {dataset.name}: {_cell(scores)}', flush=True)
  table = table2(found)
  print(report.grid(table))
  if config.output:
    command = flags.command_line('dse.senteval', flags.changed(config))
    made = {'command': command, 'commit': results.commit()}
    write_json(config.output, {**made, 'scores': found, 'table': table._asdict()})


def evaluate(
  dataset: Dataset, vectors: dict[str, list[np.ndarray]], folds: int, title: str = ''
) -> list[float]:
  """A task's one or two scores in percent.

  Args:
    dataset: The task.
    vectors: [rows, d] of each split's slots.
    folds: Folds of cross-validation.
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
  if dataset.kind != 'relatedness' and 'dev' not in labels:
    _check_folds(labels['train'], folds, 'test' not in labels, dataset.name)
  total = folds if 'test' not in labels else len(_WEIGHTS) if 'dev' in labels else 1
  bar = tqdm(total=total, desc=f'{title}: {dataset.name}', unit=' fits', leave=False)
  if 'test' not in labels:
    scores = [
      accuracy_score(labels['train'][test], fit.predict(features['train'][test]))
      for train, test in _folds(labels['train'], folds)
      for fit in [_tuned(features['train'][train], labels['train'][train], folds, bar)]
    ]
    return [100 * float(np.mean(scores))]
  x, y = features['train'], labels['train']
  if dataset.kind == 'relatedness':
    fits = [_relatedness(x, y, weight, bar) for weight in _WEIGHTS]
    best = max(fits, key=lambda fit: pearson(labels['dev'], fit(features['dev'])))
    predicted = best(features['test'])
    both = [pearson(labels['test'], predicted), spearman(labels['test'], predicted)]
    return [100 * score for score in (both if dataset.name == 'STS-B' else both[:1])]
  if 'dev' in labels:
    tried = [_fit(x, y, weight, bar) for weight in _WEIGHTS]
    best = max(tried, key=lambda fit: accuracy_score(labels['dev'], fit.predict(features['dev'])))
  else:
    best = _tuned(x, y, folds, bar)
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
      *(_cell(scores[name]) for name in names),
      f'{np.mean([np.mean(scores[name]) for name in names]):.1f}',
    ]
    for title, scores in rows.items()
  ]
  note = 'MRPC: F1/accuracy; SICK-R: Pearson x 100; STS-B: Pearson/Spearman x 100; else accuracy.'
  return Table(note, ['Model', *names, 'AVG'], shown)


def _cell(scores: list[float]) -> str:
  return '/'.join(f'{score:.1f}' for score in scores)


def _fit(x: np.ndarray, y: np.ndarray, weight: float, bar: tqdm, **options) -> LogisticRegression:
  fit = LogisticRegression(C=weight, tol=1e-3, max_iter=300).fit(x, y, **options)
  bar.update()
  return fit


def _check_folds(labels: np.ndarray, folds: int, nested: bool, name: str) -> None:
  classes, counts = np.unique(labels, return_counts=True)
  # An outer fold takes two of `folds + 2` at the most, and leaves one for each inner fold.
  needed = folds + 2 if nested else folds
  if (least := counts.min()) < needed:
    raise InputError(
      f'{name}: {least} rows of class {classes[counts.argmin()]}; --folds={folds} needs {needed} at the least'
    )


def _folds(labels: np.ndarray, folds: int):
  return StratifiedKFold(folds, shuffle=True, random_state=1111).split(labels, labels)


def _tuned(x: np.ndarray, y: np.ndarray, folds: int, bar: tqdm) -> LogisticRegressionCV:
  """A fit with the weight that is best in cross-validation."""
  fit = LogisticRegressionCV(
    Cs=_WEIGHTS,
    l1_ratios=(0,),
    cv=list(_folds(y, folds)),
    scoring='accuracy',
    max_iter=300,
    use_legacy_attributes=False,
  ).fit(x, y)
  bar.update()
  return fit


def _relatedness(
  x: np.ndarray, scores: np.ndarray, weight: float, bar: tqdm
) -> Callable[[np.ndarray], np.ndarray]:
  """A fit of distributions: a score of 3.2 is 0.8 of a 3 and 0.2 of a 4."""
  low = np.floor(scores).astype(int)
  shares = np.concatenate([1 - (scores - low), scores - low])
  rows, levels = np.tile(np.arange(len(x)), 2), np.concatenate([low, low + 1])
  kept = shares > 0
  fit = _fit(x[rows[kept]], levels[kept], weight, bar, sample_weight=shares[kept])
  return lambda features: fit.predict_proba(features) @ fit.classes_


def _scores(dataset: Dataset, encode: Encode, cache: str, folds: int, title: str) -> list[float]:
  """`evaluate` of an encoder's vectors, once for this task: its fits take from minutes to an hour."""
  os.makedirs(cache, exist_ok=True)
  rows = [(name, s.texts, s.labels.tolist()) for name, s in dataset.splits.items()]
  digest = hashlib.sha256(repr(rows).encode()).hexdigest()[:12]
  path = os.path.join(cache, f'{dataset.name}-{digest}')
  done = f'{path}-{folds}.json'
  if not os.path.exists(done):
    vectors = _vectors(dataset, encode, f'{path}.npy')
    write_json(done, {'scores': evaluate(dataset, vectors, folds, title)})
  return read_json(done)['scores']


def _vectors(dataset: Dataset, encode: Encode, path: str) -> dict[str, list[np.ndarray]]:
  """Vectors of each split's slots; each text is encoded once, into the file `path`."""
  texts = sorted({text for s in dataset.splits.values() for column in s.texts for text in column})
  if not os.path.exists(path):
    blocks = [texts[i : i + 4096] for i in range(0, len(texts), 4096)]
    bar = tqdm(blocks, desc=f'encode {dataset.name}', unit=' blocks', leave=False)
    with files.whole(path) as temporary, open(temporary, 'wb') as file:
      np.save(file, np.concatenate([encode(block) for block in bar]))
    digests.write(os.path.dirname(path), [os.path.basename(path)])
  vectors = digests.read_arrays(path, 'delete it and run again')
  row = {text: number for number, text in enumerate(texts)}

  def of(split: Split) -> list[np.ndarray]:
    return [vectors[[row[text] for text in column]] for column in split.texts]

  return {name: of(split) for name, split in dataset.splits.items()}


def _encoders(run: FinishedRun) -> Iterator[tuple[str, Encode]]:
  """Names and encoders: the checkpoint as it is, pooled alike, and what each variant made of it."""
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
  """The slot that sentences are encoded as: of one encoder the one of the longest texts."""
  lengths = config.max_lengths
  return lengths.index(max(lengths)) if config.shared_encoder else 0


def _made(run: FinishedRun) -> str:
  """Names what the run's students are made of, and the slot of sentences that are not the first's."""
  slot = _slot(run.config(StudentConfig))
  made = run.stage('student')['fingerprint']
  return f'{made}-slot{slot}' if slot else made


if __name__ == '__main__':
  flags.command(main, SentEvalConfig)
