"""Places: who is cut for whom."""

from common.local_server.places import Places


def test_whoever_is_waited_for_the_longest_makes_room():
  places, cut = Places(2), []
  for who in ('first', 'second'):
    assert places.take(who, 0)

    def leave(who=who):
      cut.append(who)

    places.wait_for(who, leave)
  assert not places.take('third', 0) and not cut  # no time for anyone to leave
  assert not places.take('third', 0.01) and cut == ['first']
  assert not places.take('third', 0.01) and cut == ['first']  # who has not left yet
  assert places.leaving('first') and not places.leaving('second')
  places.leave('first')
  assert places.take('third', 0)


def test_whoever_was_served_after_a_cut_is_cut_again_for_others():
  places, cut = Places(1), []
  places.take('slow', 0)
  for to in ('read', 'write'):
    places.wait_for('slow', lambda to=to: cut.append(to))
    assert not places.take('other', 0.01)
    places.serve('slow')
  assert cut == ['read', 'write']


def test_nobody_is_cut_who_is_safe_or_served():
  places = Places(2)
  for who in ('safe', 'served'):
    places.take(who, 0)
    places.wait_for(who, lambda: 1 / 0, safe=60 if who == 'safe' else 0)
  places.serve('served')
  assert not places.take('third', 0.01)


def test_bytes_have_room_or_wait_for_it():
  places, cut = Places(9, most_bytes=10), []
  for who in ('silent', 'slow', 'new'):
    places.take(who, 0)
    places.wait_for(who, lambda who=who: cut.append(who))
  assert places.hold('slow', 10, 0)
  assert not places.hold('new', 1, 0.01)
  assert cut == ['slow']  # 'silent' holds nothing
  places.release('slow')
  assert places.hold('new', 10, 0) and not places.hold('silent', 1, 0)


def test_those_that_are_late_are_cut_and_all_at_the_end():
  places, cut = Places(9), []
  for who, most in (('late', 0), ('early', 60)):
    places.take(who, 0)
    places.wait_for(who, lambda who=who: cut.append(who), safe=60, most=most)
  places.cut_late()
  assert cut == ['late']
  places.leave('late')
  places.empty(0)
  assert cut == ['late', 'early']
