"""Ranks a few titles for a query, with an export of one score behind TensorFlow Serving.

  python examples/serving/client.py localhost:8500 p2t 'nike shoes'

The local server does as well. The second argument is what the models' names start with.
"""

import sys

from common.serving.client import Client

TITLES = ('black nike shoes for boys', 'red throw', 'wide red boots', 'blue queen blanket')


def main(target: str = 'localhost:8500', name: str = 'p2t', query: str = 'nike shoes') -> None:
  """Prints the titles with their scores, best first."""
  client = Client(target, name)
  vectors = client.encode(TITLES, 'right')  # once, to be stored
  scores, order = client.rank(query, vectors)
  for row in order:
    print(f'{scores[row]:.3f}  {TITLES[row]}')


if __name__ == '__main__':
  main(*sys.argv[1:])
