"""Tables of pairs with one fault at a time are refused with file and row; others are taken."""

import pytest

from tests.robustness import bad_tables, knocks


@pytest.mark.parametrize('form', bad_tables.FORMS)
def test_one_fault_is_refused_where_it_is(form, tmp_path):
  found = list(bad_tables.knocks(str(tmp_path), form))
  assert len(found) > 150
  assert [case for case in found if case[1] not in knocks.OUTCOMES] == []
