"""Reranks a first stage's TREC run with an exported student of either kind.

  python -m common.rerank --export_dir=runs/mine/export --run=bm25.trec --queries=queries.tsv \\
    --documents=docs.tsv --output=reranked.trec --qrels=qrels.txt

Tables have a header with --id_column and --text_column, or are .tsv files of two columns without
one: id, text. The best --depth documents of each query are ranked anew, by probability; the others
follow in their order, by scores below 0. Where probabilities are one number, scores are a float32
apart, so that trec_eval reads the order of the logits; of equal logits, of the first stage.

With --fit_first_stage it first finds a weight for the run's own scores, by --qrels, and keeps it in
the export. From then on runs of that name are ranked by the sum of both.
"""

import dataclasses
import os

from common import files, flags
from common.data import trec
from common.errors import InputError, check_parent
from common.rerank import effect, texts
from common.rerank.reranker import FirstStage, Reranker
from common.scoring import exported, runtimes
from common.scoring.scorer import PairScorer


@dataclasses.dataclass(frozen=True)
class RerankConfig:
  """A run, its texts, and the model that reranks it."""

  export_dir: str = flags.option('', "a run's export", alias='export')
  run: str = flags.option('', "the first stage's run, in TREC's format")
  queries: str = flags.option('', "table of the queries' texts")
  documents: str = flags.option('', "table of the documents' texts; or --store")
  output: str = flags.option('', 'the reranked run')
  qrels: str = flags.option('', "judgements in TREC's format: metrics before and after are printed")
  store: str = flags.option('', 'vector store of the documents; without it they are encoded')
  id_column: str = flags.option('id', 'column of the ids')
  text_column: str = flags.option('text', 'column of the texts')
  fit_first_stage: bool = flags.option(
    False, "find a weight for the run's scores by --qrels, of queries that nothing has learnt from"
  )
  sum_first_stage: bool = flags.option(
    True, "rank by the sum with the run's scores, if the export has a weight for them"
  )
  depth: int = flags.option(100, 'documents of a query that are ranked anew', bounds=(1, 10**6))
  runtime: str = flags.option(
    '', "runtime of the head; empty: tensorflow, or an archive's own", ('', *runtimes.RUNTIMES)
  )
  encoder_runtime: str = flags.option(
    '',
    "runtime of the encoders; empty: tensorflow, or an archive's own",
    ('', *runtimes.RUNTIMES),
  )


def main(config: RerankConfig) -> None:
  """Reads and checks all, then reranks."""
  for name in ('export_dir', 'run', 'queries', 'output'):
    if not getattr(config, name):
      raise InputError(f'--{name} is needed')
  if config.fit_first_stage and not (config.qrels and config.sum_first_stage):
    raise InputError('--fit_first_stage: --qrels is needed, and --sum_first_stage')
  if bool(config.documents) == bool(config.store):
    raise InputError('--documents, which are encoded, or --store, which holds their vectors')
  if not files.is_remote(config.output):  # an object store has no folders
    check_parent(config.output, '--output')
  run = trec.read_run(config.run)
  first = FirstStage(run, config.depth)
  judged = effect.judgements(run, trec.read_qrels(config.qrels)) if config.qrels else None
  columns = config.id_column, config.text_column
  queries = texts.of_ids(config.queries, run, 'query', *columns)
  documents: list[str] = []
  if config.documents:
    documents = texts.of_ids(config.documents, run, 'document', *columns, first.reranked)
  export = exported.Export(config.export_dir)
  scorer = PairScorer.load(export, config.runtime, encoder_runtime=config.encoder_runtime)
  scorer.check_ranks_texts(f'--export_dir={config.export_dir}')
  kept = None
  if config.fit_first_stage:
    if not os.path.isdir(config.export_dir):
      raise InputError(f"--export_dir={config.export_dir}: the folder of a run's export is needed")
  elif config.sum_first_stage and (kept := scorer.first_stage_weight) and kept.name != run.name:
    raise InputError(
      f'--run={config.run}: of {run.name!r}; the export has a weight for {kept.name!r}: fit this '
      'one (--fit_first_stage), or rank by the model alone (--nosum_first_stage)'
    )
  if config.store:
    reranker = Reranker.of_store(scorer, first, config.store)
  else:
    reranker = Reranker.of_texts(scorer, first, documents)
  if config.fit_first_stage and judged:
    kept = reranker.fit(queries, judged)
    kept.write(config.export_dir)
    print(f'{kept.name}: weight {kept.weight:.3g}, kept in {config.export_dir}')
  reranker.weight = kept
  scores = reranker.write(config.output, queries)
  if judged:
    print(effect.table(judged, run.values, scores))
  print(f'reranked run: {config.output}')


if __name__ == '__main__':
  flags.command(main, RerankConfig)
