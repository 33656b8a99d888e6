"""Tail check: one read for many callers at once, and polling for those that wait.

Tail first, seal bit second. The tail is the version of the znode `batches`, which every append
sets. It is read first, the seal second. If the seal is set, the tail is read once more: no append
comes after a seal that ZooKeeper has carried out, so this tail is final.

Waiting is by polling, one poll for all waiters. A watch is lost with the connection, must be set
anew after each append, and costs as much as polling if there are many appends. One server answers
polls, without a quorum, so they may lag a little.
"""

from __future__ import annotations

from typing import Final

import attrs
import trio

from virtuallog.contract.errors import SealedError, VirtualLogError
from virtuallog.contract.ports import Environment
from virtuallog.contract.types import Open, Sealed, Tail
from virtuallog.contract.znodes import Znodes
from virtuallog.exactly_once.slot_offsets import INDEX_BITS
from virtuallog_loglets.zookeeper.core.layout import ZooKeeperLayout
from virtuallog_loglets.zookeeper.drivers.base_znodes import DROPPED, BaseZnodes

WAIT_SECONDS: Final = 2.0
"""Time in seconds that `wait_tail` waits before it returns the tail unchanged."""
POLL_SECONDS: Final = (0.01, 0.1)
"""Poll interval in seconds, after news and after a long time without; between the two it doubles."""


@attrs.define(eq=False)
class _Waiting:
    """A waiting caller."""

    past: int = -1
    """The caller waits for a tail beyond this one."""
    _done: trio.Event = attrs.field(factory=trio.Event, init=False)
    _outcome: Tail | VirtualLogError | None = attrs.field(default=None, init=False)

    def is_told(self, found: Tail | VirtualLogError) -> bool:
        """Deliver an outcome if the caller waits for it. Returns True if it was delivered."""
        if isinstance(found, Open) and found.tail <= self.past:
            return False
        self._outcome = found
        self._done.set()
        return True

    async def wait(self) -> Tail:
        await self._done.wait()
        assert self._outcome is not None
        if isinstance(self._outcome, VirtualLogError):
            raise self._outcome
        return self._outcome


@attrs.define(eq=False)
class ZooKeeperTailCheck:
    """Tail checks of one client of a loglet."""

    _layout: ZooKeeperLayout
    _znodes: Znodes
    _base_znodes: BaseZnodes
    _environment: Environment
    known: int = attrs.field(default=0, init=False)
    """Highest tail that this client has seen."""
    _asking: list[_Waiting] = attrs.field(factory=list, init=False)
    """Callers of the next check, which has not begun yet."""
    _is_looking: bool = attrs.field(default=False, init=False)
    _polling: list[_Waiting] = attrs.field(factory=list, init=False)
    _is_polling: bool = attrs.field(default=False, init=False)

    async def check(self) -> Tail:
        """Check the tail; the result is no older than the call. Callers that come during a check
        share the next one."""
        waiting = _Waiting()
        self._asking.append(waiting)
        if not self._is_looking:
            self._is_looking = True
            self._environment.nursery.start_soon(self._look_for_all)
        return await waiting.wait()

    async def wait(self, past: int) -> Tail:
        """See `Loglet.wait_tail`."""
        if self.known > past:
            return Open(self.known)
        waiting = _Waiting(past)
        self._polling.append(waiting)
        if not self._is_polling:
            self._is_polling = True
            self._environment.nursery.start_soon(self._poll)
        try:
            with self._environment.clock.timeout(WAIT_SECONDS):
                return await waiting.wait()
        finally:
            if waiting in self._polling:
                self._polling.remove(waiting)
        return await self.check()

    async def look(self, *, fresh: bool) -> Tail:
        """Read tail and seal. Raises SealedError if the loglet has been dropped, CorruptionError if
        ZooKeeper has lost it."""
        layout, known = self._layout, self.known
        batches, seal, again = await self._znodes.stats([layout.batches, layout.base, layout.batches], fresh=fresh)
        if seal is None:
            if fresh:
                self._base_znodes.missing()
            return Open(self.known)
        if again is None:  # it was created in one transaction with the first reads
            raise SealedError(DROPPED, refused=True)
        self._base_znodes.recognise(again)
        is_sealed = seal.version > 0
        if batches is None and not is_sealed:
            return Open(self.known)  # created between one read and the next
        tail = (batches if batches is not None and not is_sealed else again).version << INDEX_BITS
        # Compare with what was known at the call: an append of this client may be acknowledged
        # before the older answer arrives.
        if fresh and tail < known:
            raise self._base_znodes.lost(f"it ends at {tail}, and has ended at {known}")
        self.known = max(self.known, tail)
        return Sealed(tail) if is_sealed else Open(tail)

    async def _look_for_all(self) -> None:
        try:
            while self._asking:
                asking, self._asking = self._asking, []
                found = await self._outcome(fresh=True)
                for waiting in asking:
                    waiting.is_told(found)
        finally:
            self._is_looking = False

    async def _poll(self) -> None:
        shortest, longest = POLL_SECONDS
        pause, seen = shortest, self.known
        try:
            while self._polling:
                found = await self._outcome(fresh=False)
                self._polling = [waiting for waiting in self._polling if not waiting.is_told(found)]
                pause = shortest if self.known > seen else min(2 * pause, longest)
                seen = self.known
                if self._polling:
                    await self._environment.clock.sleep(pause)
        finally:
            self._is_polling = False

    async def _outcome(self, *, fresh: bool) -> Tail | VirtualLogError:
        try:
            return await self.look(fresh=fresh)
        except VirtualLogError as error:
            return error
