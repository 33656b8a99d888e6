"""A bound on the reads of all connections in one turn of the event loop, by what they look at.

A read of the tree is done in one go, and every other client waits for it. One may be long; many in the same turn, of many connections or
of one that has sent many, would be as long as their sum. So once `WORK_MAX` is spent, reads stay in their pipelines until the
turn is over, and go on in the order in which they came to wait. Most turns spend a hundredth of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs
import trio

from virtuallog.contract.ports import Clock

WORK_MAX: Final = 1 << 20
"""In the units of `Tree.looked`: some 8 ms. The last read of a turn may go beyond it."""
WORK_PER_SECOND: Final = 128 << 20
"""The time of scans counts as well: a scan takes long where much was deleted, and does not say so."""


@attrs.define(eq=False)
class ReadBudget:
    """See above.

    Args:
        looked: tells what all reads have looked at so far; grows only.
        clock: of the node.
    """

    _looked: Callable[[], int]
    _clock: Clock
    _spent_at: int = attrs.field(init=False)
    """The budget is spent once `looked` tells this."""
    _waiting: dict[Callable[[], None], None] = attrs.field(factory=dict, init=False)
    _is_spent: trio.Event = attrs.field(factory=trio.Event, init=False)

    def __attrs_post_init__(self) -> None:
        self._fill()

    def admits(self, go_on: Callable[[], None]) -> bool:
        """Whether a read may be done now. If not, `go_on` is called in a later turn, once for all the reads that it was asked for."""
        if self._looked() < self._spent_at:
            return True
        self._waiting[go_on] = None
        self._is_spent.set()
        return False

    def timed(self, scan: Callable[[], bytes]) -> bytes:
        """Do a read that scans; its time counts."""
        began = self._clock.monotonic()
        answer = scan()
        self._spent_at -= int((self._clock.monotonic() - began) * WORK_PER_SECOND)
        return answer

    def leave(self, go_on: Callable[[], None]) -> None:
        """`go_on` need not be called any more."""
        self._waiting.pop(go_on, None)

    async def run(self) -> None:
        """Fill the budget once it is spent, and let those go on that wait. Until cancelled: they wait for good then."""
        while True:
            await self._is_spent.wait()
            self._is_spent = trio.Event()
            await trio.lowlevel.checkpoint()  # all that are ready now are served before
            self._fill()
            waiting, self._waiting = self._waiting, {}
            for go_on in waiting:
                go_on()

    def _fill(self) -> None:
        self._spent_at = self._looked() + WORK_MAX
