"""A table of queries and products becomes a search: distil a student, store the products, rank.

  python examples/product_search.py                           # a useful student
  python examples/product_search.py --toy --run_dir=runs/toy  # quick, useless ranking

The table is the built-in synthetic catalogue's; put your own in its place.
"""

import argparse
import dataclasses

import dipair
from common.data import catalog

REAL = {'flagfile': 'p2t'}  # sizes and steps, as in configs/p2t.flags
TOY = {'flagfile': 'smoke', 'head': 'ffnn', 'max_lengths': (16, 16), 'stage2_steps': 0}


def distil(run_dir: str, toy: bool):
  """Distils into `run_dir`; run again, it is done."""
  sizes = {'train': 256, 'valid': 64, 'test': 64} if toy else {}
  splits = catalog.splits(**sizes, distillation=1024 if toy else 16_000)
  # A row is a dict: {'id': …, 'term': 'nike shoes', 'product': 'Black …', 'relevance': 0.75}
  rows = {name: [dataclasses.asdict(pair) for pair in pairs] for name, pairs in splits.items()}
  return dipair.distill(
    train=rows['train'],  # rated: the teacher, a cross-encoder, is fine-tuned on them
    valid=rows['valid'],
    test=rows['test'],
    distillation=rows['distillation'],  # not rated: the student learns the teacher's scores of them
    run_dir=run_dir,
    text_columns=('term', 'product'),
    label_column='relevance',
    title='product search',
    **(TOY if toy else REAL),
  )


def stored(scorer: dipair.Scorer, run_dir: str):
  """Products that no training has seen, and the store of their vectors; run again, it is there."""
  products = sorted({pair.product for pair in catalog.splits(train=0, distillation=0)['test']})
  rows = ((str(number), product) for number, product in enumerate(products))  # id, text
  return products, scorer.encode_to(f'{run_dir}/products', rows, 'right', dtype='int8')


def main(run_dir: str, toy: bool) -> None:
  """Prints how well teacher and student agree with the ratings, and the best for three queries."""
  result = distil(run_dir, toy)
  for name in ('teacher', 'student'):
    print(f'{name}: Pearson {result.metrics[name]["test"]["pearson"]:.3f}')
  scorer = result.scorer()
  products, store = stored(scorer, run_dir)
  for query in ('nike shoes', 'black leather bag', 'large wooden desk'):
    print(f'\n{query}')
    for row, score in scorer.rank(query, store, top_k=3):
      print(f'  {score:.3f}  {products[row]}')


if __name__ == '__main__':
  parser = argparse.ArgumentParser()
  parser.add_argument('--run_dir', default='runs/product_search')
  parser.add_argument('--toy', action='store_true')
  main(**vars(parser.parse_args()))
