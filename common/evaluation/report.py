"""Report of a run: report.html (one file, nothing outside it), the model card, a summary.

All three show the same tables. An absent section (a teacher whose scores were brought, speed,
training, export) leaves its tables and pictures out.
"""

import os
from typing import Any

import numpy as np

from common import flags
from common.evaluation import figures, pages, tables
from common.evaluation.results import Results


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

  Args:
    results: The run's results.
    path: The file to write.
    release: Terms of `dipair.release`: 'archive', its name, 'runtime', 'license', 'data',
      'data_license'. None: a run's own card.
  """
  _write(path, 'card.md', results, release=release)


def summary_table(results: Results) -> str:
  """The title and the main table as plain text, for the terminal at the end of a run."""
  parts = [results.title, str(tables.tables(results)['Results'])]
  parts += [tables.unseen_line(results), tables.ranking_line(results)]
  return '\n\n'.join(filter(None, parts))


def _write(path: str, template: str, results: Results, **shown: Any) -> None:
  pages.write(
    path,
    os.path.join(pages.TEMPLATES, template),
    r=results,
    tables=tables.tables(results),
    flags=flags.lines(results.flags),
    **shown,
  )
