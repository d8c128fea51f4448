"""Artefacts of a toy run that are read back, each beside its reader."""

import os
import re
import shutil
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from common import digests, flags, verify
from common.data.records import RecordSet
from common.data.tokenization import Tokenizer
from common.data.tokens import TokenTable
from common.distillation import run
from common.distillation.config import ExperimentConfig
from common.distillation.run_folder import RunFolder
from common.distillation.teacher import Teacher
from common.modeling import encoders
from common.pipelines import annotate, encode, score
from common.pipelines.annotate import AnnotateConfig
from common.pipelines.encode import EncodeConfig
from common.pipelines.jobs import FilesConfig, OutputConfig
from common.pipelines.score import ScoreConfig
from common.scoring import exported
from common.training import loop, strategies
from common.training.optimization import PhaseConfig
from common.vectors import neighbors
from common.vectors.store import VectorStore
from dipair.scorer import Scorer
from dipair.student import DiPair

NAMES = ('run', 'teacher', 'phase', 'store', 'encoded', 'scored', 'annotated')
_PAIRS = [(f'term {i}', f'thing {i % 4}') for i in range(8)]
_LEFT, _RIGHT = (list(side) for side in zip(*_PAIRS, strict=True))


class Untrained:
  """A student as `dipair.run` trains it, without the training."""

  name, title, scorer = 'dipair', 'DiPair', Scorer
  depends_on = {'pretrained': 'random-tiny'}
  losses = ()
  batch_sizes: dict[str, int] = {}

  def __init__(self, model: DiPair, tokenizer: Tokenizer):
    self.model, self.tokenizer = model, tokenizer

  def check(self) -> None:
    pass

  def train(self, folder: str, training: Any) -> list:
    self.model.save(folder, self.tokenizer)
    return []

  def models(self, folder: str) -> dict[str, tuple[Any, Tokenizer]]:
    return {'student': DiPair.load(folder)}


class Artefacts:
  """A finished run, a training phase, a teacher, a store and outputs of jobs, with their readers.

  Each reader gives what it has read, as a list of arrays and other values.
  """

  def __init__(self, folder: str, model: DiPair, tokenizer: Tokenizer, export: str):
    self.folder, self.tokenizer = folder, tokenizer
    os.makedirs(folder, exist_ok=True)
    self.table, self.judging = self.path('pairs.tsv'), self.path('judging.tsv')
    for path, other in ((self.table, ''), (self.judging, 'other ')):
      rows = [f'{i}\t{other}{a}\t{b}\t{i % 2}\t{i / 3 - 1}' for i, (a, b) in enumerate(_PAIRS)]
      with open(path, 'w', encoding='utf-8') as file:
        file.write('\n'.join(['id\tleft\tright\tlabel\tz', *rows]) + '\n')
    self._make_run(model)
    shutil.copytree(export, self.path('run/export'))
    self._make_teacher()
    self.phase()
    self.encoded(), self.scored(), self.annotated()
    self.store()
    readers = {self.reader(name): name for artefact in NAMES for name in self.files(artefact)}
    self._whole = {reader: self.read(name) for reader, name in readers.items()}

  def path(self, *names: str) -> str:
    """A path within the folder."""
    return os.path.join(self.folder, *names)

  def _make_run(self, model: DiPair) -> None:
    given = {f'{name}_file': self.table for name in ('train', 'distillation')}
    given |= {f'{name}_file': self.judging for name in ('valid', 'test')}
    given |= {'run_dir': self.path('run'), 'teacher_logits_column': 'z', 'id_column': 'id'}
    self.config = flags.build(ExperimentConfig, given)
    self.strategy = strategies.create(self.config.devices)
    self.untrained = Untrained(model, self.tokenizer)
    self.run()
    for name in ('data/train', 'distill'):
      self.records(name)  # makes the tokens

  def _make_teacher(self) -> None:
    encoder = encoders.read('random-tiny').config
    Teacher(encoder, self.tokenizer, 16, 1).save(self.path('teacher'))

  def run(self) -> list:
    folder = RunFolder(self.path('run'), self.config, 'toy.run', redo=False)
    run.declare(folder, self.config, self.untrained, self.strategy)
    left_out = ('export', 'benchmark')
    folder.stages[:] = [stage for stage in folder.stages if stage.name not in left_out]
    folder.make()
    results = [stage.result for stage in folder.stages]
    scores = digests.read_arrays(self.path('run/evaluation/scores.npz'), 'again')
    return [repr(results), *scores.values()]

  def records(self, name: str) -> list:
    records = RecordSet(self.path(name if name == 'annotated' else f'run/{name}'))
    tokens = [TokenTable.of_items(records.items(slot), self.tokenizer) for slot in (0, 1)]
    tuples, texts = records.tuples(), records.texts()
    numbers = [tuples.items, tuples.teacher_logits, tuples.label]
    return [texts, list(tuples.ids), *numbers, *(np.array(t.ids) for t in tokens)]

  def student(self) -> list:
    model, tokenizer = DiPair.load(self.path('run/student'))
    return [tokenizer.vocabulary, *(variable.numpy() for variable in model.variables)]

  def teacher(self) -> list:
    teacher = Teacher.load(self.path('teacher'))
    return [teacher.tokenizer.vocabulary, *(v.numpy() for v in teacher.model.variables)]

  def export(self, runtime: str, encoder_runtime: str) -> list:
    scorer = Scorer.load(self.path('run/export'), runtime, encoder_runtime=encoder_runtime)
    return [scorer.score(_LEFT, _RIGHT), scorer.fingerprint]

  def saved_model(self, name: str) -> list:
    model = exported.load(self.path('run/export', name))
    return [sorted(model.signatures), *(variable.numpy() for variable in model.variables_)]

  def phase(self) -> list:
    strategies.create(strategies.DeviceConfig())
    tf_keras.utils.set_random_seed(1)
    model = tf_keras.layers.Dense(1)
    model.build([None, 2])
    rows = tf.constant([[1.0, 2.0]])
    phase = loop.Phase(
      'line',
      model,
      model.trainable_variables,
      lambda batch: model(batch)[:, 0] ** 2,
      lambda start: tf.data.Dataset.from_tensors(rows).repeat(),
      lambda: {'goodness': -float(model(rows)[0, 0] ** 2)},
      'goodness',
    )
    config = PhaseConfig(batch_size=1, steps=2, warmup_steps=0, eval_every=1)
    found = loop.fit(phase, config, self.path('phase'), strategy=tf.distribute.get_strategy())
    values = [[entry['step'], entry['valid']] for entry in found['history']]
    return [values, *(variable.numpy() for variable in model.variables)]

  def _job(self, name: str) -> tuple[FilesConfig, OutputConfig]:
    return FilesConfig(input=(self.table,)), OutputConfig(output=self.path(name))

  def encoded(self) -> list:
    files, out = self._job('encoded')
    export = self.path('run/export')
    encode.main(EncodeConfig(export, 'right', files, text_column='right', out=out), [])
    return self.vectors('encoded')

  def scored(self) -> list:
    files, out = self._job('scored')
    score.main(ScoreConfig(self.path('run/export'), files=files, out=out), [])
    return [verify.verify(out.output)[0]]

  def annotated(self) -> list:
    files, out = self._job('annotated')
    config = AnnotateConfig((self.path('teacher'),), files, id_column='id', out=out)
    annotate.main(config, [])
    return self.records('annotated')

  def vectors(self, name: str) -> list:
    store = VectorStore(self.path(name))
    store.verify()  # opening alone compares sizes: vectors may be many GB
    rows = range(len(store))
    return [store.ids(rows), store.vectors(slice(None)), store.rows(['3'])]

  def store(self) -> list:
    folder = self.path('store')
    if not os.path.exists(folder):
      scorer = Scorer.load(self.path('run/export'), encoder_runtime='litert')
      scorer.encode_to(folder, ((text, text) for text in _LEFT), 'left', dtype='int8')
    store = VectorStore(folder)
    store.verify()
    near = neighbors.Index.of_store(store).nearest(store.vectors([1, 2]), 3)
    return [store.ids(range(len(store))), store.vectors(slice(None)), near]

  def reader(self, name: str) -> tuple[str, ...]:
    """Name and arguments of the method that reads a file."""
    readers = {
      r'run/export/encoder/.*': ('saved_model', 'encoder'),
      r'run/export/head/.*': ('saved_model', 'head'),
      r'run/export/online/.*': ('saved_model', 'online'),
      r'run/export/.*float32.*': ('export', 'litert', 'litert'),
      r'run/export/.*(int8|word_pieces|digests|scorer).*': ('export', 'litert-int8', 'litert-int8'),
      r'run/.*(stage.json|flags.txt|\.npz)': ('run',),
      r'run/(distill|unlabelled)/.*': ('records', 'distill'),
      r'run/data/(train|items)/.*': ('records', 'data/train'),
      r'run/data/valid/.*': ('records', 'data/valid'),
      r'run/data/test/.*': ('records', 'data/test'),
      r'run/student/.*': ('student',),
    }
    for pattern, reader in readers.items():
      if re.fullmatch(pattern, name):
        return reader
    return ('run',) if name.startswith('run/') else (name.split('/')[0],)

  def read(self, name: str) -> list:
    """Content of a file, by its reader."""
    reader, *arguments = self.reader(name)
    return getattr(self, reader)(*arguments)

  def whole(self, name: str) -> list:
    """Content that the reader gave of whole files."""
    return self._whole[self.reader(name)]

  def files(self, artefact: str) -> list[str]:
    """Names of an artefact's files."""
    return sorted(
      os.path.relpath(os.path.join(base, name), self.folder)
      for base, _, names in os.walk(self.path(artefact))
      for name in names
    )
