"""A bi-encoder of sentence-transformers, fine-tuned on labelled pairs; in the peers' environment.

  PEERS/bin/python benchmarks/peers/bi_encoder.py given.json

`given.json` holds 'weights', 'max_length', 'seed', 'epochs', 'train', 'valid' and 'test', each of
these with 'pairs' and 'labels' in [0, 1], and 'output': a file that gets the cosines of test's
pairs. The epoch with the best Spearman correlation on valid is kept.
"""

import json
import os
import sys
import tempfile

import torch
from datasets import Dataset
from sentence_transformers import (
  SentenceTransformer,
  SentenceTransformerTrainer,
  SentenceTransformerTrainingArguments,
  util,
)
from sentence_transformers.sentence_transformer import evaluation, losses


def main(path: str) -> None:
  """Fine-tunes, and writes the cosines."""
  with open(path, encoding='utf-8') as file:
    given = json.load(file)
  torch.set_num_threads(len(os.sched_getaffinity(0)))
  model = SentenceTransformer(given['weights'], device='cpu')
  model.max_seq_length = given['max_length']
  left, right = zip(*given['train']['pairs'], strict=True)
  rows = {'sentence1': left, 'sentence2': right, 'score': given['train']['labels']}
  judge = evaluation.EmbeddingSimilarityEvaluator(
    *zip(*given['valid']['pairs'], strict=True), given['valid']['labels'], name='valid'
  )
  with tempfile.TemporaryDirectory() as folder:
    settings = SentenceTransformerTrainingArguments(
      output_dir=folder,
      num_train_epochs=given['epochs'],
      per_device_train_batch_size=32,
      learning_rate=2e-5,
      warmup_steps=0.1,
      seed=given['seed'],
      use_cpu=True,
      eval_strategy='epoch',
      save_strategy='epoch',
      save_total_limit=1,
      load_best_model_at_end=True,
      metric_for_best_model='eval_valid_spearman_cosine',
      report_to='none',
      logging_steps=50,
    )
    SentenceTransformerTrainer(
      model=model,
      args=settings,
      train_dataset=Dataset.from_dict(rows),
      loss=losses.CosineSimilarityLoss(model),
      evaluator=judge,
    ).train()
  of_left, of_right = (
    model.encode(list(texts), convert_to_tensor=True)
    for texts in zip(*given['test']['pairs'], strict=True)
  )
  with open(given['output'], 'w', encoding='utf-8') as file:
    json.dump(util.pairwise_cos_sim(of_left, of_right).tolist(), file)


if __name__ == '__main__':
  main(sys.argv[1])
