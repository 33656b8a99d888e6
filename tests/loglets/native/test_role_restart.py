"""The native role of a node, closed by a retryable error and opened anew in the same process."""

from __future__ import annotations

import random
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.loglets.native.cluster import SMALL_WAL
from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import OverloadedError, ReconfigurationNeededError
from virtuallog.contract.ports import Environment, NodeEnvironment
from virtuallog.contract.types import LogletOffset, NodeId, Sealed
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.disk import Disk
from virtuallog.testing.sim.network import SimulatedNetwork
from virtuallog.testing.sim.process import Process
from virtuallog.testing.sim.timeline import Timeline
from virtuallog_loglets.native.config import NativeConfig
from virtuallog_loglets.native.loglet import NativeLoglet
from virtuallog_loglets.native.provider import NativeProvider
from virtuallog_server.node.role import NodeRole

NODE = NodeId(1)
FORMER, LATER = SegmentId(1, 1), SegmentId(2, 2)


async def test_its_sequencers_do_not_go_on(autojump_clock: MockClock) -> None:
    """The memory of the sequencers is gone: a second one of the same boot would give offsets to other batches. Their loglets take
    no more, as after a restart of the process. Durable entries are there, and a loglet that is made later has a sequencer."""
    config = NativeConfig(servers=(NODE,), sequencer=NODE, boot=1)
    async with trio.open_nursery() as nursery:
        timeline, provider = Timeline(), NativeProvider(SMALL_WAL)
        nursery.start_soon(timeline.run)
        network, disk = SimulatedNetwork(timeline, random.Random(1)), Disk(random.Random(1))
        process = Process(NODE, 1)
        clock = SimulatedClock(process)

        async def storage(_name: str) -> Any:
            return disk.mounted or disk.mount()

        async def segment_config(_segment: object) -> tuple[str, bytes]:
            return "native", config.encode()

        services = network.services(process, clock)
        role = NodeRole("native", provider.interfaces, provider.serve)
        network.listen(process, role.handlers)
        environment = NodeEnvironment(
            services=services, clock=clock, random=random.Random(1), nursery=nursery, node=NODE, boot=1, storage=storage,
            key_values=storage, segment_config=segment_config, fail=role.fail,
        )  # fmt: skip
        nursery.start_soon(role.run, environment)
        await role.settled.wait()
        client = Environment(services=services, clock=clock, random=random.Random(2), nursery=nursery)
        former, later = (NativeLoglet(segment, config, client) for segment in (FORMER, LATER))
        batch = Batch.build(SessionId(b"s" * 16), 0, [b"before"])
        await former.append(batch, opens=True)

        role.fail(OverloadedError("a queue is full"))
        await clock.sleep(1.0)

        with pytest.raises(ReconfigurationNeededError):
            await former.append(batch, opens=True)
        await former.seal()
        assert await former.check_tail() == Sealed(LogletOffset(1))
        assert await later.append(batch, opens=True) == range(1)
        nursery.cancel_scope.cancel()
