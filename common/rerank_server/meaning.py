"""Meaning of a score of 0.70, in one sentence, by what is known of an export."""

import os

from common import files
from common.scoring.exported import Export


def of_score(export: Export) -> str:
  """The outcome of the run's test pairs around 0.70; without its run, what the export promises.

  Args:
    export: Of one output. Its run is known where the export lies in the run's folder.

  Raises:
    InputError: If the run's results are damaged.
  """
  if measured := _measured(export):
    return measured
  if export.description['task'] == 'regression':
    return 'the label to expect lies 70% of the way from the lowest label to the highest.'
  if export.description['calibration']['temperature'] != 1:
    return "of 100 such pairs about 70 match, where queries are like the run's validation set."
  return (
    'the model expects 70 of 100 such pairs to match. It is not calibrated: choose thresholds on '
    'labelled pairs of your own.'
  )


def _measured(export: Export) -> str:
  """The sentence of the run's test; empty where no run is known, or no test pair scores so."""
  path = os.path.join(os.path.dirname(os.path.abspath(export.folder)), 'results.json')
  results = files.read_json(path) if os.path.isfile(path) else {}
  if results.get('student') != export.description['kind']:
    return ''
  models = results['calibration'].get('models', {})
  asked = models.get(results['models'][-1]['name'], {}).get('asked', {})
  if not asked.get('count'):
    return ''
  between = f'scored {asked["from"]:.2f} to {asked["to"]:.2f}'
  if results['task'] == 'binary':
    return (
      f"of the run's {asked['count']:,} test pairs that {between}, {asked['outcome']:.0%} match."
    )
  low, high = results['flags']['label_range']
  label = low + (high - low) * asked['outcome']
  return (
    f"the run's {asked['count']:,} test pairs that {between} have a mean label of {label:.2f}, "
    f'on a scale from {low:g} to {high:g}.'
  )
