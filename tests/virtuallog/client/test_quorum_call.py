"""QuorumCall on a slow machine, which simulated time does not show."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, cast

import attrs
import trio

from virtuallog.admin.control import GetStatus
from virtuallog.client.quorum_call import QuorumCall
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.ports import Clock, Environment, Services
from virtuallog.contract.types import NodeId


@attrs.define
class SlowMachine:
    """A clock that advances a second at each read, and services that never answer."""

    now: float = 0.0
    asked: int = 0

    def monotonic(self) -> float:
        self.now += 1.0
        return self.now

    def timeout(self, seconds: float) -> trio.CancelScope:
        assert seconds >= 0, "trio refuses this"
        return trio.CancelScope(deadline=-1.0)

    def post(self, node: NodeId, request: Any, done: Callable[[Any], None], timeout_seconds: float) -> None:
        self.asked += 1
        done(UnavailableError("no node"))


async def test_a_repeat_that_is_overdue_is_sent_at_once() -> None:
    """On a busy machine a repeat is due before the task waits for it; that is no error."""
    machine = SlowMachine()
    environment = Environment(
        services=cast(Services, machine), clock=cast(Clock, machine), random=random.Random(1), nursery=cast(Any, None)
    )
    calls = QuorumCall(environment)
    calls.ask(NodeId(1), GetStatus(), "tag", 1.0, lambda: True)

    assert await calls.receive(10.0) is None
    assert machine.asked > 1
