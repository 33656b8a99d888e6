"""Writers that set the same znodes again and again, one connection to each server, and what of it must be there in the end."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Final

import attrs
import trio

from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.types import NodeId
from virtuallog_lab.experiments.churn.client import CLOCK, Budget, State, Writes, connected, read_state, shares
from virtuallog_lab.harness.report import tell

PATIENCE_SECONDS: Final = 10.0
"""Seconds for a server to accept a client."""
PAUSE_SECONDS: Final = 0.25
"""Before a new connection after one that broke."""
FILLINGS: Final = 20_000
"""Random values in turn: with 100 bytes each, a value is not repeated within the reach of a compressor."""
PROBLEMS_MAX: Final = 5
"""Shown of each writer at each server."""


@attrs.define(eq=False)
class ChurnLoad:
    """Load of one run.

    Args:
        addresses: where the servers take clients.
        keys: znodes, which are there.
        size: bytes of a value.
        outstanding: writes under way, on all connections.
        down: servers that are expected to break connections, which is not reported then.
        random: source of values that do not compress. None for zeros.
    """

    addresses: Mapping[NodeId, str]
    keys: int
    size: int
    outstanding: int
    down: frozenset[NodeId] = frozenset()
    random: Random | None = None
    budget: Budget = attrs.field(factory=lambda: Budget(0), init=False)
    ended: float = attrs.field(default=0.0, init=False)
    """Time of the last acknowledgement, by the clock."""
    _writes: dict[NodeId, Writes] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        parts, length = shares(self.keys, len(self.addresses)), self.size - 8
        random = self.random
        fillings = [bytes(length)] if random is None else [random.randbytes(length) for _ in range(FILLINGS)]
        self._writes = {
            node: Writes(part, fillings, self.budget) for node, part in zip(self.addresses, parts, strict=True)
        }

    @property
    def done(self) -> int:
        """Acknowledged writes."""
        return sum(writes.count for writes in self._writes.values())

    async def write(self, count: int) -> None:
        """Write so many more; returns when they are acknowledged."""
        self.budget.left += count
        async with trio.open_nursery() as nursery:
            for node in self._writes:
                nursery.start_soon(self._write, node)

    async def state(self, node: NodeId) -> State:
        """All znodes, as this server shows them."""
        async with connected(self.addresses[node], PATIENCE_SECONDS) as client:
            return await read_state(client, self.keys)

    def problems(self, states: Mapping[NodeId, State]) -> list[str]:
        """Problems with what the servers show: writes that are missing, or that only some have."""
        found = [
            problem
            for state in states.values()
            for writes in self._writes.values()
            for problem in writes.lost(state.numbers)[:PROBLEMS_MAX]
        ]
        if len({state.checksum for state in states.values()}) > 1:
            found.append("the servers' znodes differ")
        return found

    async def _write(self, node: NodeId) -> None:
        """One connection's part. When it breaks, what was under way is unknown; a new one goes on behind it."""
        writes = self._writes[node]
        outstanding = max(1, self.outstanding // len(self.addresses))
        while self.budget.left:
            try:
                async with connected(self.addresses[node], PATIENCE_SECONDS) as client:
                    await client.write(writes, outstanding)
            except UnavailableError as error:
                writes.give_up()
                if node not in self.down:
                    tell(f"the connection to node {node}: {error}")
                await CLOCK.sleep(PAUSE_SECONDS)
        self.ended = CLOCK.monotonic()
