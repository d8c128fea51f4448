"""The labelled sets, and the tuples that the teacher will score."""

from collections.abc import Collection

import tf_keras

from common.data.records import RecordSet
from common.distillation import dataset
from common.distillation.dataset import DataConfig, LabelledSets
from common.distillation.run_folder import Stage
from common.distillation.sources.source import UnlabelledSet
from common.distillation.stages.run import Run
from common.distillation.student import check_set, labels_of
from common.modeling.losses import Loss


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
    made = dataset.write_labelled(self.config, folder, seed)
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
    losses: The student's.
    batch_sizes: Tuples of a step of the student, by flag, which there must be.
  """

  name, result, resumes = 'unlabelled', UnlabelledSet, False

  def __init__(
    self,
    shared: Run,
    config: DataConfig,
    data: Data,
    losses: Collection[Loss],
    batch_sizes: dict[str, int],
  ):
    super().__init__(shared.folder, [data], {**config.unlabelled_inputs(), **shared.seed_flags})
    self.shared, self.config, self.data = shared, config, data
    self.losses, self.batch_sizes = losses, batch_sizes

  def check_made(self) -> None:
    """Refuses tuples that are of no use to the student: its flags may have changed since they were made."""
    check_set(RecordSet(self.folder), self.losses, self.batch_sizes)

  def run(self, folder: str) -> UnlabelledSet:
    data, seed = self.data.folder, self.shared.seed
    self.data.check(data)
    tf_keras.utils.set_random_seed(seed)  # likewise
    made = dataset.write_unlabelled(self.config, data, folder, seed, labels_of(self.losses))
    check_set(RecordSet(folder), self.losses, self.batch_sizes)
    return made
