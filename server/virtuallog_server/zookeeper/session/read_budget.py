"""A bound on the reads of all connections in one turn of the event loop, by the bytes that they look at.

A read of the tree is done in one go, and every other client waits for it. One may be long. Many in the same turn, of one connection
or several, would take the sum of their times. So once `WORK_MAX` is spent, reads stay in their pipelines until the turn is over,
and continue in the order in which they began to wait. Most turns spend a hundredth of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs
import trio

from virtuallog.contract.ports import Clock

WORK_MAX: Final = 1 << 20
"""Work of one turn in the units of `Tree.looked`: some 8 ms. The last read of a turn may exceed it."""
WORK_PER_SECOND: Final = 128 << 20
"""Work that counts for a second of a scan. A scan takes long if much was deleted, and does not count that itself."""


@attrs.define(eq=False)
class ReadBudget:
    """The budget of one server.

    Args:
        looked: the work of all reads so far; grows only.
        clock: of the node.
    """

    _looked: Callable[[], int]
    _clock: Clock
    _spent_at: int = attrs.field(init=False)
    """The budget is spent once `looked` returns this."""
    _waiting: dict[Callable[[], None], None] = attrs.field(factory=dict, init=False)
    _is_spent: trio.Event = attrs.field(factory=trio.Event, init=False)

    def __attrs_post_init__(self) -> None:
        self._fill()

    def admits(self, go_on: Callable[[], None]) -> bool:
        """True if a read may be done now. If not, `go_on` is called in a later turn, once for all the reads that asked with it."""
        if self._looked() < self._spent_at:
            return True
        self._waiting[go_on] = None
        self._is_spent.set()
        return False

    def timed(self, scan: Callable[[], bytes]) -> bytes:
        """Run a read that scans; its time counts as work."""
        began = self._clock.monotonic()
        answer = scan()
        self._spent_at -= int((self._clock.monotonic() - began) * WORK_PER_SECOND)
        return answer

    def leave(self, go_on: Callable[[], None]) -> None:
        """Forget `go_on`: it need not be called any more."""
        self._waiting.pop(go_on, None)

    async def run(self) -> None:
        """Refill the budget once it is spent, and resume the waiting reads, until cancelled. Then they wait for ever."""
        while True:
            await self._is_spent.wait()
            self._is_spent = trio.Event()
            await trio.lowlevel.checkpoint()  # tasks that are ready now run before
            self._fill()
            waiting, self._waiting = self._waiting, {}
            for go_on in waiting:
                go_on()

    def _fill(self) -> None:
        self._spent_at = self._looked() + WORK_MAX
