"""The public data of docs/results.md, as the flagfiles of configs/ read them.

  python examples/public_data.py homedepot train.csv
  python examples/public_data.py medquad MedQuAD

The first takes the `train.csv` of Kaggle's Home Depot Product Search Relevance. The second takes
the folder that `git clone https://github.com/abachaa/MedQuAD` makes. They become

* data/homedepot/{train,valid,test}.tsv: new products. No title is in two of them, most terms are.
* data/homedepot_queries/{train,valid,test}.tsv: new queries. No term and no title of train is in
  valid or test.
* data/medquad/questions_answers.tsv.

The files that were measured hold 66,430 of Home Depot's pairs and 14,810 of MedQuAD's; their
data/homedepot is another split by title.
"""

import argparse
import csv
import hashlib
import os
import pathlib
from collections.abc import Iterator
from xml.etree import ElementTree

from common.data.word_pieces import normal

COLUMNS = ('id', 'product_uid', 'product_title', 'search_term', 'relevance')
TITLE, TERM = 2, 3
Rows = list[list[str]]


def home_depot(sources: list[str], folder: str) -> None:
  """Writes Kaggle's rows twice: valid and test get a tenth each of titles, then of terms."""
  rows = [row for source in sources for row in _home_depot(source)]
  for split, found in _split(rows, TITLE).items():
    write(os.path.join(folder, f'{split}.tsv'), COLUMNS, found)
  by_term = _split(rows, TERM)
  titles = {normal(row[TITLE]) for row in by_term['train']}
  for split, found in by_term.items():
    kept = [row for row in found if split == 'train' or normal(row[TITLE]) not in titles]
    write(os.path.join(f'{folder}_queries', f'{split}.tsv'), COLUMNS, kept)


def _home_depot(source: str) -> Rows:
  """The rows of Kaggle's `train.csv`, or of a `.tsv` that this script wrote."""
  table = source.endswith('.tsv')
  with open(source, encoding='utf-8' if table else 'latin-1', newline='') as file:
    if table:
      header, *lines = (line.split('\t') for line in file.read().rstrip('\n').split('\n'))
      rows = [dict(zip(header, line, strict=True)) for line in lines]
    else:
      rows = list(csv.DictReader(file))
  return [[row[name] for name in COLUMNS] for row in rows]


def _split(rows: Rows, column: int) -> dict[str, Rows]:
  """Rows by the hash of a column's text: a tenth of the texts to valid, one to test."""
  found = {'train': [], 'valid': [], 'test': []}
  for row in rows:
    tenth = int(hashlib.sha256(normal(row[column]).encode()).hexdigest(), 16) % 10
    found[{0: 'valid', 1: 'test'}.get(tenth, 'train')].append(row)
  return found


def medquad(sources: list[str], folder: str) -> None:
  """Writes each question that comes with its answer, once."""
  found = sorted({pair for source in sources for pair in _pairs(pathlib.Path(source))})
  write(os.path.join(folder, 'questions_answers.tsv'), ('question', 'answer'), found)


def _pairs(source: pathlib.Path) -> Iterator[tuple[str, str]]:
  for path in source.glob('*/*.xml'):
    for pair in ElementTree.parse(path).iter('QAPair'):
      question, answer = (pair.findtext(name) or '' for name in ('Question', 'Answer'))
      if question.strip() and answer.strip():  # some answers may not be passed on
        yield ' '.join(question.split()), ' '.join(answer.split())


def write(path: str, columns, rows) -> None:
  """Writes a table without quoting: cells have no tabs and no ends of lines."""
  os.makedirs(os.path.dirname(path), exist_ok=True)
  with open(path, 'w', encoding='utf-8') as file:
    for cells in (columns, *rows):
      file.write('\t'.join(' '.join(cell.split()) for cell in cells) + '\n')
  print(f'{path}: {len(rows):,} rows')


if __name__ == '__main__':
  parser = argparse.ArgumentParser()
  parser.add_argument('of', choices=['homedepot', 'medquad'])
  parser.add_argument('source', nargs='+', help="Kaggle's train.csv, or MedQuAD's folder")
  parser.add_argument('--output', default='data', help='gets a folder of that name')
  flags = parser.parse_args()
  {'homedepot': home_depot, 'medquad': medquad}[flags.of](
    flags.source, os.path.join(flags.output, flags.of)
  )
