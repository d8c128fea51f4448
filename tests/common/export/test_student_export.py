"""A student's two SavedModels: their signatures, another precision, more texts than two."""

import os

import numpy as np
import tensorflow as tf

from common.export import student_export
from common.scoring.scorer import PairScorer
from common.training import strategies

LEFT = ['red', 'wide footwear', 'nike shoes', '']
RIGHT = ['black nike shoes for boys', 'red throw', 'x', 'wide red boots and more words']


def test_signatures_and_their_names(exported):
  folder, model, tokenizer, _ = exported
  attends = model.name == 'dipair'
  encoder = tf.saved_model.load(os.path.join(folder, 'encoder', '1'))
  head = tf.saved_model.load(os.path.join(folder, 'head', '1'))
  assert set(encoder.signatures) == {
    f'{side}{kind}' for side in ('left', 'right') for kind in ('', '_ids', *['_tokens'] * attends)
  }
  if attends:
    tokens = encoder.signatures['left_tokens'](text=tf.constant(['a', 'Red']))['tokens'].numpy()
    assert [b''.join(row) for row in tokens] == [b'[CLS]a[SEP]', b'[CLS]r##e']
  ids = tokenizer.encode(tf.constant(RIGHT), model.max_lengths[1]).to_tensor(tokenizer.pad_id)
  by_ids = encoder.signatures['right_ids'](ids=ids)['vectors']
  by_text = encoder.signatures['right'](text=tf.constant(RIGHT))['vectors']
  np.testing.assert_allclose(by_ids, by_text, atol=1e-6)
  outputs = head.signatures['serving_default'](
    left=by_ids[:, :3] if attends else by_ids, right=by_ids
  )
  assert {name: value.shape for name, value in outputs.items()} == {'logits': (4, 1), 'score': (4,)}
  words = model.encoders[0].encoder.network.get_embedding_table().shape[0]
  stored = tf.train.list_variables(f'{folder}/head/1/variables/variables')
  assert all(words not in shape for _, shape in stored)  # no embedding table


def test_an_encoder_may_be_exported_in_bfloat16(export, tmp_path):
  folder, model, tokenizer, _ = export('dipair')
  with strategies.precision('mixed_bfloat16'):
    encoder, _ = type(model).from_pretrained(model.config, 1)
  for variable, value in zip(encoder.variables, model.variables, strict=True):
    variable.assign(value)
  slots, samples = ('left', 'right'), (LEFT, RIGHT)
  student_export.write(
    str(tmp_path),
    model,
    tokenizer,
    slots=slots,
    task='regression',
    samples=samples,
    encoder=encoder,
  )
  exact, narrow = (PairScorer.load(path).encode(RIGHT, 'right') for path in (folder, str(tmp_path)))
  assert narrow.dtype == np.float32
  np.testing.assert_allclose(narrow, exact, atol=0.1)
  assert np.abs(narrow - exact).max() > 1e-5


def test_three_texts_and_three_classes(build, tmp_path):
  model, tokenizer = build(
    'dipair', outputs=3, max_lengths=(8, 8, 8), output_tokens=(2, 2, 3), shared_encoder=False
  )
  slots, samples = ('query', 'context', 'answer'), (LEFT, RIGHT, LEFT)
  student_export.write(
    str(tmp_path), model, tokenizer, slots=slots, task='multiclass', samples=samples
  )
  scores = PairScorer.load(str(tmp_path)).score(*samples)
  assert scores.shape == (4, 3)
  np.testing.assert_allclose(scores.sum(1), 1, atol=1e-5)
