"""Good clients of a rerank server among bad ones, and a kill: nothing is lost."""

from tests.robustness.storm import storm


def test_good_clients_lose_nothing(export, tmp_path):
  found = storm(export('dipair').folder, 200, str(tmp_path))
  assert found['faults'] == [] and found['counted'] > 1000
