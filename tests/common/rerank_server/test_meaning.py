"""What a score of 0.70 means: of the run's test pairs where they are known, else of the task."""

import pytest

from common import files
from common.errors import InputError
from common.rerank_server import meaning
from common.scoring.exported import Export


def export_of(folder, task, temperature=1.0):
  """An export that has a description alone."""
  description = {'kind': 'dipair', 'task': task, 'calibration': {'temperature': temperature}}
  export = Export(str(folder))
  export.description = description
  return export


@pytest.mark.parametrize(
  ('task', 'temperature', 'sentence'),
  [
    ('regression', 1.0, '70% of the way from the lowest label to the highest'),
    ('binary', 1.3, "about 70 match, where queries are like the run's validation set"),
    ('binary', 1.0, 'It is not calibrated'),
  ],
)
def test_an_export_alone_promises_what_its_task_and_calibration_do(
  task, temperature, sentence, tmp_path
):
  assert sentence in meaning.of_score(export_of(tmp_path / 'export', task, temperature))


ASKED = {'from': 0.65, 'to': 0.75, 'count': 1421, 'score': 0.7, 'outcome': 0.69}


@pytest.mark.parametrize(
  ('task', 'changes', 'sentence'),
  [
    ('binary', {}, "of the run's 1,421 test pairs that scored 0.65 to 0.75, 69% match."),
    (
      'regression',
      {},
      "the run's 1,421 test pairs that scored 0.65 to 0.75 have a mean label of 2.38, "
      'on a scale from 1 to 3.',  # 1 + 2 * 0.69
    ),
    ('binary', {'student': 'dse'}, 'not calibrated'),  # another export's neighbour
    ('binary', {'calibration': {}}, 'not calibrated'),  # the run did not look
    (
      'binary',
      {'calibration': {'models': {'student': {'asked': {**ASKED, 'count': 0}}}}},
      'not calibrated',
    ),
  ],
)
def test_an_export_in_its_runs_folder_shows_what_was_measured(task, changes, sentence, tmp_path):
  results = {
    'student': 'dipair',
    'task': task,
    'models': [{'name': 'teacher'}, {'name': 'student'}],
    'calibration': {'models': {'student': {'asked': ASKED}}},
    'flags': {'label_range': [1.0, 3.0]},
  }
  files.write_json(str(tmp_path / 'results.json'), {**results, **changes}, sealed=True)
  found = meaning.of_score(export_of(tmp_path / 'export', task))
  assert sentence in found


def test_damaged_results_are_refused_by_their_name(tmp_path):
  (tmp_path / 'results.json').write_text('{"student": ')
  with pytest.raises(InputError, match='results.json: damaged'):
    meaning.of_score(export_of(tmp_path / 'export', 'binary'))
