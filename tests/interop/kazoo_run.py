"""ZooKeeper's clients against three real processes that are killed, stopped for seconds, and swapped underneath; then the verdict.

Clients, checks and the witness are those of the simulator. What is left out: the witness follows the servers, so it cannot say
what they knew at a moment (handshakes). When a session was heard of is told by the clock of the machine, which all of them share.
"""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

import attrs
import trio

from tests.free_ports import free_ports
from tests.interop.log_witness import Follower, following
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.history import History
from virtuallog.testing.checker.violation import Violation
from virtuallog_server.local_cluster import layout
from virtuallog_server.local_cluster.supervisor import LocalCluster, open_local_cluster
from virtuallog_simulation.checks.database.replay import answered, replay
from virtuallog_simulation.checks.database.results import DATABASE_CHECKS, handshakes_are_of_the_log
from virtuallog_simulation.checks.database.sessions import session_checks
from virtuallog_simulation.checks.database.watches import WATCH_CHECKS, events_compared
from virtuallog_simulation.scenarios.database.witness import Witness
from virtuallog_simulation.workload.database.connection import Dial
from virtuallog_simulation.workload.database.operations import DatabaseActor, prepare
from virtuallog_simulation.workload.database.session import DatabaseClient

NODES: Final = 3
TIMEOUT_MS: Final = 6000
START_SECONDS: Final = 60.0
SETTLE_SECONDS: Final = 120.0
"""Timeout until all clients have answers again; machines stall for seconds."""
ROUNDING: Final = 0.001
"""Tolerance for times in commands, as if clocks were so wrong."""


TROUBLE: Final = ("kill -9", "SIGSTOP", "swap")


@attrs.frozen(kw_only=True)
class Plan:
    """The load and the troubles of one run."""

    clients: int
    operations: int
    """Operations of all clients together, at least."""
    swaps: Sequence[str]
    """Kinds of loglets to swap to, one after the other, again and again."""
    swap_seconds: float
    hurt_seconds: float
    """Time from one kill, or stop, to the next."""
    stop_seconds: tuple[float, float]
    """Shortest and longest time for which a node is stopped."""
    pause_seconds: float
    """Mean pause of a client between two operations."""
    seed: int = 1


@attrs.define(eq=False)
class Outcome:
    """Counts and violations of one run."""

    violations: list[Violation]
    done: Counter[str]
    operations: int
    compared: int
    events: int


@attrs.define(eq=False)
class _Run:
    plan: Plan
    cluster: LocalCluster
    follower: Follower
    history: History
    ports: Sequence[int]
    done: Counter[str] = attrs.field(factory=Counter)
    parts: list[DatabaseActor] = attrs.field(factory=list)
    answered: int = 0
    numbers: count[int] = attrs.field(factory=lambda: count(1))

    @property
    def operations(self) -> int:
        return len(answered(self.history))

    async def client(self, number: int) -> None:
        source = random.Random(f"{self.plan.seed} {number}")
        client = DatabaseClient(
            f"c{number}", self.history, source, self.dials(), TIMEOUT_MS, lambda: next(self.numbers)
        )
        part = DatabaseActor(client, source, self.plan.operations, self.plan.pause_seconds, self.count)
        self.parts.append(part)
        await part.perform()
        await part.stay(self.one_more)

    def count(self, what: str) -> None:
        self.done[what] += 1

    def one_more(self) -> None:
        self.answered += 1

    def dials(self) -> Sequence[Dial]:
        return [partial(trio.open_tcp_stream, layout.HOST, port) for port in self.ports]

    async def swap(self) -> None:
        """Swap to every kind in its turn. A swap that is refused while nodes are down is repeated as the next one."""
        while True:
            for kind in self.plan.swaps:
                await trio.sleep(self.plan.swap_seconds)
                with trio.move_on_after(2 * self.plan.swap_seconds), suppress(VirtualLogError):
                    before = (await self.follower.log.view.current()).chain.last.kind
                    await self.follower.log.reconfig_extend(kind, {})
                    self.count(f"swap {before} for {kind}")

    async def hurt(self) -> None:
        """Kill and restart one node after the other, or stop it for a while."""
        source = random.Random(f"{self.plan.seed} hurt")
        while True:
            await trio.sleep(self.plan.hurt_seconds)
            node = NodeId(source.randint(1, NODES))
            if self.done["kill -9"] <= self.done["SIGSTOP"]:
                await self.cluster.kill(node)
                self.count("kill -9")
                await trio.sleep(0.5)
                await self.cluster.start(node)
            else:
                await self._stop(node, source.choice(self.plan.stop_seconds))

    async def _stop(self, node: NodeId, seconds: float) -> None:
        pid = self.cluster.nodes[node].pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        self.count("SIGSTOP")
        try:
            await trio.sleep(seconds)
        finally:
            os.kill(pid, signal.SIGCONT)

    async def until_enough(self) -> None:
        while self.operations < self.plan.operations or not self.was_troubled:
            await trio.sleep(0.2)

    @property
    def was_troubled(self) -> bool:
        """True if each kind of trouble has happened."""
        return all(any(what.startswith(way) for what in self.done) for way in TROUBLE)

    async def settle(self) -> None:
        """Let all clients finish and get one more answer, and let the witness see it."""
        for part in self.parts:
            part.acts = 0
        with trio.fail_after(SETTLE_SECONDS):
            while self.answered < len(self.parts):
                await trio.sleep(0.1)
            await self.follower.catch_up()


async def run(plan: Plan, folder: Path) -> Outcome:
    """Run the plan, with data in `folder`."""
    first = free_ports(NODES)
    history, violations = History(trio.current_time), list[Violation]()
    async with open_local_cluster(folder / "cluster", NODES, base_port=0, zookeeper_port=first) as cluster:
        await cluster.wait_ready()
        async with following(cluster, folder / "witness", Witness(history, violations)) as follower:
            ports = [first + number for number in range(NODES)]
            state = _Run(plan, cluster, follower, history, ports)
            async with trio.open_nursery() as nursery:
                await _begin(state)
                for number in range(1, plan.clients + 1):
                    nursery.start_soon(state.client, number)
                async with trio.open_nursery() as trouble:
                    trouble.start_soon(state.swap)
                    trouble.start_soon(state.hurt)
                    await state.until_enough()
                    trouble.cancel_scope.cancel()
                await _start_all(cluster)
                await state.settle()
                nursery.cancel_scope.cancel()
    return _judge(state, violations)


async def _begin(state: _Run) -> None:
    """Make the znodes that all clients need."""
    client = DatabaseClient(
        "first", state.history, random.Random(0), state.dials(), TIMEOUT_MS, lambda: next(state.numbers)
    )
    with trio.fail_after(START_SECONDS):
        await prepare(client)


async def _start_all(cluster: LocalCluster) -> None:
    for node in cluster.nodes.values():
        if node.pid is None:
            await cluster.start(node.id)


def _judge(state: _Run, violations: list[Violation]) -> Outcome:
    checks = [check for check in DATABASE_CHECKS if check is not handshakes_are_of_the_log]
    for check in (*checks, *WATCH_CHECKS, *session_checks(ROUNDING, calm=False)):
        violations.extend(check(state.history))
    compared, events = replay(state.history).compared, events_compared(state.history)
    return Outcome(violations, state.done, state.operations, compared, events)
