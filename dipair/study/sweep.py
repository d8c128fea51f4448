"""Learning rates and batch sizes of both stages by Optuna (§4.4), judged on valid."""

import hashlib
import json
import os
import shutil
from typing import Any

from common import extras, flags
from common.data.records import RecordSet
from common.errors import InputError
from common.evaluation import metrics
from dipair.config import StudentConfig, TrainConfig
from dipair.study.plan import Plan, differing
from dipair.study.students import FEATURES, Student

with extras.needed('sweep'):
  import optuna
  from optuna.trial import TrialState as State

_ASKED, _MOST_ASKED = 'asked again', 3  # a trial's attribute: how often its parameters were before
_RATES = {'stage1': (1e-4, 1e-2), 'stage2': (1e-5, 2e-4)}  # more undoes the first stage
_BATCHES = {'stage1': (128, 256, 512), 'stage2': (128, 256, 512, 1024)}


def sweep(plan: Plan, trials: int) -> list[str]:
  """Trains students until there are so many, or goes on with them.

  A stage sees as many tuples as the run's whatever its batch size. Trials are in `sweep.db`, of other
  flags or another distillation set apart; one that was killed, stopped or failed is asked for again, three
  times at the most, and goes on in its folder. One without a metric counts, and is never the best.

  Args:
    plan: Of the study.
    trials: How many there will be.

  Returns:
    The best one's flags, as a flagfile's lines.

  Raises:
    InputError: If no trial has a metric.
  """
  run, base = plan.run, {**flags.flat(plan.run.config(TrainConfig)), **plan.config.steps}
  primary = run.results['primary_metric']
  optuna.logging.set_verbosity(optuna.logging.WARNING)
  of_run = run.stage('distill')['fingerprint']
  tuples = len(RecordSet(run.path('distill')))
  about = [flags.flat(run.config(StudentConfig)), base, plan.devices.precision, primary, of_run]
  digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
  found = optuna.create_study(
    storage=f'sqlite:///{os.path.join(plan.root, "sweep.db")}',
    study_name=f'sweep {digest.hexdigest()[:16]}',
    load_if_exists=True,
    direction='minimize' if primary in metrics.LESS_IS_BETTER else 'maximize',
    sampler=optuna.samplers.TPESampler(),
  )
  # A seed of its own for every start, or the first trials would be drawn again.
  found.sampler = optuna.samplers.TPESampler(seed=run.flags['seed'] + len(found.trials))
  for trial in found.get_trials(states=[State.RUNNING]):  # killed
    found.tell(trial.number, state=State.FAIL)
  _ask_again(found)
  done = len(found.get_trials(states=[State.COMPLETE, State.PRUNED]))

  def valid(trial: optuna.Trial) -> float:
    own = {**suggested(trial, base, tuples), 'precision': plan.devices.precision}
    student = Student(run, plan.root, differing(run, own), plan.devices)
    print(f'trial {trial.number + 1} of {trials}: {student.name}')
    student.train()
    value = student.result()['valid'][primary]
    if value is None:  # a NaN
      raise optuna.TrialPruned
    return value

  found.optimize(valid, n_trials=max(0, trials - done))
  shutil.rmtree(os.path.join(plan.root, FEATURES), ignore_errors=True)  # up to --stage1_cache_gb
  if not found.get_trials(states=[State.COMPLETE]):
    raise InputError(f'--sweep={trials}: {primary} of valid is undefined for every trial; try more')
  best = suggested(optuna.trial.FixedTrial(found.best_params), base, tuples)
  print(f'the best of {trials} on valid: {found.best_value:.4f}')
  return flags.lines({n: float(f'{v:.6g}') if isinstance(v, float) else v for n, v in best.items()})


def _ask_again(study: optuna.Study) -> None:
  """Has the last trial's parameters tried next where it failed, but not those that fail each time."""
  last = study.trials[-1] if study.trials else None
  if last is None or last.state != State.FAIL:
    return
  asked = last.user_attrs.get(_ASKED, 0)
  if asked < _MOST_ASKED:
    study.enqueue_trial(last.params, user_attrs={_ASKED: asked + 1})


def suggested(
  trial: optuna.Trial | optuna.trial.FixedTrial, base: dict[str, Any], tuples: int
) -> dict[str, Any]:
  """Flags of a trial; steps, warm-up and evaluations of as many tuples as by the flags `base`.

  No batch is larger than a distillation set of so many `tuples`.
  """
  made: dict[str, Any] = {}
  for stage, rates in _RATES.items():
    if not base[f'{stage}_steps']:
      made[f'{stage}_steps'] = 0
      continue
    batches = tuple(size for size in _BATCHES[stage] if size <= tuples) or (tuples,)
    batch = trial.suggest_categorical(f'{stage}_batch_size', batches)
    made[f'{stage}_learning_rate'] = trial.suggest_float(f'{stage}_learning_rate', *rates, log=True)
    made[f'{stage}_batch_size'] = batch
    for name in ('steps', 'warmup_steps', 'eval_every'):
      seen = base[f'{stage}_{name}'] * base[f'{stage}_batch_size']
      made[f'{stage}_{name}'] = max(1, round(seen / batch))
  return made
