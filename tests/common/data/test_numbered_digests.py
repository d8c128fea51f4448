"""Digests are numbered as a dict numbers them, in less memory."""

import random
import tracemalloc

from common.data.numbered_digests import NumberedDigests


def test_digests_have_the_numbers_of_a_dict():
  drawn, digests, numbers = random.Random(1), NumberedDigests(), {}
  for _ in range(5000):
    digest = bytes([drawn.randrange(4)] * 8) + drawn.randbytes(1) * 8  # many begin alike
    assert digests.number(digest) == numbers.setdefault(digest, len(numbers))
    assert len(digests) == len(numbers)
  assert len(numbers) > 900


def test_a_digest_takes_some_30_bytes():
  drawn, count = random.Random(1), 20_000
  tracemalloc.start()
  digests = NumberedDigests()
  for _ in range(count):
    digests.number(drawn.randbytes(16))
  held, _ = tracemalloc.get_traced_memory()
  tracemalloc.stop()
  assert len(digests) == count and held / count < 35
