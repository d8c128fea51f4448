"""Every file of every artefact, damaged: its reader gives the same as ever, or names the file."""

import os
import random
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from common import digests, flags, verify
from common.data.records import RecordSet
from common.data.tokens import TokenTable
from common.distillation.experiment import Experiment, ExperimentConfig
from common.distillation.run_folder import RunFolder
from common.distillation.stages.run import Run
from common.distillation.teacher import Teacher
from common.errors import InputError
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

PAIRS = [(f'term {i}', f'thing {i % 4}') for i in range(8)]
LEFT, RIGHT = (list(side) for side in zip(*PAIRS, strict=True))
DAMAGES = ('cut', 'emptied', 'flipped', 'removed')


class Untrained:
  """A student as `dipair.run` trains it, but for the training."""

  name, title, scorer, takes_labels = 'dipair', 'DiPair', Scorer, False
  depends_on = {'pretrained': 'random-tiny'}

  def __init__(self, model, tokenizer):
    self.model, self.tokenizer = model, tokenizer

  def check(self):
    pass

  def train(self, folder, training):
    self.model.save(folder, self.tokenizer)
    return []

  def models(self, folder):
    return {'student': DiPair.load(folder)}


class Artefacts:
  """A finished run, a phase of training, a teacher, a store and outputs of jobs, with their readers."""

  def __init__(self, folder, made):
    self.folder, self.tokenizer = str(folder), made.tokenizer
    self.table = self.path('pairs.tsv')
    rows = [f'{i}\t{a}\t{b}\t{i % 2}\t{i / 3 - 1}' for i, (a, b) in enumerate(PAIRS)]
    with open(self.table, 'w', encoding='utf-8') as file:
      file.write('\n'.join(['id\tleft\tright\tlabel\tz', *rows]) + '\n')
    self.make_run(made.model)
    shutil.copytree(made.folder, self.path('run/export'))
    self.make_teacher()
    self.phase()
    self.encoded(), self.scored(), self.annotated()
    self.store()

  def path(self, *names):
    return os.path.join(self.folder, *names)

  def make_run(self, model):
    given = {f'{name}_file': self.table for name in ('train', 'valid', 'test', 'distillation')}
    given |= {'run_dir': self.path('run'), 'teacher_logits_column': 'z', 'id_column': 'id'}
    self.config = flags.build(ExperimentConfig, given)
    strategy = strategies.create(self.config.devices)
    shared = Run(self.path('run'), self.config.data.table, self.config.devices, strategy, 7)
    experiment = Experiment(self.config, Untrained(model, self.tokenizer), shared)
    left_out = ('export', 'benchmark')
    self.stages = [stage for stage in experiment.stages() if stage.name not in left_out]
    self.run()
    for name in ('data/train', 'distill'):
      self.records(name)  # makes the tokens

  def make_teacher(self):
    encoder = encoders.read('random-tiny').config
    Teacher(encoder, self.tokenizer, 16, 1).save(self.path('teacher'))

  def run(self):
    folder = RunFolder(self.path('run'), self.config, 'toy.run', redo=False)
    folder.run(self.stages)
    results = [folder.result(stage) for stage in self.stages]
    scores = digests.read_arrays(self.path('run/evaluation/scores.npz'), 'again')
    return [repr(results), *scores.values()]

  def records(self, name):
    records = RecordSet(self.path(name if name == 'annotated' else f'run/{name}'))
    tokens = [TokenTable.of_items(records.items(slot), self.tokenizer) for slot in (0, 1)]
    tuples, texts = records.tuples(), records.texts()
    numbers = [tuples.items, tuples.teacher_logits, tuples.label]
    return [texts, list(tuples.ids), *numbers, *(np.array(t.ids) for t in tokens)]

  def student(self):
    model, tokenizer = DiPair.load(self.path('run/student'))
    return [tokenizer.vocabulary, *(variable.numpy() for variable in model.variables)]

  def teacher(self):
    teacher = Teacher.load(self.path('teacher'))
    return [teacher.tokenizer.vocabulary, *(v.numpy() for v in teacher.model.variables)]

  def export(self, runtime, encoder_runtime):
    scorer = Scorer.load(self.path('run/export'), runtime, encoder_runtime=encoder_runtime)
    return [scorer.score(LEFT, RIGHT), scorer.fingerprint]

  def saved_model(self, name):
    model = exported.load(self.path('run/export', name))
    return [sorted(model.signatures), *(variable.numpy() for variable in model.variables_)]

  def phase(self):
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

  def job(self, name):
    return FilesConfig(input=(self.table,)), OutputConfig(output=self.path(name))

  def encoded(self):
    files, out = self.job('encoded')
    export = self.path('run/export')
    encode.main(EncodeConfig(export, 'right', files, text_column='right', out=out), [])
    return self.vectors('encoded')

  def scored(self):
    files, out = self.job('scored')
    score.main(ScoreConfig(self.path('run/export'), files=files, out=out), [])
    return [verify.verify(out.output)[0]]

  def annotated(self):
    files, out = self.job('annotated')
    config = AnnotateConfig((self.path('teacher'),), files, id_column='id', out=out)
    annotate.main(config, [])
    return self.records('annotated')

  def vectors(self, name):
    store = VectorStore(self.path(name))
    store.verify()  # opening alone compares sizes: vectors may be many GB
    rows = range(len(store))
    return [store.ids(rows), store.vectors(slice(None)), store.rows(['3'])]

  def store(self):
    folder = self.path('store')
    if not os.path.exists(folder):
      scorer = Scorer.load(self.path('run/export'), encoder_runtime='litert')
      scorer.encode_to(folder, ((text, text) for text in LEFT), 'left', dtype='int8')
    store = VectorStore(folder)
    store.verify()
    near = neighbors.nearest(store, store.vectors([1, 2]), 3)
    return [store.ids(range(len(store))), store.vectors(slice(None)), near]

  def reader(self, name):
    """The name and arguments of what reads a file."""
    readers = {
      r'run/export/encoder/.*': ('saved_model', 'encoder'),
      r'run/export/head/.*': ('saved_model', 'head'),
      r'run/export/online/.*': ('saved_model', 'online'),
      r'run/export/.*float16.*': ('export', 'litert-float16', 'litert'),
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

  def files(self, artefact):
    """Names of an artefact's files."""
    return sorted(
      os.path.relpath(os.path.join(base, name), self.folder)
      for base, _, names in os.walk(self.path(artefact))
      for name in names
    )


ARTEFACTS = ('run', 'teacher', 'phase', 'store', 'encoded', 'scored', 'annotated')


@pytest.fixture(name='artefacts', scope='module')
def _artefacts(export, tmp_path_factory):
  made = Artefacts(tmp_path_factory.mktemp('artefacts'), export('dipair'))
  expected = {}

  def read(name):
    reader, *arguments = made.reader(name)
    return getattr(made, reader)(*arguments)

  for artefact in ARTEFACTS:
    for name in made.files(artefact):
      reader = made.reader(name)
      if reader not in expected:
        expected[reader] = read(name)
  return made, read, expected


def damaged(content, damage, name):
  """The bytes of a file, damaged; its name says which bit is flipped."""
  if damage == 'flipped':
    place = random.Random(name).randrange(8 * len(content))
    flipped = bytearray(content)
    flipped[place // 8] ^= 1 << place % 8
    return bytes(flipped)
  return content[: len(content) // 2] if damage == 'cut' else b''


def same(one, other):
  for a, b in zip(one, other, strict=True):
    if isinstance(a, np.ndarray) and a.dtype.kind == 'f':
      np.testing.assert_allclose(a, b, atol=1e-6)
    else:
      np.testing.assert_array_equal(a, b)


def outcome(read, expected, name):
  """What is wrong with a read of a damaged file; '' where nothing is."""
  try:
    found = read(name)
  except InputError as error:
    stem = os.path.basename(name).split('.')[0]
    return '' if stem in str(error) and '\n' not in str(error) else f'does not name it: {error}'
  except Exception as error:
    return f'{type(error).__name__}: {error}'
  try:
    same(found, expected)
  except AssertionError as error:
    return f'another result in silence: {error}'
  return ''


@pytest.mark.parametrize('damage', DAMAGES)
@pytest.mark.parametrize('artefact', ARTEFACTS)
def test_a_damaged_file_changes_nothing_or_is_named(artefacts, artefact, damage):
  made, read, expected = artefacts
  wrong = {}
  for name in made.files(artefact):
    path = made.path(name)
    if not os.path.getsize(path):
      continue
    shutil.copy2(path, f'{made.folder}/whole')
    with open(path, 'rb') as file:
      content = file.read()
    os.remove(path)
    if damage != 'removed':
      with open(path, 'wb') as file:
        file.write(damaged(content, damage, name))
    if said := outcome(read, expected[made.reader(name)], name):
      wrong[name] = said
    os.makedirs(os.path.dirname(path), exist_ok=True)
    shutil.copy2(f'{made.folder}/whole', path)
  assert wrong == {}
