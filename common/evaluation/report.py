"""Report of a run: report.html (one file, nothing outside it), the model card, a summary.

All three show the same tables, made from the run's `results`. An absent section (a teacher whose
scores were brought, speed, training, export) leaves its tables and pictures out.
"""

import os
from typing import Any

import numpy as np

from common import flags
from common.evaluation import figures, pages, ranking_tables, tables, unseen_table


def write_report(results: dict[str, Any], scores: dict[str, np.ndarray], path: str) -> None:
  """Writes the self-contained report.html: whole, or not at all.

  Args:
    results: the run's results.json. `title`, `student`, `task`, `primary_metric` and `models` are
      needed, the rest may be absent. The last model is the student as exported. A speed row
      belongs to the model that its first word names: 'teacher', or the student ('DiPair head');
      its 'ratio' is to BERT-base at 128 tokens. A training's rate is of `unit`s, or of pairs.
    scores: 'label', 'student' and, where there is one, 'teacher': floats [n] on test.
    path: the file to write.
  """
  pictures = {'Results': figures.quality(results, scores), 'Training': figures.curves(results)}
  pictures['Calibration'] = figures.reliability(results)
  _write(path, 'report.html', results, pictures=pictures, tiles=tables.tiles(results))


def write_model_card(
  results: dict[str, Any], path: str, release: dict[str, str] | None = None
) -> None:
  """Writes README.md, a model card in the Hugging Face manner: whole, or not at all.

  Args:
    results: as for `write_report`.
    path: the file to write.
    release: of `dipair.release`: 'archive', its name, 'runtime', 'license', 'data', 'data_license'.
  """
  _write(path, 'card.md', {**results, 'release': release or {}})


def summary_table(results: dict[str, Any]) -> str:
  """The title and the main table as plain text, for the terminal at the end of a run."""
  parts = [results['title'], grid(tables.tables(results)['Results'])]
  parts += [unseen_table.line(results), ranking_tables.line(results)]
  return '\n\n'.join(filter(None, parts))


def grid(table: tables.Table) -> str:
  """A table as plain text."""
  cells = [table.headers, *table.rows]
  widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
  lines = ['  '.join([r[0].ljust(widths[0]), *map(str.rjust, r[1:], widths[1:])]) for r in cells]
  return '\n'.join([lines[0], '-' * len(lines[0]), *lines[1:], table.note]).rstrip()


def _write(path: str, template: str, results: dict[str, Any], **shown: Any) -> None:
  known = {'commit': '', 'command': '', 'flags': {}} | results
  shown |= {
    'r': known,
    'tables': tables.tables(results),
    'flags': flags.lines(known['flags'] or {}),
  }
  pages.write(path, os.path.join(pages.TEMPLATES, template), **shown)
