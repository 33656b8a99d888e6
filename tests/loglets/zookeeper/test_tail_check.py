"""Tails of a loglet in ZooKeeper, asked for while others append."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import attrs
import trio

from tests.loglets.zookeeper.world import running_bench
from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.ports import Clock
from virtuallog.contract.types import Open
from virtuallog.contract.znodes import Stat, Znodes

LATE_SECONDS = 1.0


@attrs.frozen
class LateAnswers:
    """A ZooKeeper whose answers about tails are read at once and come back late."""

    znodes: Znodes
    clock: Clock

    async def stats(self, paths: Sequence[str], *, fresh: bool = False) -> Sequence[Stat | None]:
        found = await self.znodes.stats(paths, fresh=fresh)
        if fresh:
            await self.clock.sleep(LATE_SECONDS)
        return found

    def __getattr__(self, name: str) -> object:
        return getattr(self.znodes, name)


async def test_an_append_that_is_acknowledged_during_a_look_at_the_tail_is_no_loss(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The look has begun before it, so it may answer with less than this client knows when the answer is there."""
    async with running_bench() as bench:
        loglet = bench.client(znodes=cast(Znodes, LateAnswers(bench.znodes(), bench.clock)))
        session = SessionId(bytes(16))
        first = await loglet.append(Batch.build(session, 0, [b"before"]), opens=True)
        tails = []

        async def check() -> None:
            tails.append(await loglet.check_tail())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(check)
            await bench.clock.sleep(LATE_SECONDS / 2)
            second = await loglet.append(Batch.build(session, 1, [b"meanwhile"]), opens=False)

        assert tails == [Open(second.start)]
        assert first.start < second.start
        assert (await loglet.check_tail()).tail > second.start
