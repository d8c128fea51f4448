"""Places of a server's peers, bounded in number, in time and in the bytes that their requests hold."""

import dataclasses
import math
import threading
import time
from collections.abc import Callable, Hashable

_LAST = 1.0  # seconds that a peer that was cut has to leave


@dataclasses.dataclass
class _Peer:
  """A peer's state.

  Attributes:
    cut: Ends the wait for it; None while it is not waited for.
    since: Start of that wait.
    safe: End of the time in which nobody else may have its place.
    until: End of the wait.
    leaving: Whether it was cut.
    held: Bytes of its request.
  """

  cut: Callable[[], None] | None = None
  since: float = 0.0
  safe: float = 0.0
  until: float = math.inf
  leaving: bool = False
  held: int = 0


class Places:
  """Places that peers take, wait in and leave.

  Where all are taken, the peer that has been waited for the longest is cut, but for those whose wait
  has only begun; nobody is cut while the server works for it.

  Args:
    most: Most peers at a time.
    most_bytes: Most bytes that their requests hold together.
  """

  def __init__(self, most: int, most_bytes: float = math.inf):
    self._most, self._most_bytes = most, most_bytes
    self._peers: dict[Hashable, _Peer] = {}
    self._changed = threading.Condition()

  def take(self, who: Hashable, seconds: float) -> bool:
    """Whether a place was found within so many seconds."""
    with self._changed:
      found = self._room(lambda: len(self._peers) < self._most, seconds)
      if found:
        self._peers[who] = _Peer()
      return found

  def wait_for(
    self, who: Hashable, cut: Callable[[], None], safe: float = 0.0, most: float = math.inf
  ) -> None:
    """A peer is waited for: `safe` seconds at least and `most` at the most, then `cut` ends it."""
    with self._changed:
      peer, now = self._peers[who], time.monotonic()
      peer.cut, peer.since, peer.safe, peer.until = cut, now, now + safe, now + most
      peer.leaving = False  # cut before, it has had an answer all the same

  def hold(self, who: Hashable, count: int, seconds: float) -> bool:
    """Whether there was room, within so many seconds, for the bytes of a peer's request."""
    with self._changed:
      found = self._room(lambda: self._held() + count <= self._most_bytes, seconds, holding=True)
      if found:
        self._peers[who].held = count
      return found

  def serve(self, who: Hashable) -> None:
    """A peer is no longer waited for."""
    with self._changed:
      self._peers[who].cut = None

  def release(self, who: Hashable) -> None:
    """A peer's request holds nothing any more."""
    with self._changed:
      self._peers[who].held = 0
      self._changed.notify_all()

  def leave(self, who: Hashable) -> None:
    """Gives a peer's place back."""
    with self._changed:
      self._peers.pop(who, None)
      self._changed.notify_all()

  def leaving(self, who: Hashable) -> bool:
    """Whether a peer was cut."""
    with self._changed:
      return self._peers[who].leaving

  def cut_late(self) -> None:
    """Cuts whoever was waited for long enough."""
    with self._changed:
      now = time.monotonic()
      for peer in self._peers.values():
        if peer.until <= now:
          _cut(peer)

  def empty(self, seconds: float) -> None:
    """Cuts whoever is not safe, waits for the others, and cuts them too after so many seconds."""
    with self._changed:
      until = time.monotonic() + seconds
      while self._peers and (now := time.monotonic()) < until + _LAST:
        for peer in self._peers.values():
          if min(peer.safe, until) <= now:
            _cut(peer)
        self._changed.wait(0.05)

  def _held(self) -> int:
    return sum(peer.held for peer in self._peers.values())

  def _room(self, there: Callable[[], bool], seconds: float, *, holding: bool = False) -> bool:
    """Waits for room, and cuts peers (that hold bytes) for it, one after the other."""
    until = time.monotonic() + seconds
    while not there():
      now = time.monotonic()
      if now >= until:
        return False
      waiting = [peer for peer in self._peers.values() if peer.cut and (peer.held or not holding)]
      late = [peer for peer in waiting if peer.safe <= now]
      if late and not any(peer.leaving for peer in waiting):
        _cut(min(late, key=lambda peer: peer.since))
      self._changed.wait(min(until - now, 0.05))
    return True


def _cut(peer: _Peer) -> None:
  if peer.cut and not peer.leaving:
    peer.leaving = True
    peer.cut()
