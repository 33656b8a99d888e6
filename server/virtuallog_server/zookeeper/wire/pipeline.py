"""The unanswered requests of one connection: replies leave in the order of requests.

    write   is submitted on arrival, and answered when it has been applied; any number may be in progress
    read    is answered at once if nothing is before it; else when everything before it is answered
    held    a write behind a waiting read: it is submitted once that read is answered

Writes are held for this reason: a read runs when its predecessor is answered, and a group of writes is applied in one transaction.
A later write of the same client could be in the same group, and the read would show a change that its client requested only
afterwards. ZooKeeper lets no client see that. So a client that mixes reads and writes without waiting for replies is served in
runs: all writes up to the next read travel together. Clients that wait for each reply, and those that only write or only read,
notice nothing.

Nothing is read from a connection whose replies pile up (`has_room`): a request of forty bytes may be answered by a megabyte.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

import attrs

Run: TypeAlias = Callable[[], bytes]
"""Makes the answer, in its turn."""


def _nothing() -> None:
    pass


@attrs.define(eq=False)
class PendingReply:
    """One request that waits for its turn to be answered."""

    size: int = 0
    """Bytes that are held for it."""
    frame: bytes | None = None
    """The answer. None if it is not known."""
    run: Run | None = None
    """Makes the answer. None if `frame` will be set."""
    reads: bool = False
    """True if `run` reads the tree: writes behind it are held."""
    start: Callable[[PendingReply], None] | None = None
    """Submits a held write. None if nothing is held."""
    after: Callable[[], None] = _nothing
    """Called once it is answered."""


@attrs.define(eq=False)
class Pipeline:
    """The requests of one connection.

    Args:
        emit: takes the next answer.
        has_room: True if more may be sent to the client.
    """

    _emit: Callable[[bytes], None]
    _has_room: Callable[[], bool] = lambda: True
    held_bytes: int = attrs.field(default=0, init=False)
    """Bytes of requests without an answer."""
    _turns: deque[PendingReply] = attrs.field(factory=deque, init=False)
    _waiting_reads: int = attrs.field(default=0, init=False)
    _advancing: bool = attrs.field(default=False, init=False)

    def __len__(self) -> int:
        return len(self._turns)

    def takes(self, count_max: int, bytes_max: int) -> bool:
        """True if there are fewer unanswered requests than `count_max`, of fewer bytes than `bytes_max`.

        Also False while the next answer could be made and there is no room for it.
        """
        turns = self._turns
        return not turns or (len(turns) < count_max and self.held_bytes < bytes_max and turns[0].run is None)

    def answer(self, run: Run, after: Callable[[], None] = _nothing) -> None:
        """Add a request that does not need the tree."""
        if self._turns:
            self._turns.append(PendingReply(run=run, after=after))
        else:
            self._emit(run())
            after()

    def read(self, run: Run) -> None:
        """Add a request that reads the tree."""
        if self._turns or not self._has_room():
            self._turns.append(PendingReply(run=run, reads=True))
            self._waiting_reads += 1
        else:
            self._emit(run())

    def write(self, start: Callable[[PendingReply], None], size: int, after: Callable[[], None] = _nothing) -> None:
        """Add a request that changes the tree. `start` submits it, now or later. Its completion calls `finish` with the same turn,
        perhaps at once.
        """
        turn = PendingReply(size, after=after)
        self.held_bytes += size
        self._turns.append(turn)
        if self._waiting_reads:
            turn.start = start
        else:
            start(turn)

    def wait(self) -> PendingReply:
        """Add a request that changes nothing, and takes time. Its completion calls `finish`."""
        turn = PendingReply()
        self._turns.append(turn)
        return turn

    def finish(self, turn: PendingReply, frame: bytes) -> None:
        """Set the answer to a request."""
        turn.frame = frame
        if self._turns[0] is turn:
            self.advance()

    def finish_later(self, turn: PendingReply, run: Run) -> None:
        """Set the function that makes the answer in its turn. For answers that show the applied state, as those before them do."""
        turn.run = run
        if self._turns[0] is turn:
            self.advance()

    def advance(self) -> None:
        """Send the answers that are ready. Call it also when there is room again."""
        if self._advancing:  # a released write is answered at once: the loop below comes to it
            return
        self._advancing = True
        turns = self._turns
        while turns:
            turn = turns[0]
            frame = turn.frame
            if frame is None:
                if turn.run is None or not self._has_room():
                    break
                frame = turn.run()
            turns.popleft()
            self.held_bytes -= turn.size
            self._emit(frame)
            turn.after()
            if turn.reads:
                self._waiting_reads -= 1
                self._let_go()
        self._advancing = False

    def _let_go(self) -> None:
        """Submit the writes that the read just answered has held, up to the next read."""
        held = []
        for turn in self._turns:
            if turn.reads:
                break
            if turn.start is not None:
                held.append(turn)
        for turn in held:
            start, turn.start = turn.start, None
            assert start is not None
            start(turn)
