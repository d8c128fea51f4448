"""What a student asks of its distillation set."""

import pytest

from common.data import record_writer
from common.data.examples import Example
from common.data.records import RecordSet
from common.distillation.student import check_set
from common.errors import InputError
from common.modeling.list_losses import MarginMSE
from common.modeling.losses import CrossEntropy


@pytest.mark.parametrize(
  ('losses', 'stage2', 'message'),
  [
    ([], 3, '^--stage2_batch_size=3: there are 2 tuples to learn from$'),
    ([MarginMSE()], 2, '^the distillation set: each left text stands in one tuple alone'),
    ([CrossEntropy('label')], 2, r'/distill: holds tuples without a label, and --alpha=0 \(DSE'),
  ],
)
def test_a_set_that_is_of_no_use_is_refused(tmp_path, losses, stage2, message):
  folder = str(tmp_path / 'distill')
  rows = [Example('', ('a', 'b'), 0.5, (0.0,)), Example('', ('c', 'd'), None, (0.0,))]
  record_writer.write_sets(folder, {'': record_writer.of_examples(rows)}, 2)
  sizes = {'stage1_batch_size': 2, 'stage2_batch_size': stage2}
  with pytest.raises(InputError, match=message):
    check_set(RecordSet(folder), losses, sizes)
