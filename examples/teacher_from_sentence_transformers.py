"""A cross-encoder of sentence-transformers teaches a DiPair student, which then ranks, in Python.

  pip install sentence-transformers
  python examples/teacher_from_sentence_transformers.py

The tables are made up here, so that it runs as it is; put your own in their place.
"""

import itertools
from typing import Any

from sentence_transformers import CrossEncoder

import dipair

COLOURS = ('red', 'blue', 'green', 'black', 'white')
THINGS = ('running shoes', 'rain coat', 'table lamp', 'coffee mug', 'garden chair')
SELLERS = ('by Acme', 'on sale', 'for children', 'made of oak and steel')


def rows(colours: tuple[str, ...]) -> list[dict[str, Any]]:
  """Queries with titles; the label is the share of what is asked for that the title has."""
  asked = list(itertools.product(colours, THINGS))
  offered = itertools.product(colours, THINGS, SELLERS)
  return [
    {
      'query': f'{colour} {thing}',
      'title': f'{other} {kind} {seller}',
      'label': ((colour == other) + (thing == kind)) / 2,
    }
    for (other, kind, seller), (colour, thing) in itertools.product(offered, asked)
  ]


def main(run_dir: str = 'runs/from_sentence_transformers', **flags: Any) -> None:
  """Distils into `run_dir`; run again, it is done. `flags` are those of `dipair.run`."""
  teacher = CrossEncoder('cross-encoder/ms-marco-MiniLM-L6-v2')  # its scores are logits
  pairs, held = rows(COLOURS[:3]), rows(COLOURS[3:])
  result = dipair.distill(
    train=pairs,
    valid=held[::2],
    test=held[1::2],
    distillation=pairs,
    teacher=teacher.predict,
    run_dir=run_dir,
    text_columns=('query', 'title'),
    **{'stage1_steps': 200, 'stage2_steps': 20, 'stage2_eval_every': 10, **flags},
  )
  print(result.metrics['student']['test'])
  titles = [row['title'] for row in held[::10]]
  for row, score in result.scorer().rank('white coffee mug', titles, top_k=3):
    print(f'{score:.3f}  {titles[row]}')


if __name__ == '__main__':
  main()
