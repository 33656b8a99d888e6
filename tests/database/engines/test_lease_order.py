"""Proposals that wait for the lease's holder complete in the same order of events as all others."""

from __future__ import annotations

from typing import Any

import trio
from trio.testing import MockClock

from tests.database.engines.test_lease import FAST, enabled, lagging
from tests.database.engines.world import replicas
from virtuallog_database.engines.core.entry import Entry


async def test_who_waited_for_the_holder_is_told_once_all_that_the_store_shows_was_seen(
    autojump_clock: MockClock,
) -> None:
    """A completed proposer reads next, or lets its client read, and the store shows a whole
    transaction then. If the watches of all of it had not fired, a client would see a change before
    its event, and an answer that is newer than it says."""
    async with replicas() as world:
        _, second, third = await enabled(world, others=lagging(FAST, 0.5))
        shown: list[tuple[int, int]] = []

        def done(result: Any) -> None:
            shown.append((len(second.application.items), len(second.application.seen)))

        second.application.engine.propose(Entry(b"waits for the holder"), done)
        await trio.sleep(0.1)
        assert second.application.items[-1] == b"waits for the holder", (
            "which has not said yet, as far as is heard here"
        )
        third.application.engine.propose(Entry(b"lies behind what the holder says"), lambda _: None)
        await trio.sleep(1.0)

        assert shown == [(5, 5)], "both came in one transaction"
