"""Report of a run: report.html (one file, nothing outside it), the model card, a summary.

All three show the same tables. An absent section (a teacher whose scores were brought, speed,
training, export) leaves its tables and pictures out.
"""

import math
import os
from typing import Any

import numpy as np

from common import flags
from common.evaluation import figures, pages, tables
from common.evaluation.cells import label
from common.evaluation.results import Results

_ON_HUB = {'pearson': 'pearsonr', 'spearman': 'spearmanr', 'auc_roc': 'roc_auc'}


def write_report(results: Results, scores: dict[str, np.ndarray], path: str) -> None:
  """Writes the self-contained report.html: whole, or not at all.

  Args:
    results: The run's results.
    scores: 'label', 'student' and, where there is one, 'teacher': floats [n] on test.
    path: The file to write.
  """
  pictures = {
    'Results': figures.quality(results, scores),
    'Training': figures.curves(results),
    'Calibration': figures.reliability(results),
  }
  _write(path, 'report.html', results, pictures=pictures, tiles=tables.tiles(results))


def write_model_card(results: Results, path: str, release: dict[str, str] | None = None) -> None:
  """Writes README.md, a model card in the Hugging Face manner: whole, or not at all.

  Its front matter is the hub's metadata. A release's has no figures, which are of the run's own
  export, and not of the archive in int8.

  Args:
    results: The run's results.
    path: The file to write.
    release: Terms of `dipair.release`: 'archive', its name, 'runtime', 'license', 'data',
      'data_license'. None: a run's own card.
  """
  evaluated = [] if release else _evaluated(results)
  _write(path, 'card.md', results, release=release, evaluated=evaluated)


def summary_table(results: Results) -> str:
  """The title and the main table as plain text, for the terminal at the end of a run."""
  parts = [results.title, str(tables.tables(results)['Results'])]
  parts += [tables.unseen_line(results), tables.ranking_line(results)]
  return '\n\n'.join(filter(None, parts))


def _evaluated(results: Results) -> list[tuple[str, str, float]]:
  """The exported student's metrics on test: the hub's name, the name shown, the value."""
  student = results.models[-1]
  ranking = {name: of['value'] for name, of in student.get('ranking', {}).get('test', {}).items()}
  return [
    (_ON_HUB.get(name, name), label(name), round(value, 4))
    for name, value in {**student.get('test', {}), **ranking}.items()
    if value is not None and math.isfinite(value)
  ]


def _write(path: str, template: str, results: Results, **shown: Any) -> None:
  pages.write(
    path,
    os.path.join(pages.TEMPLATES, template),
    r=results,
    tables=tables.tables(results),
    flags=flags.lines(results.flags),
    **shown,
  )
