"""Leads one coordinator by hand."""

from __future__ import annotations

from typing import Final

import attrs
import trio

from virtuallog.contract.errors import UnavailableError, VirtualLogError
from virtuallog.contract.ports import Clock
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.drivers.coordinator_driver import CoordinatorDriver

PAUSE_SECONDS: Final = 0.15
"""Between two elections."""
ATTEMPTS_MAX: Final = 100


@attrs.define(eq=False)
class Leader:
    """The coordinator on one machine, led by hand. Mesos' `Coordinator`: None says not elected, or maybe."""

    node: NodeId
    running: CoordinatorDriver
    clock: Clock
    acknowledged: list[tuple[int, bytes]]
    """Decisions that were acknowledged, as (position, payload)."""

    async def elect(self) -> int | None:
        """One attempt; the last position of the log."""
        try:
            return await self.running.stand()
        except UnavailableError:
            return None

    async def insist(self) -> int:
        """Stand until elected."""
        for _ in range(ATTEMPTS_MAX):
            if (end := await self.elect()) is not None:
                return end
            await self.clock.sleep(PAUSE_SECONDS)
        raise AssertionError(f"the coordinator on node {self.node} is not elected")

    async def append(self, payload: bytes) -> int | None:
        """The position, decided."""
        outcome = await self.append_soon(payload).wait()
        return None if isinstance(outcome, VirtualLogError) else outcome

    def append_soon(self, payload: bytes) -> Pending:
        """The same, without waiting."""
        pending = Pending()

        def done(outcome: int | VirtualLogError) -> None:
            if isinstance(outcome, int):
                self.acknowledged.append((outcome, payload))
            pending.settle(outcome)

        self.running.append(payload, done)
        return pending

    async def truncate(self, to: int) -> int | None:
        """Position of the TRUNCATE, decided."""
        try:
            return await self.running.truncate(to)
        except UnavailableError:
            return None


@attrs.define(eq=False)
class Pending:
    """An append that is under way."""

    outcome: int | VirtualLogError | None = None
    _settled: trio.Event = attrs.field(factory=trio.Event)

    def settle(self, outcome: int | VirtualLogError) -> None:
        assert self.outcome is None, "an append ends once"
        self.outcome = outcome
        self._settled.set()

    async def wait(self) -> int | VirtualLogError:
        await self._settled.wait()
        assert self.outcome is not None
        return self.outcome
