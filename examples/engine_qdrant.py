"""MaxSim or DE-Cos inside Qdrant: the engine's own order is the order of `scorer.rank`.

  python -m dipair.run --flagfile=p2t --head=max_sim --run_dir=runs/max_sim  # or --head=cosine
  pip install qdrant-client
  python examples/engine_qdrant.py 'what causes gout' --export_dir=runs/max_sim/export

It runs in the client's memory; `QdrantClient('http://localhost:6333')` is a server. Which head goes
into which engine: docs/how-to/search_engines.md.
"""

import argparse
import tempfile

import numpy as np
from pyarrow import parquet
from qdrant_client import QdrantClient, models

from common import errors
from common.data import tables
from common.scoring.scorer import PairScorer


def uploaded(client: QdrantClient, path: str) -> None:
  """Puts the rows of a Parquet file into the collection `texts`; a token is a vector."""
  file = parquet.ParquetFile(path)
  for batch in file.iter_batches(1024, columns=['id', 'vectors']):
    ids, vectors = batch['id'].to_pylist(), batch['vectors'].to_pylist()
    if not client.collection_exists('texts'):
      tokens = isinstance(vectors[0][0], list)  # of one vector a text there are none
      maximum = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
      # DOT, as parts have length 1 already, and DOT takes a short query's zero rows as 0.
      size, dot = len(vectors[0][0] if tokens else vectors[0]), models.Distance.DOT
      of = models.VectorParams(
        size=size, distance=dot, multivector_config=maximum if tokens else None
      )
      client.create_collection('texts', vectors_config=of)
    points = zip(ids, vectors, strict=True)
    client.upsert('texts', [models.PointStruct(id=int(key), vector=v) for key, v in points])


def main(query: str, export_dir: str, input: str, text_column: str) -> None:
  """Prints Qdrant's five best of a table's texts; ends with an error if `rank` has others."""
  texts = [row[text_column] for _, row in tables.rows(input)]
  scorer = PairScorer.load(export_dir, 'litert-int8', encoder_runtime='litert-int8')
  client = QdrantClient(':memory:')
  with tempfile.TemporaryDirectory() as folder:
    rows = ((str(number), text) for number, text in enumerate(texts))
    store = scorer.encode_to(f'{folder}/store', rows, 'right', progress=False)
    store.to_parquet(f'{folder}/parts.parquet', lambda vectors: scorer.parts(vectors, 'right'))
    uploaded(client, f'{folder}/parts.parquet')
    scores = dict(scorer.rank(query, store, top_k=len(texts)))
  part = scorer.parts(scorer.encode([query], 'left'), 'left')[0]
  found = client.query_points('texts', part.tolist(), limit=len(texts)).points
  for point in found[:5]:
    print(f'{scores[point.id]:.3f}  {texts[point.id]}')
  # Texts of one score may stand either way, so scores are compared, place by place.
  apart = np.abs(np.array([scores[point.id] for point in found]) - [*scores.values()]).max()
  if apart > 1e-5:
    raise errors.InputError(
      f'{export_dir}: another order than rank has; is its head MaxSim or DE-Cos?'
    )
  print(f'the same order as rank, of {len(found)} texts')


if __name__ == '__main__':
  parser = argparse.ArgumentParser()
  parser.add_argument('query', nargs='?', default='what causes gout')
  parser.add_argument('--export_dir', default='runs/max_sim/export')
  parser.add_argument('--input', default='examples/answers.tsv')
  parser.add_argument('--text_column', default='text')
  with errors.told():  # what is wrong, in one line
    main(**vars(parser.parse_args()))
