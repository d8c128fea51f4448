"""The labelled sets, and the tuples that the teacher will score."""

import dataclasses

import tf_keras

from common.data.records import RecordSet
from common.data.tuples import check_lists
from common.distillation import dataset
from common.distillation.dataset import DataConfig
from common.distillation.run_folder import Stage
from common.distillation.sources.source import UnlabelledSet
from common.distillation.stages.run import Run
from common.errors import InputError


@dataclasses.dataclass(frozen=True)
class LabelledSets:
  """Tuples in each set."""

  counts: dict[str, int]


class Data(Stage[LabelledSets]):
  """`train`, `valid`, `test` and what other sets the source has, with their items.

  Args:
    shared: The run.
    config: The source.
    teaches: Whether a teacher is fine-tuned on the training set.
  """

  name, result = 'data', LabelledSets

  def __init__(self, shared: Run, config: DataConfig, teaches: bool):
    super().__init__(shared.folder, [], {**config.labelled_inputs(), **shared.seed_flags})
    self.shared, self.config, self.teaches = shared, config, teaches
    self.resumes = bool(config.mining.mine_from)  # of vectors

  def run(self, folder: str) -> LabelledSets:
    seed = self.shared.seed
    tf_keras.utils.set_random_seed(seed)  # an embedder of random weights is the same again
    made = LabelledSets(dataset.write_labelled(self.config, folder, seed))
    self.check(folder)
    return made

  def check(self, folder: str) -> None:
    """Refuses sets that the run's flags, of which the sets themselves do not depend on all, cannot use."""
    self.shared.check_sets(folder, teaches=self.teaches)


class Unlabelled(Stage[UnlabelledSet]):
  """A set of its own, so that more pairs cost no new teacher.

  Args:
    shared: The run.
    config: The source.
    data: The labelled sets.
    labelled: Whether every tuple must have a label, as the student learns from them.
    batch_sizes: Tuples of a step of the student, by flag, which there must be.
    compares: Whether a loss compares a left text's tuples, so that some must share one.
  """

  name, result, resumes = 'unlabelled', UnlabelledSet, False

  def __init__(
    self,
    shared: Run,
    config: DataConfig,
    data: Data,
    labelled: bool,
    batch_sizes: dict[str, int],
    compares: bool,
  ):
    super().__init__(shared.folder, [data], {**config.unlabelled_inputs(), **shared.seed_flags})
    self.shared, self.config, self.data, self.labelled = shared, config, data, labelled
    self.batch_sizes, self.compares = batch_sizes, compares

  def run(self, folder: str) -> UnlabelledSet:
    data, seed = self.data.folder, self.shared.seed
    self.data.check(data)
    tf_keras.utils.set_random_seed(seed)  # likewise
    made = dataset.write_unlabelled(self.config, data, folder, seed, self.labelled)
    check_batch_sizes(self.batch_sizes, made.count)
    if self.compares:
      check_lists(RecordSet(folder).tuples())
    return made


def check_batch_sizes(batch_sizes: dict[str, int], tuples: int) -> None:
  """Refuses a step of more tuples, by flag, than the distillation set has."""
  for flag, size in batch_sizes.items():
    if size > tuples:
      raise InputError(f'--{flag}={size}: the distillation set has {tuples} tuples')
