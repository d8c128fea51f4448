"""Mining by its command, and as the first stage of a run whose flags are q2p's."""

import json
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf

from common import digests, files
from common.data.examples import TableConfig
from common.data.records import RecordSet
from common.distillation import embedders
from common.distillation.dataset import DataConfig
from common.distillation.mining import MiningConfig
from common.distillation.sources.mined import Mined
from common.errors import InputError
from dipair import mine

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOPICS = ('gout', 'asthma', 'measles', 'a stroke', 'acne', 'a cold')
ASPECTS = ('symptoms', 'causes', 'treatments', 'history', 'genetics')
TOY = (
  '--embedder=random-tiny --negative_quantile=0.9 --split_shares=0.5,0.25,0.25 --negatives_from=10 '
  '--transfer_per_query=5 --transfer_pairs=0 --teacher_pretrained=random-tiny '
  '--teacher_max_length=32 --teacher_batch_size=4 --teacher_steps=2 --teacher_warmup_steps=1 '
  '--pretrained=random-tiny --encoder_layers=2 --max_lengths=16,16 --output_tokens=2,3 '
  '--projection_dim=16 --stage1_steps=2 --stage1_warmup_steps=1 --stage1_batch_size=8 '
  '--stage1_eval_every=2 --stage2_steps=2 --stage2_warmup_steps=1 --stage2_batch_size=16 '
  '--stage2_eval_every=2 --annotation_runtime=litert-int8'
).split()


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
  assert 'shared queries: valid, test 0, train, test 0' in said
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


def test_a_run_from_a_folder_of_matches(tmp_path, python):
  run = tmp_path / 'run'
  flagfile = os.path.join(ROOT, 'configs', 'q2p.flags')
  args = ['-m', 'dipair.run', f'--flagfile={flagfile}', f'--run_dir={run}', *TOY]
  done = python(*args, f'--mine_from={questions(tmp_path)}')
  assert done.returncode == 0, done.stderr[-3000:]
  assert 'AUC-ROC (test)' in done.stdout
  results = json.loads((run / 'results.json').read_text())
  assert results['mined']['known'] == {'positive': 30, 'related': 0}
  assert results['data']['distillation'] == results['mined']['transfer']['pairs']
  assert results['annotation']['runtime'] == 'litert-int8'
  assert 0 < results['annotation']['logits_deviation'] < 0.01
  assert results['export']['unlike_texts'] == 0 < results['export']['compared_texts']
  assert [row['name'] for row in results['encoders']] == ['tensorflow', 'litert', 'litert-int8']
  unlabelled = RecordSet(str(run / 'unlabelled'))
  assert [len(unlabelled.items(slot)) for slot in (0, 1)] == [30, 30]  # of data, each text once
  assert not (run / 'unlabelled' / 'items').exists()
  groups = np.diff(unlabelled.tuples().groups)
  assert groups.tolist() == [len(unlabelled)]  # 80 neighbouring queries and their nearest
  with pytest.raises(
    InputError, match='--mine_from takes --task=binary and --text_columns=query,p'
  ):
    DataConfig(mining=MiningConfig(mine_from='x'))
