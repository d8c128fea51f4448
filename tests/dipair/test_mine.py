"""Mining by its command, and as the first stages of a run."""

import dataclasses
import json
import os
import shutil
import types

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from common import digests, files
from common.data.examples import TableConfig
from common.data.records import RecordSet
from common.data.tokenization import Tokenizer
from common.distillation import embedders, run
from common.distillation.config import ExperimentConfig
from common.distillation.dataset import DataConfig
from common.distillation.mining import MiningConfig
from common.distillation.run_folder import RunFolder
from common.distillation.sources.mined import Mined
from common.distillation.teacher import Teacher
from common.errors import InputError
from common.modeling import checkpoints
from common.training import strategies
from dipair import mine

TOPICS = ('gout', 'asthma', 'measles', 'a stroke', 'acne', 'a cold')
ASPECTS = ('symptoms', 'causes', 'treatments', 'history', 'genetics')
TOY = {
  'embedder': 'random-tiny',
  'negative_quantile': 0.9,
  'negatives_from': 10,
  'transfer_per_query': 5,
}


def questions(folder):
  pairs = [
    (f'What are the {aspect} of {topic}?', f'The {aspect} of {topic} are many.')
    for topic in TOPICS
    for aspect in ASPECTS
  ]
  lines = ['question\tanswer', *map('\t'.join, pairs)]
  (folder / 'qa.tsv').write_text('\n'.join(lines) + '\n', encoding='utf-8')
  return str(folder)


def test_mined_with_an_exported_encoder(exported, tmp_path, capsys, python):
  embedder = shutil.copytree(exported[0], tmp_path / 'embedder')
  config = MiningConfig(
    mine_from=questions(tmp_path),
    embedder=str(embedder),
    negatives_from=20,
    negative_quantile=0.9,
  )
  out = str(tmp_path / 'out')
  mine.main(mine.MineConfig(out, 7, config))
  said = capsys.readouterr().out
  assert '30 queries, 30 passages, 30 matches' in said
  vectors = embedders.load(exported[0]).encode(['The causes of acne are many.'], 'right')
  assert vectors.shape == (1, 8)
  first, *_ = (tmp_path / 'out' / 'pairs' / 'train.jsonl').read_text('utf-8').splitlines()
  assert set(json.loads(first)) == {'id', 'query', 'passage', 'similarity', 'label'}
  mine.main(mine.MineConfig(out, 7, config))  # does nothing
  done = [f'{name}: done' for name in ('data', 'unlabelled', 'pairs')]
  assert capsys.readouterr().out.splitlines() == [*done, f'pairs: {out}/pairs']
  again = python('-m', 'dipair.mine', f'--run_dir={out}', f'--mine_from={tmp_path}', '--seed=8')
  assert again.returncode == 2
  assert 'made with other flags (embedder was' in again.stderr
  matches = (tmp_path / 'qa.tsv').read_text()
  (tmp_path / 'qa.tsv').write_text(matches.replace('many', 'few'))
  with pytest.raises(
    InputError, match=f'other flags .sha256 of {tmp_path}/qa.tsv was .* --redo makes data,'
  ):
    mine.main(mine.MineConfig(out, 7, config))
  (tmp_path / 'qa.tsv').write_text(matches)
  (embedder / digests.NAME).write_text('of another')
  with pytest.raises(InputError, match=f'other flags .contents of {embedder} was'):
    mine.main(mine.MineConfig(out, 7, config))


def test_matches_in_a_bucket_are_there_and_told_apart():
  folder = 'ram://bucket/matches'  # in memory, by TensorFlow's file systems as gs:// is
  tf.io.gfile.makedirs(folder)
  for path in (folder, f'{folder}/qa.tsv'):
    config, found = MiningConfig(mine_from=path), []
    for text in ('one', 'another'):
      with files.opened(f'{folder}/qa.tsv', 'w') as file:
        file.write(text)
      found.append(Mined(config, TableConfig()).labelled_inputs())
    one, other = found
    assert one != other
  with pytest.raises(InputError, match='^--mine_from=ram://bucket/none: no such file or folder'):
    Mined(MiningConfig('ram://bucket/none'), TableConfig()).labelled_inputs()


def test_a_run_mines_its_data_and_scores_them_in_int8(tmp_path):
  tf_keras.utils.set_random_seed(1)
  tiny, path = checkpoints.read('random-tiny'), str(tmp_path / 'teacher')
  Teacher(tiny.config, Tokenizer(tiny.vocabulary, tiny.lower_case), 32, outputs=1).save(path)
  mining = MiningConfig(questions(tmp_path), split_shares=(0.5, 0.25, 0.25), **TOY)
  config = ExperimentConfig(
    data=DataConfig(mining=mining),
    teachers=(path,),
    annotation=dataclasses.replace(ExperimentConfig().annotation, annotation_runtime='litert-int8'),
  )
  strategy = strategies.create(config.devices)
  student = types.SimpleNamespace(losses=(), batch_sizes={}, depends_on={})
  folder = RunFolder(str(tmp_path / 'run'), config, 'toy.run', redo=False)
  stages = run.declare(folder, config, student, strategy)
  del folder.stages[3:]
  folder.make()
  mined, scored = stages.unlabelled.result.mined, stages.distill.result
  assert (config.task.kind, config.data.table.text_columns) == ('binary', ('query', 'passage'))
  assert mined['known'] == {'positive': 30, 'related': 0}
  assert scored.count == len(RecordSet(stages.distill.folder)) == mined['transfer']['pairs']
  assert scored.runtime == 'litert-int8' and 0 < scored.logits_deviation < 0.01
  unlabelled = RecordSet(stages.unlabelled.folder)
  assert [len(unlabelled.items(slot)) for slot in (0, 1)] == [30, 30]  # of data, each text once
  assert not os.path.exists(f'{stages.unlabelled.folder}/items')
  groups = np.diff(unlabelled.tuples().groups)
  assert groups.tolist() == [len(unlabelled)]  # 80 neighbouring queries and their nearest
  with pytest.raises(
    InputError, match='--mine_from takes --task=binary and --text_columns=query,p'
  ):
    DataConfig(mining=MiningConfig(mine_from='x'), table=TableConfig(text_columns=('a', 'b')))
