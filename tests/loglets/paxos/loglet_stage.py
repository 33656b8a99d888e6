"""A client of a paxos loglet under test, with replicas whose answers the test writes."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeAlias

import attrs
import pytest
import trio

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import UnavailableError, VirtualLogError
from virtuallog.contract.ports import Environment
from virtuallog.contract.types import NodeId
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.process import Process
from virtuallog_loglets.paxos.config import PaxosConfig
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.loglet import PaxosLoglet
from virtuallog_loglets.paxos.messages import (
    NO_NODE,
    NOWHERE,
    CoordinatorReply,
    PaxosAppend,
    PaxosRecord,
    PaxosSeal,
    PaxosTruncate,
    Standing,
    Status,
)

SEGMENT = SegmentId(3, 7)


SESSION = SessionId(b"s" * 16)


ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


SILENT = object()
"""A script's answer that never comes."""


Script: TypeAlias = Callable[[NodeId, Any], Any]


@attrs.define
class Stage:
    """Environment of one client; a script answers its calls."""

    script: Script
    clock: SimulatedClock = attrs.field(factory=lambda: SimulatedClock(Process(NodeId(99))))
    asked: list[tuple[NodeId, Any]] = attrs.field(factory=list)
    nursery: trio.Nursery | None = None

    def post(self, node: NodeId, request: Any, done: Callable[[Any], None], timeout_seconds: float) -> None:
        async def answer() -> None:
            try:
                done(await self.call(node, request, timeout_seconds))
            except VirtualLogError as error:
                done(error)

        assert self.nursery is not None
        self.nursery.start_soon(answer)

    async def call(self, node: NodeId, request: Any, timeout_seconds: float) -> Any:
        self.asked.append((node, request))
        answer = self.script(node, request)
        await self.clock.sleep(timeout_seconds if answer is SILENT else 0.001)
        if answer is SILENT:
            raise UnavailableError(f"node {node} does not answer")
        if isinstance(answer, VirtualLogError):
            raise answer
        return answer

    def errands(self) -> list[tuple[NodeId, bool]]:
        """(node, insisting) of what was asked of coordinators."""
        return [
            (node, request.insist)
            for node, request in self.asked
            if isinstance(request, PaxosAppend | PaxosSeal | PaxosTruncate)
        ]

    def loglet(self) -> PaxosLoglet:
        assert self.nursery is not None
        config = PaxosConfig(replicas=(ONE, TWO, THREE), coordinator=ONE)
        environment = Environment(services=self, clock=self.clock, random=random.Random(1), nursery=self.nursery)
        return PaxosLoglet(SEGMENT, config, environment)


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with trio.open_nursery() as nursery:
        yield Stage(lambda node, request: SILENT, nursery=nursery)
        nursery.cancel_scope.cancel()


def batch(*payloads: bytes) -> Batch:
    return Batch.build(SESSION, 0, payloads or (b"a",))


def taken(place: int, coordinator: NodeId = NO_NODE) -> CoordinatorReply:
    return CoordinatorReply(place=place, coordinator=coordinator)


def elsewhere(coordinator: NodeId = NO_NODE) -> CoordinatorReply:
    return CoordinatorReply(place=NOWHERE, coordinator=coordinator)


def standing(end: int, learned: int | None = None, seal: int = NOWHERE, trim: int = 0, begin: int = 0) -> Standing:
    return Standing(status=Status.VOTING, incarnation=1, promised=1, begin=begin, learned=end + 1 if learned is None else learned,
                    end=end, uniform_from=end + 1, uniform=NOWHERE, seal=seal, trim=trim)  # fmt: skip


def record(position: int, value: bytes | None = None) -> PaxosRecord:
    value = values.append(batch(b"%d" % position).blob, 5) if value is None else value
    return PaxosRecord(position=position, promised=1, performed=1, value=value, learned=True)
