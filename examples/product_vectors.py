"""Vectors in place of texts: a student scores terms with products of which it sees a vector alone.

  python examples/product_vectors.py                         # uses the run of product_search.py
  python examples/product_vectors.py --toy --run_dir=runs/toy  # quick, useless scores

Yours would be of images or of users. These are made of the run's own product texts (an SVD of their
words), and the run's teacher, which has read the texts, has scored the pairs already.
"""

import argparse
import json
import os

import numpy as np
import product_search
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

import dipair
from common import flags
from common.data.records import RecordSet
from common.distillation.finished_run import FinishedRun
from dipair.config import StudentConfig, TrainConfig

SETS = {'valid': 'data/valid', 'test': 'data/test', 'distillation': 'distill'}


def tables(run: FinishedRun, folder: str, width: int) -> dict[str, str]:
  """Writes products.npy, an id a row in products.txt, and the run's tuples as tables of ids."""
  sets = {name: RecordSet(run.path(path)) for name, path in SETS.items()}
  numbers: dict[str, int] = {}  # of each product's text
  os.makedirs(folder, exist_ok=True)
  for name, records in sets.items():
    tuples, terms = records.tuples(), list(records.items(0).texts())
    products = [numbers.setdefault(text, len(numbers)) for text in records.items(1).texts()]
    with open(f'{folder}/{name}.jsonl', 'w', encoding='utf-8') as file:
      for row, (term, product) in enumerate(tuples.items):
        cells = {'term': terms[term], 'product': str(products[product])}
        if name == 'distillation':
          cells['score'] = float(1 / (1 + np.exp(-tuples.teacher_logits[row, 0])))
        else:
          cells['label'] = float(tuples.labels[row])
        file.write(json.dumps(cells) + '\n')
  words = TfidfVectorizer(sublinear_tf=True).fit_transform(numbers)
  vectors = TruncatedSVD(min(width, words.shape[1] - 1), random_state=0).fit_transform(words)
  np.save(f'{folder}/products.npy', vectors.astype(np.float32))
  with open(f'{folder}/products.txt', 'w', encoding='utf-8') as file:
    file.writelines(f'{number}\n' for number in range(len(numbers)))
  return {name: f'{folder}/{name}.jsonl' for name in sets}


def main(run_dir: str, toy: bool, width: int) -> None:
  """Prints test metrics of the run's student and a vector student, and a term's best product."""
  if not os.path.exists(f'{run_dir}/results.json'):
    product_search.distil(run_dir, toy)
  run, folder = FinishedRun(run_dir, 'dipair'), f'{run_dir}-vectors'
  of_terms, of_products = run.config(StudentConfig).output_tokens
  own = {**flags.flat(run.config(StudentConfig)), **flags.flat(run.config(TrainConfig))}
  own['max_lengths'] = run.flags['max_lengths'][0], of_products  # a vector becomes so many tokens
  files = tables(run, f'{folder}/tables', width)
  result = dipair.distill(
    **files,
    run_dir=f'{folder}/run',
    title=f'{run.results["title"].removeprefix("DiPair on ")}, products as vectors',
    task=run.flags['task'],
    text_columns=('term', 'product'),
    vector_columns=(f'product:{folder}/tables/products.npy',),
    teacher_logits_column='score',
    teacher_scores='probability',
    **own,
  )
  metric = result.results['primary_metric']
  for name, models in (('texts', run.results['models']), ('vectors', result.results['models'])):
    student = next(model for model in models if model['name'] == 'student')
    print(f'{name}: {metric} {student["test"][metric]:.3f}')
  with open(files['test'], encoding='utf-8') as file:
    term = json.loads(next(file))['term']
  vectors = np.load(f'{folder}/tables/products.npy')
  ((best, score),) = result.scorer().rank(term, vectors, top_k=1)
  print(f'{term}: product {best}, {score:.3f}')


if __name__ == '__main__':
  parser = argparse.ArgumentParser()
  parser.add_argument('--run_dir', default='runs/product_search')
  parser.add_argument('--toy', action='store_true')
  parser.add_argument('--width', type=int, default=256, help='numbers of a vector')
  main(**vars(parser.parse_args()))
