"""Writes the README's results table from the files under benchmarks/results.

python -m benchmarks.readme_table
"""

import json
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RESULTS = os.path.join(ROOT, 'benchmarks', 'results')
PAPER = '| P2T-REL, the paper (Table 2) | Pearson | 0.757 | 0.731 | -3.4% | 362x |'


def main() -> None:
  """Replaces what stands between the README's two markers."""
  rows = [PAPER]
  for name, label in (('homedepot', 'Home Depot'), ('p2t', 'synthetic catalogue')):
    path = os.path.join(RESULTS, f'{name}.json')
    if os.path.exists(path):
      with open(path, encoding='utf-8') as file:
        rows.append(_row(json.load(file), label))
  table = '\n'.join(
    [
      '| task | test metric | teacher | student | change | head, against BERT-base at 128 tokens |',
      '| --- | --- | --- | --- | --- | --- |',
      *rows,
    ]
  )
  path = os.path.join(ROOT, 'README.md')
  with open(path, encoding='utf-8') as file:
    text = file.read()
  marked = re.compile(r'(<!-- results: .*? -->\n).*?(<!-- /results -->)', re.DOTALL)
  with open(path, 'w', encoding='utf-8') as file:
    file.write(marked.sub(lambda m: f'{m[1]}{table}\n{m[2]}', text))


def _row(results: dict, label: str) -> str:
  metric = results['primary_metric']
  teacher, student = results['models'][0], results['models'][-1]
  cells = [
    label,
    metric.capitalize(),
    f'{teacher["test"][metric]:.3f}',
    f'{student["test"][metric]:.3f}',
    f'{student["delta"]["test"]:+.1%}',
    f'{results["speed"][-1]["ratio"]:,.0f}x',
  ]
  return f'| {" | ".join(cells)} |'


if __name__ == '__main__':
  main()
