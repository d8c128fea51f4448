"""The weight of a first stage's scores, fitted on judged queries.

Dimensions: n candidates.
"""

import numpy as np

from common.evaluation.ranking import Candidates
from common.scoring.first_stage import FirstStageWeight

_METRIC = 'mrr@10'
_WEIGHTS = (0.0, *(2.0 ** np.arange(-4, 4.5, 0.5)))  # times the two deviations' ratio


def fitted(
  name: str, candidates: Candidates, logits: np.ndarray, scores: np.ndarray
) -> FirstStageWeight:
  """The weight with the highest mean MRR@10; of equal ones the least.

  Args:
    name: The first stage's.
    candidates: Candidates of judged queries, which nothing has learnt from.
    logits: [n]; -inf of one that is not ranked anew.
    scores: The first stage's, [n].
  """
  anew = np.isfinite(logits)
  scale = float(logits[anew].std() / max(scores[anew].std(), 1e-9))
  mean = float(scores[anew].mean())
  found = [FirstStageWeight(name, scale * times, mean) for times in _WEIGHTS]
  means = [
    candidates.evaluate(logits + one.terms(scores), (_METRIC,))[_METRIC].mean() for one in found
  ]
  return found[int(np.argmax(means))]
