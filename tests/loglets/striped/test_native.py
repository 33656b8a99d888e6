"""Striped over native loglets: slow stripes, sequencers that die, diagnosis. What holds for raft stripes too is in `test_replicated.py`."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from tests.loglets.native.cluster import SEGMENT, running_cluster
from tests.loglets.striped.cluster import append_on, open_striped, session_on, striped, striped_provider
from virtuallog.contract.batch import Batch
from virtuallog.contract.diagnosis import COMBINED
from virtuallog.contract.errors import RetryableError
from virtuallog.contract.ports import Request
from virtuallog.contract.types import NodeId, Sealed
from virtuallog.testing.sim.network import LinkQuality
from virtuallog_loglets.native.messages import NativeGetState, NativeStore
from virtuallog_loglets.striped.core.layout import offset_of

pytestmark = pytest.mark.usefixtures("autojump_clock")


async def test_a_slow_stripe_is_given_the_time_that_it_takes() -> None:
    """Each call takes 0.2 to 0.4 s, and so an append some 0.55 s. A filler that is given up sooner lands all the same: a stripe that is slow,
    as it has too much to do, would have more of them to do, and each append would take three times as long."""
    async with running_cluster(quality=LinkQuality(delay_seconds=0.1)) as cluster:
        loglet = open_striped(cluster, striped(cluster, 2))
        await append_on(loglet, 1, 0)
        clock = cluster.environment().clock
        began = clock.monotonic()
        for number in range(1, 11):
            await append_on(loglet, 1, number)
        assert clock.monotonic() - began < 10 * 0.7


@pytest.mark.parametrize("own", [0, 1])
async def test_with_the_sequencer_of_a_stripe_the_loglet_is_at_its_end(own: int) -> None:
    """The sequencer of the append or of a lower stripe is gone: the append says so or is a maybe; a
    seal needs no sequencer."""
    async with running_cluster() as cluster:
        loglet = open_striped(cluster, striped(cluster, 2))
        await append_on(loglet, own, 0)
        before = (await loglet.check_tail()).tail
        cluster.crash(1)  # it ordered stripe 0

        with pytest.raises(RetryableError):
            await append_on(loglet, own, 1)

        await loglet.seal()
        tail = await loglet.check_tail()
        assert isinstance(tail, Sealed)
        assert tail.tail >= before


async def test_it_says_which_stripe_has_the_first_hole() -> None:
    """Each server of each stripe is asked, and its answer is shown in offsets of the whole."""
    async with running_cluster() as cluster:
        config = striped(cluster, 2)
        loglet = open_striped(cluster, config)
        await append_on(loglet, 1, 0)
        await cluster.client(config.parts(SEGMENT)[0]).append(
            Batch.build(session_on(0, 2, b"z"), 0, [b"a"]), opens=True
        )
        cluster.crash(3)

        *servers, together = await striped_provider().explain(SEGMENT, config.encode(), cluster.environment())

        assert [evidence.source for evidence in servers] == [f"stripe {s}, node {n}" for s in (0, 1) for n in (1, 2, 3)]
        assert [bool(evidence.problem) for evidence in servers] == [False, False, True] * 2
        assert servers[0].facts["tail"] == offset_of(4), "stripe 0 has two places: slots 0 and 2"
        assert {evidence.facts.get("trim", 0) for evidence in servers} == {0}
        assert together.source == COMBINED
        facts = together.facts
        assert (facts["tail"], facts["first hole"], facts["sealed"]) == (offset_of(3), "stripe 1", False)
        assert facts["by"] == ["stripe 1, node 1", "stripe 1, node 2"]
        assert facts["spare"] == 0
        assert [order["node"] for order in facts["orders"]] == [1, 2]


async def test_waves_of_a_stripe_that_come_late_do_not_end_it() -> None:
    """Everything that goes to the servers of stripe 0 is kept for a while: its appends, and those above on stripe 1, wait."""
    async with running_cluster() as cluster:
        config = striped(cluster, 2)
        loglet, lower = open_striped(cluster, config), config.parts(SEGMENT)[0]
        await append_on(loglet, 1, 0)

        def gate(_node: NodeId, request: Request[Any]) -> bool:
            return not (isinstance(request, NativeStore | NativeGetState) and request.segment == lower)

        cluster.gate = gate
        places: list[range] = []

        async def append() -> None:
            places.append(await append_on(loglet, 1, 1))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(append)
            await cluster.clock.sleep(0.3)
            assert not places
            cluster.release()
        assert places == [range(offset_of(3), offset_of(3) + 1)]
