"""Preflight: the log moves to external storage only if its kind confirms that the loglet could be used."""

from __future__ import annotations

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.virtuallog.client.world import World
from virtuallog.contract.errors import InvalidSettingError
from virtuallog.contract.ports import Environment
from virtuallog.reconfiguration.chain_writer import PREFLIGHT_SECONDS
from virtuallog_loglets.memory import MemoryProvider


@attrs.define(eq=False)
class DistantProvider(MemoryProvider):
    """A provider of loglets in external storage, to which it opens a connection first."""

    kind: str = "distant"
    silent: bool = False
    connections: int = 0

    async def probe(self, config: bytes, environment: Environment) -> None:
        environment.nursery.start_soon(self._connection)
        await trio.sleep_forever() if self.silent else await trio.lowlevel.checkpoint()

    async def _connection(self) -> None:
        self.connections += 1
        try:
            await trio.sleep_forever()
        finally:
            self.connections -= 1


@pytest.mark.parametrize("silent", [False, True])
async def test_a_question_leaves_no_connection_behind(
    silent: bool, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """A node lives for months, and preflights may be frequent. Without an answer the log stays where it is."""
    distant = DistantProvider(silent=silent)
    world = World(nursery, {"memory": MemoryProvider(), "distant": distant})
    log = world.client()
    await log.append(b"before")
    if silent:
        with pytest.raises(InvalidSettingError, match=f"distant: .* in {PREFLIGHT_SECONDS:g} s"):
            await log.reconfig_extend("distant")
    else:
        await log.reconfig_extend("distant")

    assert await log.append(b"after") == 1
    assert world.register.chain.last.kind == ("memory" if silent else "distant")
    assert distant.connections == 0
    nursery.cancel_scope.cancel()
