"""Bugs that the simulator has found, without it: one small story per row of docs/internals/lessons.md that names
no other test."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import trio

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.ports import NodeEnvironment, Request
from virtuallog.contract.types import NodeId
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.process import Process
from virtuallog_loglets.native.config import NativeConfig
from virtuallog_loglets.native.core.sequencer import Sequencer
from virtuallog_loglets.native.drivers.sequencer_service import SequencerDriver
from virtuallog_loglets.native.messages import NativeAppend
from virtuallog_simulation.world.role import no_segments
from virtuallog_simulation.world.scheduler import run

NODE, SEGMENT = NodeId(1), SegmentId(1, 1)


class Postbox:
    """Services that keep the callers that wait for an answer."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[Any], None]] = []

    def post(self, node: NodeId, request: Request[Any], done: Callable[[Any], None], timeout_seconds: float) -> None:
        self.waiting.append(done)

    async def call(self, node: NodeId, request: Request[Any], timeout_seconds: float) -> Any:
        raise AssertionError("a sequencer posts")


async def _no_disk(_: str) -> Any:
    raise AssertionError("a sequencer has no disk")


def environment(services: Postbox, nursery: trio.Nursery) -> NodeEnvironment:
    return NodeEnvironment(
        services=services,
        clock=SimulatedClock(Process(NODE)),
        random=random.Random(1),
        nursery=nursery,
        node=NODE,
        boot=1,
        storage=_no_disk,
        key_values=_no_disk,
        segment_config=no_segments,
        fail=lambda error: None,
    )


def test_an_answer_to_a_sequencer_whose_role_was_closed_concerns_nobody() -> None:
    """The disk fails, the role and its nursery are closed; a store that times out later must not start a task there.

    Found by `virtuallog simulate --seed 66`: the error went up into the task that delivered the answer.
    """

    async def story() -> None:
        services = Postbox()
        config = NativeConfig(servers=(NODE,), sequencer=NODE, boot=1)
        async with trio.open_nursery() as nursery:
            running = SequencerDriver(Sequencer(SEGMENT, config), environment(services, nursery))
            nursery.start_soon(running.run)
            batch = Batch.build(SessionId(bytes(16)), 0, [b"entry"])
            running.append(NativeAppend(segment=SEGMENT, batch=batch.blob, opens=True), lambda outcome: None)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

        (store,) = services.waiting
        store(UnavailableError("no answer in time"))
        assert services.waiting == [store], "nothing is sent again"

    run(1, story)
