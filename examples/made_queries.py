"""Queries made of titles, for a student that will meet new ones.

  python examples/made_queries.py train.tsv --left=search_term --right=product_title \\
    --output=made_queries.tsv

Each is one to six words of a title of the training table: neighbours, or any words in their order,
as many as a query of the table has. The teacher scores them with --unlabelled_texts:

  python -m dipair.run --train_file=train.tsv --text_columns=search_term,product_title \\
    --unlabelled_texts=search_term:made_queries.tsv …
"""

import argparse
import random
import re

from common.data import tables

SMALL = {'with', 'in', 'the', 'for', 'of', 'and', 'a'}
LONGEST = 6
ATTEMPTS = 20  # for each query; a table of few words has no more


def made(queries: list[str], titles: list[str], count: int, seed: int = 0) -> list[str]:
  """As many new queries, none twice; fewer where the titles have no more."""
  rng = random.Random(seed)
  known = {query.lower() for query in queries}
  lengths, titles = [len(query.split()) for query in sorted(known)], sorted(set(titles))
  found: dict[str, None] = {}
  for _ in range(ATTEMPTS * count):
    if len(found) == count:
      break
    words = re.sub(r'[^\w\.\-/ ]', ' ', rng.choice(titles).lower()).split()
    words = [word for word in words if word not in SMALL]
    size = max(1, min(rng.choice(lengths), LONGEST))
    if len(words) < size:
      continue
    if rng.random() < 0.5:
      start = rng.randrange(len(words) - size + 1)
      chosen = words[start : start + size]
    else:
      chosen = [words[place] for place in sorted(rng.sample(range(len(words)), size))]
    if (query := ' '.join(chosen)) not in known:
      found[query] = None
  return list(found)


def main() -> None:
  """Reads a table, writes a table of one column."""
  parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
  parser.add_argument('table', help='the training table')
  parser.add_argument('--left', required=True, help='column of the queries')
  parser.add_argument('--right', required=True, help='column of the titles')
  parser.add_argument('--count', type=int, default=30_000, help='queries to make')
  parser.add_argument('--output', required=True, help='.tsv file')
  args = parser.parse_args()
  columns = args.left, args.right
  rows = [row for _, row in tables.rows(args.table, columns=columns)]
  queries, titles = ([row[column] for row in rows] for column in columns)
  found = made(queries, titles, args.count)
  with open(args.output, 'w', encoding='utf-8') as file:
    file.writelines(f'{line}\n' for line in (args.left, *found))
  print(f'{args.output}: {len(found):,} queries, such as {", ".join(map(repr, found[:3]))}')


if __name__ == '__main__':
  main()
