"""The first ranking: a student that is trained already ranks answers to a question.

  python examples/first_ranking.py 'what are the symptoms of gout'
  python examples/first_ranking.py 'nike shoes' \\
    --export_dir=runs/p2t/export --input=products.tsv --text_column=title

The student was distilled from MedQuAD's questions and answers. It needs no TensorFlow
(docs/how-to/runtimes.md).
"""

import argparse

import dipair
from common import errors
from common.data import tables


def main(query: str, export_dir: str, input: str, text_column: str) -> None:
  """Prints the three texts of a table that answer a query best."""
  texts = [row[text_column] for _, row in tables.rows(input)]
  # A run's export, or an archive of one; the runtimes that take no TensorFlow.
  scorer = dipair.Scorer.load(export_dir, 'litert-int8', encoder_runtime='litert-int8')
  vectors = scorer.encode(texts, side='right')  # once per text, whatever is asked
  for row, score in scorer.rank(query, vectors, top_k=3):
    print(f'{score:.3f}  {texts[row]}')


if __name__ == '__main__':
  parser = argparse.ArgumentParser()
  parser.add_argument('query', nargs='?', default='what causes gout')
  parser.add_argument('--export_dir', default='medquad')
  parser.add_argument('--input', default='examples/answers.tsv')
  parser.add_argument('--text_column', default='text')
  with errors.told():  # what is wrong, in one line
    main(**vars(parser.parse_args()))
