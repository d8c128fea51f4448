"""The number blocks of the documents: what files under benchmarks/results give, nothing else."""

from collections.abc import Iterator

import pytest

from benchmarks import committed, tables
from common.errors import InputError
from common.evaluation import speeds
from common.evaluation.cells import change, moved
from common.evaluation.results import Results


@pytest.mark.parametrize('page', tables.PAGES)
def test_a_page_is_what_the_command_writes(page):
  with open(f'{committed.ROOT}/{page}', encoding='utf-8') as file:
    assert file.read() == tables.filled(page), 'run python -m benchmarks.tables'


def test_a_block_whose_results_are_missing_is_refused_by_name(monkeypatch, tmp_path):
  monkeypatch.setattr(committed, 'RESULTS', str(tmp_path))
  for block in (*tables.TABLES, *tables.BLOCKS):
    with pytest.raises(InputError, match=rf'{tmp_path}/\w+\.json is missing: measure it first'):
      tables._block(block, 'page.md')


def test_a_block_that_is_not_known_is_refused_with_its_page():
  with pytest.raises(InputError, match='page.md: no block is called speed; there are results, '):
    tables._block('speed', 'page.md')


def _span(values: list[float]) -> str:
  return f'{min(values):.1f} to {max(values):.1f}'


def _figures() -> Iterator[tuple[str, str]]:
  """(page, passage) of sentences whose figures stand in committed results."""
  waits, cost, light = (committed.read(name) for name in ('latency', 'cost', 'light'))
  p50 = {(of['name'], of['where']): of['p50'] for of in waits['rows'] if of['candidates'] == 1000}
  lite, transformer = (p50[head, 'seen, server'] for head in ('LITE', 'transformer'))
  yield 'README.md', f'the server reranks 1,000 stored titles in {lite:.0f} ms'
  yield 'README.md', f'head it is {transformer:.0f} ms for stored ones'
  crossed = min(value for (_, where), value in p50.items() if where == 'new')
  yield 'README.md', f'a MiniLM-L6 cross-encoder takes {crossed:,.0f} ms'
  hours = {row['name']: row['core_hours'] for row in cost['rows'] if row['pairs'] == 1e9}
  yield 'README.md', f'we estimate {hours["DiPair, int8"]:.0f} core-hours'
  (rate,) = (
    row['pairs_per_second']
    for row in committed.read('peers')['rows']
    if row['name'] == "DiPair's teacher, litert-int8"
  )
  crossed = float(f'{2 * 1e9 / rate / 3600:.2g}')  # two cores
  yield 'README.md', f'The teacher needs about {crossed:.0f}'
  yield 'docs/explanation/cost.md', f'take about {crossed:.0f} core-hours'
  megabytes = round(light['installed'] / 1e6)
  yield 'README.md', f'the environment is {megabytes} MB'
  yield 'docs/how-to/runtimes.md', f'The light environment takes {megabytes} MB'
  ranked = {row['name']: row['metrics']['mrr@10'] for row in committed.read('retrieval')['rows']}
  first, student, both = (
    ranked[name]['value'] for name in ('first stage', 'student', 'student + first stage')
  )
  alone = f'the student alone {student:.3f}. The sum of both has {both:.3f}'
  yield 'docs/explanation/which_model.md', alone
  yield 'README.md', f'On MedQuAD it alone scores {first:.3f}'
  searched = committed.read('retrieval_code_search')
  of = {row['name']: f'{row["metrics"]["mrr@10"]["value"]:.3f}' for row in searched['rows']}
  alone, student, crossed = (
    of[name] for name in ('first stage', 'student + first stage', 'teacher + first stage')
  )
  found = f"{alone} by the first stage, {student} with the student's scores, {crossed} with"
  yield 'docs/results/findings.md', found
  yield 'README.md', f'alone scores {alone}, and we measured no gain by a sum'
  yield 'docs/results/retrieval.md', f'the nearest 100 hold {searched["found"]:.0%}.'
  loss = ranked['student + first stage']['against_sum']
  lost, most, least = (100 * -loss[name] for name in ('delta', 'low', 'high'))
  yield 'docs/results.md', f'loses {lost:.1f}% [{least:.1f}, {most:.1f}]'
  worst = f"the student's loses {lost:.1f}% of it, an interval from {most:.1f}% worse"
  yield 'docs/results/retrieval.md', f'{worst} to {-least:.1f}% better'
  made = committed.read('homedepot_products')
  (new,) = (
    part['models']['student']
    for part in made['unseen']
    if [part[of] for of in ('set', 'learnt', 'unseen')] == ['test', 'distillation', 'left']
  )
  lost = f'{new["delta"]:.1%} [{", ".join(f"{100 * end:.1f}" for end in new["delta_interval"])}]'
  yield 'docs/results.md', f'the student {new["value"]:.3f}, {lost}, p {new["p_value"]:.2g}.'
  titles = committed.read('homedepot_titles')
  changed = change(titles['models'][-1], 'test')
  yield 'docs/results.md', f'(`homedepot_titles`), the student changes {changed}'
  yield 'docs/results.md', f'left out {titles["left_out"]["distillation"]:,} of its pairs'
  first, last = committed.read('homedepot_queries')['models'][1:]
  stage_1 = f'After stage 1 it changes {change(first, "test")} on test'
  yield 'docs/results.md', f'On valid the student changes {change(last, "valid")}. {stage_1}'
  (earlier,) = committed.read('homedepot_queries_4_12')['models'][2:]
  yield 'docs/results.md', f'of the same teacher changed {change(earlier, "test")} on test'
  searched = change(committed.read('code_search')['models'][-1], 'test')
  searched = f'{searched}, more than on any other table [by the defaults]'
  yield 'docs/results/findings.md', f'the student changes {searched}'
  teacher, _, student = committed.read('amazon_google')['models']
  of = student['metrics']['test']['average_precision']
  found = moved(of['delta'], *of['delta_interval'])
  both = f'{teacher["test"]["average_precision"]:.3f} and the student {of["value"]:.3f}, {found}'
  yield 'docs/results.md', f'By it the teacher has {both}.'
  bi_encoders = committed.read('bi_encoder')['rows']
  against = {row['title']: row['against_bi_encoder'] for row in bi_encoders}
  few, more, most, matching = (
    [f'{abs(100 * against[title][end]):.1f}' for end in ('delta', 'low', 'high')]
    for title in (*(f'Home Depot, {n},000 labels' for n in (1, 5, 20)), 'Amazon–Google')
  )
  below = f'the student is {few[0]}% [{few[2]}, {few[1]}] below it'
  above, far, matched = (f'{of[0]}% [{of[1]}, {of[2]}]' for of in (more, most, matching))
  alike = against['STS-B']['low'] < 0 < against['STS-B']['high']
  found = 'we measured no difference' if alike else '?'
  yield 'docs/results.md', f'On Amazon–Google it is better by {matched}. On STS-B {found}.'
  yield 'README.md', f'{below}. With 5,000 it is {above} above it, with 20,000 {far} ('
  yield 'docs/results.md', f'student is better, by {above}, and with 20,000 by {far}.'
  made = committed.read('study_heads')
  of = {row['name']: row for row in made['comparisons']['heads']['rows']}
  ours, lite = (
    made['students'][of[name]['students'][0]]['test']['pearson'] for name in ('transformer', 'LITE')
  )
  assert of['transformer']['closest'] == 'LITE'
  chance = f'(p {of["transformer"]["p_closest"]:.2g})'
  yield 'docs/how-to/choose_a_head.md', f'the transformers we measured no difference {chance}:'
  yield 'docs/explanation/which_model.md', f'scores [{ours:.3f}, and LITE {lite:.3f}]'
  rows = [line.split(' | ') for line in tables.models().splitlines()[3:5]]
  own, lite = (float(row[2].replace(',', '')) for row in rows)
  yield 'README.md', f'`--head=lite`, which is {lite / own:.0f} times faster than'
  asked = committed.read('q2p')['calibration']['models']['student']['asked']
  scored = f'scored {asked["from"]} to {asked["to"]} by the student'
  yield 'docs/how-to/calibration.md', f'{scored}, {asked["outcome"]:.0%} are positive'
  of = {row['name']: row['ratio'] for row in committed.read('training')['rows']}
  ratio = f'{of["teacher: bfloat16 / float32"]:.1f}'
  yield 'docs/how-to/tpu_and_gpu.md', f'with AMX | `mixed_bfloat16` | {ratio} times as fast'
  mflop = {row['name']: row['mflop'] for row in committed.read('scoring')['rows']}
  for name in ('DiPair, Keras layers', 'DiPair, litert', 'DiPair, parts, litert'):
    yield 'docs/explanation/design.md', f' | {mflop[name]:.1f} |'
  rates = [
    {name: row['pairs_per_second'] for name, row in tables._by_runtime(heads).items()}
    for heads in (
      speeds.heads(Results.of_json(committed.read(run)))
      for run in ('p2t', 'homedepot', 'homedepot_products')
    )
  ]
  float32 = _span([of['litert'] / of['tensorflow'] for of in rates])
  int8 = _span([of['litert-int8'] / of['litert'] for of in rates])
  text = (
    f"is {float32} times as fast in LiteRT's float32 as in TensorFlow, and in int8 {int8} times"
  )
  yield 'docs/explanation/design.md', text
  runs = [line.split(' | ') for line in tables.run_encoders().splitlines()[2:]]
  ratios = {row[0].lstrip('| '): float(row[4].rstrip('×')) for row in runs}
  avx2 = ratios.pop('code search in SQL, match or not')  # its CPU has AVX2 alone
  yield 'docs/how-to/runtimes.md', f'and {avx2:.1f} times on another'
  texts = f'{_span(list(ratios.values()))} times as many texts'
  yield 'docs/how-to/runtimes.md', f'int8 encoded {texts} as TensorFlow'
  assert all(abs(float(row[6]) - float(row[7].rstrip(' |'))) < 0.002 for row in runs)
  whole, split = (mflop[f'DiPair FFNN, {name}'] for name in ('litert', 'parts, litert'))
  yield 'docs/explanation/design.md', f'{whole:.2f} MFLOP a pair become {split:.2f}'


@pytest.mark.parametrize(('page', 'passage'), list(_figures()))
def test_figures_in_the_text_are_those_of_the_files(page, passage):
  with open(f'{committed.ROOT}/{page}', encoding='utf-8') as file:
    assert passage in ' '.join(file.read().split())


def _run(*heads: tuple[str, float]) -> dict:
  models = [{'name': name, 'test': {'pearson': 0.5}} for name in ('teacher', 'student')]
  models[1]['delta'] = {'test': 0.0}
  rows = [('BERT-base cross-encoder, 128 tokens', 10.0), ('teacher', 40.0), *heads]
  speed = [{'name': n, 'pairs_per_second': rate, 'ratio': rate / 10} for n, rate in rows]
  named = {'title': 'a run', 'student': 'dipair', 'task': 'regression'}
  return {**named, 'primary_metric': 'pearson', 'models': models, 'speed': speed}


def test_a_head_is_against_its_own_teacher():
  made = _run(('DiPair head, tensorflow', 2000.0), ('DiPair head, litert-int8', 8000.0))
  assert tables._run(made, 'a run') == ['a run', 'Pearson', '0.500', '0.500', '0.0%', '50×']
  del made['speed'][1]  # a teacher that was not measured
  assert tables._run(made, 'a run')[-1] == ''


def test_the_quickest_form_of_a_model_is_shown_and_int8_where_it_pays():
  rates = {'A, litert': 10.0, 'A, tensorflow': 20.0, 'A, litert-int8': 21.0}
  rates |= {'A, litert-float16': 90.0, 'B, litert': 1.0, 'B, litert-int8': 2.0}
  rows = [{'name': name, 'pairs_per_second': rate} for name, rate in rates.items()]
  found = [row['name'] for row in tables.quickest(rows)]
  assert found == ['A, tensorflow', 'B, litert', 'B, litert-int8']
