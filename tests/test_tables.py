"""The committed tables and figures: what the files under benchmarks/results give, and nothing else."""

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from benchmarks import speed_tables, summary, tables
from benchmarks.committed import ROOT, read
from common.evaluation.cells import mean, moved


@pytest.mark.parametrize('path', ['README.md', 'docs/results.md', 'docs/scaling.md'])
def test_a_file_is_what_the_command_writes(path):
  with open(f'{ROOT}/{path}', encoding='utf-8') as file:
    assert file.read() == tables.written()[path], 'run python -m benchmarks.tables'


_DIPAIRS = (
  '4x12',
  '4x12_from_wide',
  '4x8',
  '4x8_from_wide',
  'catalogue',
  'dense',
  'ensemble',
  'long',
  'nearest',
  'wide',
)


def _made(name: str) -> dict[str, Any]:
  found = read(name)
  assert found, name
  return found


def _named(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
  return {row['name']: row for row in rows}


def _span(values: list[float]) -> str:
  return f'{min(values):.1f} to {max(values):.1f}'


def _of_runs() -> Iterator[tuple[str, str]]:
  minutes = sum(_made('stages')['runs'][0]['seconds'].values()) / 60
  yield 'README.md', f'It takes about {minutes:.0f} minutes on two fast cores'
  int8 = next(row for row in _made('scoring')['rank'] if row['name'] == 'DiPair, litert-int8')
  yield 'README.md', f'the int8 head ranks 1,000 stored candidates in {int8["p50"]:.0f} ms'
  hours = {row['name']: row['core_hours'] for row in _made('cost')['rows'] if row['pairs'] == 1e9}
  ours, crossed = hours['DiPair, int8'], hours['MiniLM-L6 cross-encoder, 128 tokens, int8']
  text = f'about {ours:.0f} core-hours, the int8 cross-encoder {float(f"{crossed:.2g}"):,.0f}'
  yield 'README.md', text
  first = _made('retrieval')['rows'][0]['metrics']['mrr@10']['value']
  yield 'README.md', f'the first stage alone has {first:.3f}'
  rows = [line.split(' | ') for line in summary.models().splitlines()[3:5]]
  own, lite = (float(row[2].replace(',', '')) for row in rows)
  yield 'README.md', f'`--head=lite`, which is {lite / own:.0f} times faster'
  asked = _made('q2p')['calibration']['models']['student']['asked']
  scored = f'scored {asked["from"]} to {asked["to"]} by the student'
  yield 'docs/training.md', f'{scored}, {asked["outcome"]:.0%} are positive'
  found = {
    of['model']: moved(of['delta'], of['low'], of['high'])
    for of in _made('homedepot_compared')['differences']
    if (of['run'], of['baseline']) == ('homedepot_4x12m', 'homedepot_4x12')
  }
  yield 'docs/training.md', f'to 0.557 ({found["student"]}); after stage 1 alone'
  yield (
    'docs/training.md',
    f'to 0.557 and 0.545 ({found["student, stage 1"]}; [against one another]',
  )
  (of,) = _made('homedepot_stages')['differences']
  yield (
    'docs/training.md',
    f'({moved(of["delta"], of["low"], of["high"])}, not told apart; [one stage',
  )
  encoders = _named(_made('homedepot')['encoders'])
  exact, int8 = encoders['tensorflow'], encoders['litert-int8']
  of_test = f'for a test metric of {int8["test"]:.3f} against {exact["test"]:.3f}'
  ratios: dict[bool, list[float]] = {True: [], False: []}
  for name in ('homedepot', *(f'homedepot_{run}' for run in _DIPAIRS)):
    made = _made(name)
    ratio = _named(made['encoders'])['litert-int8']['ratio']
    ratios['Intel' in made['environment']['cpu']].append(ratio)
  ((without,), of) = ratios[False], ratios[True]
  texts = f'{min(of):.1f} to {max(of):.1f} times as many texts a second as TensorFlow'
  yield 'docs/serving.md', f'int8 encodes {texts}'
  yield 'docs/serving.md', f'and {without:.1f} times with AVX2 alone, {of_test}'
  runs = [made for made in map(_made, summary.RUNS) if made['flags']['head'] == 'transformer']
  speeds = [_named(made['speed']) for made in runs]
  tensorflow, litert, int8 = (
    [speed[f'DiPair head, {runtime}']['ratio'] for speed in speeds]
    for runtime in ('tensorflow', 'litert', 'litert-int8')
  )
  float32 = _span([a / b for a, b in zip(litert, tensorflow, strict=True)])
  int8 = _span([a / b for a, b in zip(int8, litert, strict=True)])
  text = (
    f"is {float32} times as fast in LiteRT's float32 as in TensorFlow, and in int8 {int8} times"
  )
  yield 'docs/architecture.md', text


def _starts(name: str, step: int) -> tuple[str, str]:
  """Of two seeds each: from random weights, and from DiPair's starting point."""
  rows = sorted(_made(f'{name}_starting_point')['rows'], key=lambda row: row['seed'])
  random, own = (
    [f'{dict(row["curve"])[step]:.3f}' for row in rows if (row['start'] == 'random') == is_random]
    for is_random in (True, False)
  )
  return ' and '.join(random), ' and '.join(own)


def _of_starts() -> Iterator[tuple[str, str]]:
  random, own = _starts('p2t', 400)
  yield 'docs/architecture.md', f'{random} from random weights (two seeds), {own} from here'
  random, own = _starts('p2t', 50)
  yield 'docs/architecture.md', f'after 50 steps {random} against {own}'
  random, own = _starts('homedepot', 400)
  yield 'docs/architecture.md', f'on Home Depot, after 400, {random} against {own}'


def _of_heads() -> Iterator[tuple[str, str]]:
  made = _made('frontier')
  small = next(row for row in made['rows'] if (row['dim'], row['inner']) == (128, 256))
  head = small['heads']['litert-int8']
  assert small['layers'] == 2 and len(made['rows']) == 11
  text = f'scores {round(head["ratio"], -2):,.0f} times as many pairs a second as BERT-base in int8'
  loss = 1 - head['test'] / made['teacher']
  yield 'docs/serving.md', f"{text}, for {loss:.1%} of its teacher's metric ([eleven sizes]"
  made = _made('study_q2p')
  lite, own = (made['speed']['students'][name] for name in ('head=lite', 'own'))
  float32, int8 = (lite[r]['ratio'] / own[r]['ratio'] for r in ('litert', 'litert-int8'))
  text = f'at {float32:.0f} times its pairs a second in float32 and {int8:.0f} times in int8'
  loss = -_named(made['comparisons']['table2']['rows'])['MaxSim']['delta']['test']
  yield 'docs/serving.md', f'{text}; MaxSim (`--head=max_sim`) loses {loss:.1%} there'
  rows = _named(_made('study_homedepot_seeds')['comparisons']['table2']['rows'])
  own, lite, max_sim = (
    f'{-rows[name]["delta"]["test"]:.1%}' for name in ('DiPair, transformer', 'LITE', 'MaxSim')
  )
  yield 'docs/serving.md', f'with encoders frozen it loses {own}, LITE {lite}, MaxSim {max_sim}'
  made = _made('study_queries')
  rows = _named(made['comparisons']['students']['rows'])
  two, five, own = (
    f'{made["students"][rows[name]["students"][0]]["test"]["pearson"]:.3f}'
    for name in ('2 layers', '5 layers', "as the run's")
  )
  one, *_, six = _made('query_depth')['rows']
  text = (
    f'come to {two} and {five}, where the student has {own}. In int8 a query takes all six layers '
  )
  yield (
    'docs/serving.md',
    f'{text}{six["litert-int8"]:.2f} ms, and one layer in TensorFlow {one["tensorflow"]:.2f}',
  )
  rows = _named(_made('scoring')['rows'])
  for name in ('DiPair, Keras layers', 'DiPair, litert', 'DiPair, parts, litert'):
    yield 'docs/architecture.md', f' | {rows[name]["mflop"]:.1f} |'
  whole, split = (rows[f'DiPair FFNN, {name}']['mflop'] for name in ('litert', 'parts, litert'))
  yield 'docs/architecture.md', f'{whole:.2f} MFLOP a pair become {split:.2f}'


def _of_training() -> Iterator[tuple[str, str]]:
  made = _made('study_labels')
  rows, found = _named(made['comparisons']['students']['rows']), {}
  for name, row in rows.items():
    found[name] = [made['students'][student]['test']['pearson'] for student in row['students']]
  alone, half = found.pop("as the run's"), found.pop('labels half')
  assert min(half) > max(value for of in found.values() for value in of)  # 'each seed of it'
  kept = rows['labels half']['delta']['test'] / rows["as the run's"]['delta']['test']
  assert 0.3 < kept < 0.37  # 'takes away two thirds'
  teacher = made['teacher']['test']['pearson']
  of = ' to '.join(f'{np.mean(values):.3f}' for values in (alone, half))
  yield 'docs/training.md', f'student from {of}, where its teacher has {teacher:.3f} ('
  made = _made('study_both_stages')
  rows = _named(made['comparisons']['students']['rows'])
  best = rows['both stages labels half']
  low, high = best['interval']['test']
  assert low < 0 < high and (best['closest'], best['p_closest']) == ('both stages', 0)
  tests = (made['students'][row['students'][0]]['test'] for row in (rows['both stages'], best))
  of = ' to '.join(f'{test["pearson"]:.3f}' for test in tests)
  yield 'docs/training.md', f'with both stages from {of} ('
  made = _made('study_shipped')
  alone, own = (made['students'][name]['test'] for name in ('alpha=1.0', 'own'))
  best = _named(made['comparisons']['students']['rows'])["as the run's"]
  first, both = _made('homedepot_labels')['models'][1]['test'], f'{alone["pearson"]:.3f}'
  yield 'docs/results.md', f'of the labels comes to {first["pearson"]:.3f} on test, where both'
  assert f'{first["pearson"]:.3f}' == both
  assert best['closest'] == 'scores alone' and alone['ndcg@10'] > own['ndcg@10']
  of = f'from {alone["pearson"]:.3f} to {own["pearson"]:.3f} in both stages of 5,000 steps in all'
  teacher = f'{made["teacher"]["test"]["pearson"]:.3f} (p {best["p_closest"]:.2f}; [one seed]'
  yield 'docs/training.md', f'{of}, where the teacher has {teacher}'
  made, own = _made('homedepot_shipped_compared'), _made('homedepot_all')
  of = next(of for of in made['differences'] if of['model'] == 'student')
  teacher, one, both = (f'{model["test"]["pearson"]:.3f}' for model in own['models'])
  earlier, before = (of['test'] for of in made['models'] if of['run'] == 'homedepot')
  of = f'({moved(of["delta"], of["low"], of["high"])}; [one seed]'
  yield 'docs/training.md', f'comes to {both} where it came to {before:.3f} {of}'
  yield (
    'docs/training.md',
    f'its teacher to {teacher}. After stage 1 alone, of seven minutes, it comes to {one}',
  )
  tests = {name: of['test']['pearson'] for name, of in _made('study_stage_1')['students'].items()}
  first, scores, tokens = (
    tests[f'{other}stage2_steps=0{more}']
    for other, more in (('', ''), ('alpha=1.0-', ''), ('', '-token_selection=first'))
  )
  gains = [first / scores, tokens / earlier, first / tokens]
  labels, titles, the_mean = (f'{gain - 1:.1%}' for gain in gains)
  yield 'docs/results.md', f'So labels and titles give {labels} and {titles}, which'
  yield (
    'docs/results.md',
    f'is not tested one by one, and the mean {the_mean}, which is within chance',
  )
  made = _made('study_narrow')
  again, wide = (
    made['students'][row['students'][0]] for row in made['comparisons']['students']['rows']
  )
  assert wide['valid']['pearson'] < again['valid']['pearson']  # 'on valid the other'
  assert made['comparisons']['students']['rows'][1]['interval']['test'][0] > -0.015
  of = [f'{of["test"]["pearson"]:.3f}' for of in (wide, again)]
  yield 'docs/training.md', f'of 256 come to {of[0]} on test, 4 and 12 of 128 to {of[1]}, both in'
  whole = own['models'][-1]['test']['pearson']
  yield 'docs/results.md', f"config's student again, {whole:.3f} in float32, and one of 4 and 8"
  yield 'docs/results.md', f'moves the shipped one by {whole - again["test"]["pearson"]:.3f}'
  parameters = wide['head_parameters'] / again['head_parameters']
  yield 'docs/results.md', f'and the head has {parameters:.1f} times the parameters'
  rows = _named(_made('going_on')['rows'])
  start, seeds, averaged, wrong = (
    rows[name]['test']
    for name in ('stage 1', 'all pairs', 'all pairs, mean of the weights', 'the 300,032 most wrong')
  )
  assert averaged[0] > max(seeds + start)  # 'above each of them and above stage 1'
  assert max(wrong) < min(seeds)  # 'on test below them'
  ends = zip(rows['all pairs']['valid'], seeds, strict=True)
  assert [*ends].count((*rows['stage 1']['valid'], *start)) == 1  # 'one of all pairs' is'
  whole, further = (mean(row['test']) for row in _made('teachers_minilm_further')['rows'])
  yield 'docs/training.md', f'comes to {further} on test, of MiniLM as it is to {whole} ('
  whole, further = (mean(row['test']) for row in _made('teachers_minilm_medquad')['rows'])
  yield 'docs/training.md', f"and MedQuAD's to {further} and {whole} ("
  rows = _named(_made('training')['rows'])
  found = {f'{rows[f"{name}: bfloat16 / float32"]["ratio"]:.1f}' for name in ('teacher', 'stage 2')}
  assert len(found) == 1
  yield 'docs/training.md', f'[{found.pop()} times as fast](results.md#training)'
  rows = _named(_made('training_epyc')['rows'])
  teacher, second = (
    f'{rows[f"{name}: bfloat16 / float32"]["ratio"]:.1f}' for name in ('teacher', 'stage 2')
  )
  yield 'docs/training.md', f'avx512_bf16: {teacher} times for a teacher, {second} for stage 2'
  lstm, own = (
    f'{-_made(name)["models"][-1]["delta"]["test"]:.1%}'
    for name in ('homedepot_bilstm_catalogue', 'homedepot_catalogue')
  )
  yield 'docs/training.md', f"it loses {lstm}, and DiPair's six layers of the same pairs lose {own}"


def _of_sizes() -> Iterator[tuple[str, str]]:
  megabytes = round(_made('light')['installed'] / 1e6)
  yield 'README.md', f'the environment is {megabytes} MB'
  yield 'docs/serving.md', f'[{megabytes} MB](results.md#a-process-that-scores-without-tensorflow)'
  archive = os.path.getsize(f'{ROOT}/pretrained/medquad.tar.gz')
  yield 'docs/serving.md', f'{archive / 1e6:.0f} MB with MiniLM-L6'
  made = _made('large_set')
  assert made['texts'] == 1_000_000
  text = f'{made["tuples"] // 1_000_000} million tuples of a million texts, '
  text += f'{made["bytes"] / made["tuples"]:.0f} bytes each on disk with their texts, train in '
  yield 'docs/architecture.md', f'{text}{made["rows"][-1]["own_gb"]:.1f} GB'


def _of_dse() -> Iterator[tuple[str, str]]:
  runs = _made('glue')['results']
  assert {run['significance']['baseline'] for run in runs.values()} == {'student, labels'}
  gained = [task for task, run in runs.items() if run['significance']['low'] > 0]
  assert gained == ['stsb'] and runs['qqp']['significance']['delta'] < 0
  yield (
    'docs/results.md',
    "teacher's logits add to the labels is sure on STS-B alone; on QQP alpha = 0.5 is below",
  )
  starts = [_made(f'qqp_{start}')['significance'] for start in ('4_layers', 'random')]
  assert all(found['low'] <= 0 for found in starts)  # 'from no start is the teacher seen to add'
  gains = {}
  for task, run in runs.items():
    tests = {model['name']: model['test'][run['primary_metric']] for model in run['models']}
    assert tests['student, frozen'] < min(tests['student'], tests['student, teacher'])
    longer = _made('glue_teachers')['tasks'][task]
    best = [max(value for _, value in curve) for curve in longer['curves']]
    gain = np.mean(best) - run['models'][0]['valid'][longer['metric']]
    gains[task] = gain, gain > np.std(best, ddof=1)
  assert [task for task, (_, sure) in gains.items() if sure] == ['qqp']  # 'alone gains by it'
  yield 'docs/results.md', f"QQP's gain {100 * gains['qqp'][0]:.1f} points to Table 1's teacher"
  for task in ('qqp', 'snli'):  # 'were still rising on valid'
    *_, before, last = (at['valid']['accuracy'] for at in runs[task]['training'][1]['history'])
    assert last > before


@pytest.mark.parametrize(
  'figures', [_of_runs, _of_starts, _of_heads, _of_training, _of_sizes, _of_dse]
)
def test_figures_in_the_text_are_those_of_the_files(figures):
  for path, passage in figures():
    with open(f'{ROOT}/{path}', encoding='utf-8') as file:
      assert passage in ' '.join(file.read().split()), path


def _results(*heads: tuple[str, float]) -> dict:
  models = [{'name': name, 'test': {'pearson': 0.5}} for name in ('teacher', 'student')]
  models[1]['delta'] = {'test': 0.0}
  rows = [('BERT-base cross-encoder, 128 tokens', 10.0), ('teacher', 40.0), *heads]
  speed = [{'name': n, 'pairs_per_second': rate, 'ratio': rate / 10} for n, rate in rows]
  return {'student': 'dipair', 'primary_metric': 'pearson', 'models': models, 'speed': speed}


def test_a_head_is_against_its_own_teacher_and_bert_base():
  results = _results(('DiPair head, tensorflow', 2000.0), ('DiPair head, litert-int8', 8000.0))
  row = summary._run(results, 'a run')
  assert row == ['a run', 'Pearson', '0.500', '0.500', '0.0%', '50×']
  rows = speed_tables.of_runs({'a run': results}).rows
  assert rows[0][2:] == ['10', '', '1×'] and rows[1][2:] == ['40', '1×', '4×']


def test_what_was_not_measured_is_left_out():
  results = _results(('DiPair head, 4+12 tokens of 128', 2000.0))
  assert summary._run(results, 'a run')[-1] == '50×'
  del results['speed'][1]
  assert summary._run(results, 'a run')[-1] == ''
