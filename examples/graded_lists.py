"""Queries with graded candidates: a student that learns to order each query's list, judged by NDCG.

  python examples/graded_lists.py                                     # a useful student
  python examples/graded_lists.py --toy --run_dir=runs/toy_lists      # quick, useless scores

The table is made up here, so that it runs as it is. Put your own in its place, with rows in any
order.
"""

import argparse
import itertools
import random

import dipair

COLOURS = ('red', 'blue', 'green', 'black', 'white', 'grey')
THINGS = ('running shoes', 'rain coat', 'table lamp', 'coffee mug', 'garden chair', 'school bag')
SELLERS = ('by Acme', 'on sale', 'for children', 'made of oak and steel')
REAL = {'flagfile': 'p2t', 'stage1_batch_size': 96, 'stage2_batch_size': 96}
TOY = {'flagfile': 'smoke', 'head': 'ffnn', 'max_lengths': (16, 16), 'stage2_steps': 0}


def rows(colours: tuple[str, ...], candidates: int) -> list[dict]:
  """Graded rows: 3 has thing and colour, 2 the thing alone, 1 the colour alone, 0 neither."""
  rng, found = random.Random(len(colours)), []
  offers = list(itertools.product(COLOURS, THINGS, SELLERS))
  for colour, thing in itertools.product(colours, THINGS):
    near = [offer for offer in offers if colour in offer or thing in offer]
    half = candidates // 2
    for other, kind, seller in sorted({*rng.sample(near, half), *rng.sample(offers, half)}):
      grade = 2 * (kind == thing) + (other == colour)
      row = {'query': f'{colour} {thing}', 'title': f'{other} {kind} {seller}', 'grade': grade}
      found.append(row)
  rng.shuffle(found)
  return found


def main(run_dir: str, toy: bool) -> None:
  """Distils, then prints how well teacher and student order the test queries' candidates."""
  candidates = 8 if toy else 48
  result = dipair.distill(
    train=rows(COLOURS[:4], candidates),
    valid=rows(COLOURS[4:5], candidates),
    test=rows(COLOURS[5:], candidates),
    distillation_pairs=0,  # the student learns from the graded lists themselves
    run_dir=run_dir,
    text_columns=('query', 'title'),
    label_column='grade',
    label_range=(0, 3),
    loss='listwise_kl',  # of the teacher's scores of a list …
    alpha=0.5,  # … and as much of the grades
    primary_metric='ndcg@10',  # picks checkpoints, stops training
    title='graded lists',
    **(TOY if toy else REAL),
  )
  for name in ('teacher', 'student'):
    print(f'{name}: NDCG@10 {result.metrics[name]["test"]["ndcg@10"]:.3f}')


if __name__ == '__main__':
  parser = argparse.ArgumentParser()
  parser.add_argument('--run_dir', default='runs/graded_lists')
  parser.add_argument('--toy', action='store_true')
  main(**vars(parser.parse_args()))
