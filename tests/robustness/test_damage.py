"""Each file of each artefact, damaged: its reader gives the same as ever, or names the file.

Each file has a bit flipped, and one other damage; `python -m tests.robustness.damages` does all.
"""

import pytest

from tests.robustness import artefacts, damages


@pytest.fixture(name='made', scope='module')
def _made(export, tmp_path_factory):
  of = export('dipair')
  return artefacts.Artefacts(str(tmp_path_factory.mktemp('all')), of.model, of.tokenizer, of.folder)


@pytest.mark.parametrize('ways', [('flipped',), ('cut', 'emptied', 'removed')])
@pytest.mark.parametrize('artefact', artefacts.NAMES)
def test_a_damaged_file_changes_nothing_or_is_named(made, artefact, ways):
  found = list(damages.damages(made, artefact, ways))
  assert found
  assert [case for case in found if case[1] not in damages.OUTCOMES] == []
