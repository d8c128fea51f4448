"""The public data of docs/results.md, as the flagfiles of configs/ read them.

  python examples/public_data.py homedepot train.csv
  python examples/public_data.py medquad MedQuAD

The first is the `train.csv` of Kaggle's Home Depot Product Search Relevance; the second a folder, by
`git clone https://github.com/abachaa/MedQuAD`. They become data/homedepot/{train,valid,test}.tsv, no
title in two of them, and data/medquad/questions_answers.tsv. The files that were measured are others
of the same sources: 66,430 of Home Depot's pairs and 14,810 of MedQuAD's, and other splits.
"""

import argparse
import csv
import hashlib
import os
import pathlib
from collections.abc import Iterator
from xml.etree import ElementTree

COLUMNS = ('id', 'product_uid', 'product_title', 'search_term', 'relevance')


def home_depot(source: str, folder: str) -> None:
  """Writes Kaggle's rows by title, as some products have several numbers: a tenth to valid, one to test."""
  rows = {'train': [], 'valid': [], 'test': []}
  with open(source, encoding='latin-1', newline='') as file:
    for row in csv.DictReader(file):
      title = ' '.join(row['product_title'].split())
      tenth = int(hashlib.sha256(title.encode()).hexdigest(), 16) % 10
      rows[{0: 'valid', 1: 'test'}.get(tenth, 'train')].append([row[name] for name in COLUMNS])
  for split, found in rows.items():
    write(os.path.join(folder, f'{split}.tsv'), COLUMNS, found)


def medquad(source: str, folder: str) -> None:
  """Writes each question that comes with its answer, once."""
  found = sorted(set(_pairs(pathlib.Path(source))))
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
  parser.add_argument('source', help="Kaggle's train.csv, or MedQuAD's folder")
  parser.add_argument('--output', default='data', help='gets a folder of that name')
  flags = parser.parse_args()
  {'homedepot': home_depot, 'medquad': medquad}[flags.of](
    flags.source, os.path.join(flags.output, flags.of)
  )
