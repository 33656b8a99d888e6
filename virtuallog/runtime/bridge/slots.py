"""A bound on calls under way in one asyncio loop, first come first served."""

from __future__ import annotations

import asyncio
from collections import deque


class Slots:
    """Slots that calls take. The usual case costs no coroutine, unlike a semaphore."""

    def __init__(self, count: int) -> None:
        """Have so many slots, all free."""
        self._free = count
        self._waiting: deque[asyncio.Future[None]] = deque()

    def try_take(self) -> bool:
        """Take a slot if one is free. Otherwise `wait`."""
        if not self._free:
            return False
        self._free -= 1
        return True

    async def wait(self) -> None:
        """Take a slot that is given back. A cancelled caller has none."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn in self._waiting:
                self._waiting.remove(turn)
            elif not turn.cancelled():
                self.give_back()
            raise

    def give_back(self) -> None:
        """Give a slot back: to the caller that waits longest, if any."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
