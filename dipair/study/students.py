"""DiPair students of a finished run's distillation set, and the run's own."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from common import flags
from common.data.records import RecordSet
from common.data.tokens import TokenizedTuples
from common.distillation.evaluation import SetScorer
from common.distillation.inference import TupleScorer
from common.distillation.student import check_set
from common.distillation.trainer import Training
from common.evaluation import calibration
from common.export import student_export
from common.files import whole_folder
from common.modeling import encoders
from common.modeling.losses import LossConfig
from common.training import strategies
from common.training.strategies import DeviceConfig
from dipair import checks, frozen_right, training
from dipair.config import StudentConfig, TrainConfig
from dipair.finished_run import FinishedRun
from dipair.student import DiPair
from dipair.study.kept import Kept

OWN = 'own'  # name and folder of the run's own student
FEATURES = 'features'  # folder of frozen encoders' outputs
_AFTER_STAGE1 = 'after_stage1'  # folder, in a student's own, of what it was between its stages


class Student(Kept):
  """A DiPair student; without flags of its own it is the run's.

  Args:
    run: As for `Kept`, likewise the next two.
    root: Folder of the students' folders.
    own: Its flags that differ from the run's; its seed may be one.
    devices: Arithmetic of its training.
    longer: Of one of stage 1 alone, the student of both: where that one is trained, this is what it
      was between the two.
  """

  def __init__(
    self,
    run: FinishedRun,
    root: str,
    own: dict[str, Any],
    devices: DeviceConfig | None = None,
    longer: 'Student | None' = None,
  ):
    self.longer = longer
    self.config = run.config(StudentConfig, **_of(StudentConfig, own))
    self.phases = run.config(TrainConfig, **_of(TrainConfig, own))
    self.phases.objective.check(run.table.task, run.table.outputs)
    seed = own.get('seed', run.flags['seed'])
    super().__init__(run, root, own, devices or DeviceConfig(), seed)
    self.weights = self._folder if own else run.path('student')
    if not own:
      self.name, self._folder = OWN, os.path.join(root, OWN)

  @property
  def folder(self) -> str:
    """Its own; of what another one was between its stages a folder in that one's, with which it goes."""
    longer = self._between
    return os.path.join(longer.folder, _AFTER_STAGE1) if longer else self._folder

  @property
  def design(self) -> dict[str, Any]:
    """Architecture and training; contents of its checkpoint, and of a right encoder that stays."""
    own = {**flags.flat(self.config), **flags.flat(self.phases)}
    return {
      **own,
      **encoders.contents(self.config.pretrained),
      **frozen_right.contents(self.config),
    }

  @property
  def tuples(self) -> dict[str, int]:
    """Of each stage."""
    phases = {'stage 1': self.phases.stage1, 'stage 2': self.phases.stage2}
    return {name: phase.steps * phase.batch_size for name, phase in phases.items() if phase.steps}

  @property
  def shared(self) -> list[str]:
    """Named by all that the outputs depend on, but for how many first tokens are kept."""
    config, folders = self.config, []
    for slot, layers in enumerate(config.depths):
      about = [slot, config.pretrained.replace('/', '_')]
      about += [*encoders.contents(config.pretrained).values(), layers, config.max_lengths[slot]]
      about += [config.token_selection, self.devices.precision]
      about += frozen_right.contents(config).values() if slot == 1 else ()
      if config.token_selection == 'last':
        about.append(config.output_tokens[slot])
      if encoders.is_random(config.pretrained):
        about += [self.seed, config.one_encoder, *config.depths]  # one seed, both in turn
      folders.append(os.path.join(self.root, FEATURES, '-'.join(map(str, about))))
    return folders if self.phases.stage1.steps else []

  @property
  def trained(self) -> bool:
    """The run's own is, and one that another one was between its stages."""
    return not self.own or self._between is not None or super().trained

  def check(self) -> None:
    """Refuses, as a run does, flags that could only fail when its turn comes, after others' hours."""
    table = self.run.table
    checks.check_texts(self.config, table)
    checks.check_start(self.config, table.outputs)
    if 'loss_temperature' in self.own:
      self.phases.objective.check_settings()
    check_loss(self.phases.objective, self.run, self.phases.batch_sizes)

  def fit(self, data: Training) -> None:
    """In two stages."""
    training.train(self.config, self.phases, self.folder, data, self.shared)

  def model(self) -> tuple[Any, Any]:
    """The trained student and its tokenizer."""
    longer = self._between
    found = DiPair.load(longer.weights if longer else self.weights)
    if longer:
      training.restore(os.path.join(longer.weights, 'stage1'), found[0])
    return found

  def scorer(self) -> tuple[SetScorer, dict[str, Any]]:
    """By the live model."""
    model, tokenizer = self.model()
    scorer = TupleScorer(model, tokenizer, tf.distribute.get_strategy())

    def of_set(records: RecordSet) -> np.ndarray:
      return scorer.head_logits(*self.gather(scorer, records))

    shapes = [model.vector_shape(slot) for slot in range(model.slots)]
    about = {
      'head_parameters': _count(model.head.trainable_variables),
      'bytes': [4 * int(np.prod(shape)) for shape in shapes],
    }
    return of_set, about

  def gather(self, live: TupleScorer, records: RecordSet) -> tuple[list[np.ndarray], np.ndarray]:
    """As of `TupleScorer`, a set's, from `shared` where these are there and its encoders as they were."""
    frozen = not self.phases.stage2.steps and self.devices.precision == 'float32'  # as here
    folders = self.shared if frozen and all(map(os.path.isdir, self.shared)) else []
    of = [os.path.join(folder, os.path.basename(records.folder)) for folder in folders]
    return live.gather(TokenizedTuples.of_set(records, live.tokenizer), of)

  def head(self) -> str:
    """Folder of its exported head, made where there is none; the run's own is in its export.

    But for a calibrated one: the others' scores are as trained, and so are the metrics beside them.
    """
    if not self.own and self.run.flags.get('calibration', calibration.NONE) == calibration.NONE:
      return self.run.path('export')
    folder = os.path.join(self.folder, 'head')
    if not os.path.exists(folder):
      with whole_folder(folder) as part, strategies.precision():
        student_export.write_head(part, self.model()[0], self.run.slots)
    return folder

  @property
  def _between(self) -> 'Student | None':
    """`longer`, where it is trained and has kept what it was between its stages."""
    if self.longer is None or not self.longer.trained:
      return None
    there = os.path.isdir(os.path.join(self.longer.weights, 'stage1', 'best'))
    return self.longer if there else None


def check_loss(
  objective: LossConfig, run: FinishedRun, batch_sizes: Mapping[str, int] | None = None
) -> None:
  """Refuses a loss, or batch sizes by flag, that the run's task or distillation set is not for."""
  objective.check(run.table.task, run.table.outputs)
  loss = objective.build(run.table.base_task)
  check_set(RecordSet(run.path('distill')), [loss], batch_sizes or {})


def _of(cls: type, own: dict[str, Any]) -> dict[str, Any]:
  """Those that are flags of a config class."""
  known = flags.flat(cls())
  return {name: value for name, value in own.items() if name in known}


def _count(variables: Sequence[tf.Variable]) -> int:
  return int(sum(np.prod(variable.shape) for variable in variables))
