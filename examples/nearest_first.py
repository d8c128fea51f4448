"""A first stage by nearest neighbours: fewer products are scored; how many of the best are lost?

  python examples/nearest_first.py                           # uses the run of product_search.py
  python examples/nearest_first.py --toy --run_dir=runs/toy  # a quick trial, random weights

FAISS finds the products whose vectors are nearest to the query's; the head ranks these.
"""

import argparse

import product_search

from common.data import catalog
from common.vectors.neighbors import Index

TOP_K = 10


def main(run_dir: str, toy: bool) -> None:
  """Prints the share of the queries' true best ten that is found, by the shortlist's length."""
  scorer = product_search.distil(run_dir, toy).scorer()
  _, store = product_search.stored(scorer, run_dir)
  queries = sorted({pair.term for pair in catalog.splits(train=0, distillation=0)['test']})[:100]
  every = scorer.rank(queries, store, TOP_K)  # scores all products for each query
  index = Index.of_store(store)
  for shortlist in (len(store) // 20, len(store) // 5, len(store)):
    near = scorer.rank(queries, store, TOP_K, first_stage=index, shortlist=shortlist)
    found = sum(len(dict(a).keys() & dict(b).keys()) for a, b in zip(every, near, strict=True))
    print(
      f'{shortlist} of {len(store)} scored: recall@{TOP_K} {found / (TOP_K * len(queries)):.3f}'
    )


if __name__ == '__main__':
  parser = argparse.ArgumentParser()
  parser.add_argument('--run_dir', default='runs/product_search')
  parser.add_argument('--toy', action='store_true')
  main(**vars(parser.parse_args()))
