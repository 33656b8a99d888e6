"""Bounded slots for connections that have not yet shown that they are of use.

If one more than the bound arrives, in all or from one address, the oldest is closed: of all, or of
that address. So connections that stall push each other out. Working ones need a slot for a moment
only. One address alone does not take all slots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

import attrs


@attrs.define(eq=False)
class ConnectionSlots:
    """The slots of one port."""

    _most: int
    _most_of_address: int
    _taken: dict[int, tuple[str, Callable[[], None]]] = attrs.field(factory=dict, init=False)
    """Taken slots in order of arrival: the address, and the function that ends the connection."""
    _numbers: count[int] = attrs.field(factory=count, init=False)

    def __len__(self) -> int:
        return len(self._taken)

    @contextmanager
    def take(self, address: str, end: Callable[[], None]) -> Iterator[None]:
        """Hold a slot until the block ends (`enter`). `end` must not leave the block by itself."""
        number = self.enter(address, end)
        try:
            yield
        finally:
            self.leave(number)

    def enter(self, address: str, end: Callable[[], None]) -> int:
        """Take a slot. Returns its number, for `leave`.

        Args:
            address: address of the other side, without a port; empty if unknown, then not counted
                by address.
            end: ends the connection. Called at most once: when the slot is given to a later
                connection. Must not raise.
        """
        number = next(self._numbers)
        if address and sum(taken == address for taken, _ in self._taken.values()) >= self._most_of_address:
            self._give_way(next(key for key, (taken, _) in self._taken.items() if taken == address))
        elif len(self._taken) >= self._most:
            self._give_way(next(iter(self._taken)))
        self._taken[number] = (address, end)
        return number

    def leave(self, number: int) -> None:
        """Give a slot back, unless a later connection has it."""
        self._taken.pop(number, None)

    def _give_way(self, number: int) -> None:
        _, end = self._taken.pop(number)
        end()
