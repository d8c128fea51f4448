"""Every file of every artefact, damaged: its reader gives the same as ever, or names the file."""

import pytest

from tests.robustness import artefacts, damages


@pytest.fixture(name='made', scope='module')
def _made(export, tmp_path_factory):
  of = export('dipair')
  return artefacts.Artefacts(str(tmp_path_factory.mktemp('all')), of.model, of.tokenizer, of.folder)


@pytest.mark.parametrize('damage', damages.DAMAGES)
@pytest.mark.parametrize('artefact', artefacts.NAMES)
def test_a_damaged_file_changes_nothing_or_is_named(made, artefact, damage):
  found = list(damages.damages(made, artefact, damage))
  assert found
  assert [case for case in found if case[1] not in damages.OUTCOMES] == []
