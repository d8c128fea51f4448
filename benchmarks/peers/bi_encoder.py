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
from typing import Any

import torch
from datasets import Dataset
from sentence_transformers import (
  SentenceTransformer,
  SentenceTransformerTrainer,
  SentenceTransformerTrainingArguments,
  util,
)
from sentence_transformers.sentence_transformer import evaluation, losses


def fine_tune(given: dict[str, Any]) -> SentenceTransformer:
  """A bi-encoder on the train pairs: cosine against the label, the library's usual recipe.

  Args:
    given: 'weights', 'max_length', 'train', and where they are other than 0, 1 and none 'seed',
      'epochs' and 'valid', by which the best epoch is kept.
  """
  model = SentenceTransformer(given['weights'], device='cpu')
  model.max_seq_length = given['max_length']
  left, right = zip(*given['train']['pairs'], strict=True)
  rows = {'sentence1': left, 'sentence2': right, 'score': given['train']['labels']}
  judge, judged = None, {'save_strategy': 'no'}
  if valid := given.get('valid'):
    judge = evaluation.EmbeddingSimilarityEvaluator(
      *zip(*valid['pairs'], strict=True), valid['labels'], name='valid'
    )
    judged = {
      'eval_strategy': 'epoch',
      'save_strategy': 'epoch',
      'save_total_limit': 1,
      'load_best_model_at_end': True,
      'metric_for_best_model': 'eval_valid_spearman_cosine',
    }
  with tempfile.TemporaryDirectory() as folder:
    settings = SentenceTransformerTrainingArguments(
      output_dir=folder,
      num_train_epochs=given.get('epochs', 1),
      per_device_train_batch_size=32,
      learning_rate=5e-5,
      warmup_steps=0.1,
      seed=given.get('seed', 0),
      use_cpu=True,
      report_to='none',
      logging_steps=50,
      **judged,
    )
    SentenceTransformerTrainer(
      model=model,
      args=settings,
      train_dataset=Dataset.from_dict(rows),
      loss=losses.CosineSimilarityLoss(model),
      evaluator=judge,
    ).train()
  return model


def main(path: str) -> None:
  """Fine-tunes, and writes the cosines."""
  with open(path, encoding='utf-8') as file:
    given = json.load(file)
  torch.set_num_threads(len(os.sched_getaffinity(0)))
  model = fine_tune(given)
  of_left, of_right = (
    model.encode(list(texts), convert_to_tensor=True)
    for texts in zip(*given['test']['pairs'], strict=True)
  )
  with open(given['output'], 'w', encoding='utf-8') as file:
    json.dump(util.pairwise_cos_sim(of_left, of_right).tolist(), file)


if __name__ == '__main__':
  main(sys.argv[1])
