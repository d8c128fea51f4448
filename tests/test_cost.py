"""The cost calculator, against sums done by hand."""

import dataclasses

import pytest

from benchmarks import committed
from benchmarks.cost import CostConfig, Rates, costs, measured, stored


def test_costs_by_hand():
  config = CostConfig(lefts=1.8e5, rights=1.8e5, hours=10, written_bytes=20)
  rates = Rates(pairs=1000, teacher_pairs=50, int8_teacher_pairs=200, baseline_pairs=10, texts=100)
  head, int8_teacher, teacher, baseline = costs(3.6e9, config, rates)
  assert head['encoding_core_hours'] == pytest.approx(1)  # 360,000 texts at 100/s
  assert head['core_hours'] == pytest.approx(1001)  # + 3.6e9 pairs at 1,000/s
  assert int8_teacher['core_hours'] == pytest.approx(5000)
  assert teacher['core_hours'] == pytest.approx(20_000)
  assert baseline['core_hours'] == pytest.approx(100_000)
  assert [row['cores'] for row in (head, baseline)] == [101, 10_000]
  assert [row['usd'] for row in (head, baseline)] == pytest.approx([50.05, 5000])
  assert [row['written_bytes'] for row in (head, baseline)] == pytest.approx([72e9, 72e9])
  # All vectors once, and for each pair 4 and 8 of them.
  assert head['joined_bytes'] == 1.8e5 * 12 * 260 + 3.6e9 * 12 * 260
  assert stored('int8', config)['bytes'] == 1.8e5 * 12 * 260  # 256 wide and a scale


def test_the_committed_cost_is_of_the_committed_speeds():
  rates = committed.read('cost')['rates']
  assert rates == pytest.approx(dataclasses.asdict(measured(CostConfig())[1]))
