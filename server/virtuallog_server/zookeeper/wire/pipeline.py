"""The requests of one connection that have no reply yet: replies leave in the order of requests.                 Pure.

    write   is submitted on arrival, and answered when it has been applied; any number may be under way
    read    is answered at once if nothing is before it; else when everything before it is answered
    held    a write behind a read that waits: it is submitted once that read is answered

Why writes are held: what waits is read when its predecessor is answered, and a group of writes is applied in one transaction. A
later write of the same client could be in the same group, and the read would show what its client asked for only afterwards. ZooKeeper
lets no client see that. So a client that mixes reads and writes without waiting for replies is served in runs: all writes up to the next
read travel together. Those that wait for each reply, and those that only write or only read, notice nothing.

Nothing is read for a connection whose replies pile up (`has_room`): what is asked for in forty bytes may be a megabyte.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

import attrs

Run: TypeAlias = Callable[[], bytes]
"""Says what to answer, when it is time."""


def _nothing() -> None:
    pass


@attrs.define(eq=False)
class PendingReply:
    """One request, waiting for its turn to be answered."""

    size: int = 0
    """Bytes that are held for it."""
    frame: bytes | None = None
    """The answer, if it is known."""
    run: Run | None = None
    """The way to it."""
    reads: bool = False
    """`run` looks at the tree: writes behind it are held."""
    start: Callable[[PendingReply], None] | None = None
    """Submits a write that is held."""
    after: Callable[[], None] = _nothing
    """Called once it is answered."""


@attrs.define(eq=False)
class Pipeline:
    """See above.

    Args:
        emit: takes an answer that is next.
        has_room: whether more may be read for the other side.
    """

    _emit: Callable[[bytes], None]
    _has_room: Callable[[], bool] = lambda: True
    held_bytes: int = attrs.field(default=0, init=False)
    """Of requests without an answer."""
    _turns: deque[PendingReply] = attrs.field(factory=deque, init=False)
    _waiting_reads: int = attrs.field(default=0, init=False)
    _advancing: bool = attrs.field(default=False, init=False)

    def __len__(self) -> int:
        return len(self._turns)

    def takes(self, count_max: int, bytes_max: int) -> bool:
        """Whether there are fewer requests without an answer, and of fewer bytes. No more is taken once the next answer could be made,
        and there was no room for it."""
        turns = self._turns
        return not turns or (len(turns) < count_max and self.held_bytes < bytes_max and turns[0].run is None)

    def answer(self, run: Run, after: Callable[[], None] = _nothing) -> None:
        """A request that asks nothing of the tree."""
        if self._turns:
            self._turns.append(PendingReply(run=run, after=after))
        else:
            self._emit(run())
            after()

    def read(self, run: Run) -> None:
        """A request that looks at the tree."""
        if self._turns or not self._has_room():
            self._turns.append(PendingReply(run=run, reads=True))
            self._waiting_reads += 1
        else:
            self._emit(run())

    def write(self, start: Callable[[PendingReply], None], size: int, after: Callable[[], None] = _nothing) -> None:
        """A request that changes the tree. `start` submits it, now or later; whoever completes it calls `finish` with the same
        turn, perhaps at once."""
        turn = PendingReply(size, after=after)
        self.held_bytes += size
        self._turns.append(turn)
        if self._waiting_reads:
            turn.start = start
        else:
            start(turn)

    def wait(self) -> PendingReply:
        """A request that changes nothing, and takes time. To be completed with `finish`."""
        turn = PendingReply()
        self._turns.append(turn)
        return turn

    def finish(self, turn: PendingReply, frame: bytes) -> None:
        """The answer to a request."""
        turn.frame = frame
        if self._turns[0] is turn:
            self.advance()

    def finish_later(self, turn: PendingReply, run: Run) -> None:
        """The same for an answer that shows which state is applied: it is made when its turn comes, as those before it show theirs."""
        turn.run = run
        if self._turns[0] is turn:
            self.advance()

    def advance(self) -> None:
        """Answer what can be answered. To be called as well when there is room again."""
        if self._advancing:  # a write that was let go is answered at once: the loop below comes to it
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
        """The writes that were held by the read just answered: those up to the next one."""
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
