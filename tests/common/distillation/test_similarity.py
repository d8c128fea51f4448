"""The cosine of a tuple's texts as a part of a teacher's logits."""

import numpy as np
import pytest

from common.data.examples import Example
from common.data.task import Task
from common.data.tokenization import Tokenizer
from common.data.tuple_set import MemorySet
from common.distillation import similarity, teacher
from common.distillation.similarity import Similarity
from common.evaluation.judged_set import JudgedSet
from common.modeling import checkpoints
from tests.conftest import PRODUCTS, TERMS

TINY = 'random-tiny'
PAIRS = [(term, product) for term in TERMS for product in PRODUCTS]


def of(texts, labels=None):
  labels = np.zeros(len(texts)) if labels is None else labels
  return MemorySet('', [Example('', one, label) for one, label in zip(texts, labels, strict=True)])


class Letters:
  """An embedder: counts of letters."""

  def encode(self, texts, advance=lambda texts: None):
    advance(len(texts))
    counts = np.array([[1 + text.count(letter) for letter in 'abdehiklnortuw'] for text in texts])
    return (counts / np.linalg.norm(counts, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(autouse=True)
def _letters(monkeypatch):
  monkeypatch.setattr(similarity, 'MeanPooledEncoder', lambda path: Letters())


def slow_cosines(texts):
  encoder, found = Letters(), []
  for left, *others in texts:
    (u,), right = encoder.encode([left]), encoder.encode(others).mean(0)
    found.append(u @ right / np.linalg.norm(right))
  return np.array(found)


@pytest.mark.parametrize('texts', [PAIRS, [(*pair, 'nike') for pair in PAIRS]])
def test_a_similarity_is_a_weight_times_the_cosine_of_the_first_and_the_others(texts):
  records = of(texts)
  found = Similarity(TINY, 2.5).on(records)(records.tuples().items[3:])
  np.testing.assert_allclose(found[:, 0], 2.5 * slow_cosines(texts)[3:], rtol=2e-3)


def test_a_similarity_is_kept_where_valid_gains_by_it(capsys):
  rng, cosines = np.random.default_rng(0), slow_cosines(PAIRS)
  near = (cosines - cosines.min()) / np.ptp(cosines)
  logits = 3 * near[:, None] + rng.normal(size=[len(PAIRS), 1])
  for labels, gains in ((near, True), (1 - near, False)):
    records = of(PAIRS, labels)
    found = similarity.fitted(TINY, logits, records, JudgedSet(records, Task('regression')))
    assert bool(found) == gains
    assert ('added' if gains else 'left out') in capsys.readouterr().out
    if found:
      own, scale, bias = found
      mixed = scale * logits[:, 0] + bias + own.weight * cosines
      before, after = (np.corrcoef(z, labels)[0, 1] for z in (logits[:, 0], mixed))
      assert after > before
      residual = labels - 1 / (1 + np.exp(-mixed))  # the regression's own conditions
      for feature in (np.ones(len(labels)), logits[:, 0], cosines):
        assert abs(residual @ feature) / len(labels) < 2e-3


def test_a_teacher_adds_its_similarity_wherever_it_scores_a_set(tmp_path):
  pretrained = checkpoints.read(TINY)
  tokenizer = Tokenizer(pretrained.vocabulary, pretrained.lower_case)
  one = teacher.Teacher(pretrained.config, tokenizer, 32, 1)
  one.similarity = Similarity(TINY, 1.5)
  one.save(str(tmp_path))
  loaded = teacher.Teacher.load(str(tmp_path))
  assert loaded.similarity == Similarity(str(tmp_path / 'similarity'), 1.5)
  plain = teacher.Teacher.load(str(tmp_path))
  plain.similarity = None
  cosines = slow_cosines(PAIRS)
  alone = teacher.of_texts([plain], PAIRS)[:, 0]
  np.testing.assert_allclose(
    teacher.of_texts([loaded], PAIRS)[:, 0], alone + 1.5 * cosines, rtol=2e-3, atol=2e-3
  )
  both = teacher.of_texts([loaded, plain], PAIRS)[:, 0]
  np.testing.assert_allclose(both, alone + 0.75 * cosines, rtol=2e-3, atol=2e-3)
