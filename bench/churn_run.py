"""One run of `churn.py`: the writers, the wipe in the middle, and what is compared in the end."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs
import trio

from bench.churn_client import CLOCK, Budget, State, Writes, connected, make_znodes, read_state, shares
from bench.churn_sizes import Look, Observer
from server.bench.report import tell
from server.cluster import LocalCluster
from virtuallog.connect import ask_living
from virtuallog.errors import UnavailableError, VirtualLogError
from virtuallog.membership import ReplaceNode
from virtuallog.ports import Services
from virtuallog.types import NodeId

WIPED: Final = NodeId(3)
WIPED_AT: Final = 0.4
"""Of all writes."""
PATIENCE_SECONDS: Final = 10.0
"""For a server to take a client."""
RESTORE_SECONDS: Final = 600.0
ASK_SECONDS: Final = 15.0
POLL_SECONDS: Final = 0.25
PROBLEMS_MAX: Final = 5
"""Shown of each writer at each server."""
LOOKS: Final = 300
"""So often the servers are looked at over the whole run, but not more often than once a second."""


@attrs.frozen(kw_only=True)
class Plan:
    """The options."""

    writes: int
    keys: int
    size: int
    outstanding: int
    loglet: str
    wipe: bool


@attrs.frozen(kw_only=True)
class Findings:
    """What came of it."""

    plan: Plan
    seconds: float
    """Until the last write was acknowledged."""
    looks: Sequence[Look]
    marks: Mapping[str, float]
    """When what happened to the wiped server, in seconds since the start."""
    checksums: Mapping[int, int]
    """Of all znodes, by server."""
    problems: Sequence[str]

    def plain(self) -> dict[str, Any]:
        return attrs.asdict(self)


@attrs.define(eq=False)
class Churn:
    """See above."""

    plan: Plan
    cluster: LocalCluster
    addresses: Mapping[NodeId, str]
    """Where the servers take clients."""
    services: Services
    observer: Observer
    _budget: Budget = attrs.field(init=False)
    _writes: dict[NodeId, Writes] = attrs.field(init=False)
    _marks: dict[str, float] = attrs.field(factory=dict, init=False)

    _ended: float = attrs.field(default=0.0, init=False)
    """When the last write was acknowledged."""

    def __attrs_post_init__(self) -> None:
        self._budget = Budget(self.plan.writes)
        parts = shares(self.plan.keys, len(self.addresses))
        filling = bytes(self.plan.size - 8)
        self._writes = {
            node: Writes(part, filling, self._budget) for node, part in zip(self.addresses, parts, strict=True)
        }

    async def run(self) -> Findings:
        """All of it.

        Raises:
            VirtualLogError: something could not be done.
        """
        async with connected(self.addresses[NodeId(1)], RESTORE_SECONDS) as client:
            await make_znodes(client, self.plan.keys)
        self.observer.began = CLOCK.monotonic()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch)
            async with trio.open_nursery() as writers:
                if self.plan.wipe:
                    writers.start_soon(self._wipe)
                for node in self._writes:
                    writers.start_soon(self._write, node)
            nursery.cancel_scope.cancel()
        await self.observer.look(self._done)
        states = {node: await self._state(node) for node in self.addresses}
        return Findings(
            plan=self.plan,
            seconds=self._ended,
            looks=self.observer.looks,
            marks=self._marks,
            checksums={int(node): state.checksum for node, state in states.items()},
            problems=self._problems(states),
        )

    @property
    def _done(self) -> int:
        return sum(writes.count for writes in self._writes.values())

    @property
    def _now(self) -> float:
        return CLOCK.monotonic() - self.observer.began

    async def _write(self, node: NodeId) -> None:
        """One connection's part. When it breaks, what was under way is unknown; a new one goes on behind it."""
        writes = self._writes[node]
        outstanding = max(1, self.plan.outstanding // len(self.addresses))
        while self._budget.left:
            try:
                async with connected(self.addresses[node], PATIENCE_SECONDS) as client:
                    await client.write(writes, outstanding)
            except UnavailableError as error:
                writes.give_up()
                if node != WIPED:
                    tell(f"the connection to node {node}: {error}")
                await CLOCK.sleep(POLL_SECONDS)
        self._ended = self._now

    async def _watch(self) -> None:
        while True:
            look = await self.observer.look(self._done)
            tell(
                f"{look.at:7.1f} s {look.writes:>10,} writes, log {look.most('log_bytes') >> 20} MiB, "
                f"store {look.most('store_bytes') >> 20} MiB, log from {look.trim_point:,} to {look.most('cursor'):,}"
            )
            expected_seconds = look.at * self.plan.writes / look.writes if look.writes > self.plan.keys else 0.0
            await CLOCK.sleep(max(1.0, expected_seconds / LOOKS))

    async def _wipe(self) -> None:
        """Kill a server, remove all that it has, and start it again in its own place."""
        while self._done < WIPED_AT * self.plan.writes:
            await CLOCK.sleep(POLL_SECONDS)
        register = await self.observer.log.view.current()
        request = ReplaceNode(node=WIPED, store_id=register.nodes[WIPED].store_id, force=True)
        await self.cluster.kill(WIPED)
        self._mark("killed")
        for entry in self.cluster.nodes[WIPED].config.data.iterdir():
            if entry.is_dir():
                shutil.rmtree(entry)
            elif entry.name not in {"node.toml", "log"}:
                entry.unlink()
        while not await self._replaced(request, waiting_is_enough=True):
            await CLOCK.sleep(POLL_SECONDS)
        await self.cluster.start(WIPED)
        self._mark("started")
        await self._wait_serving()
        self._mark("serving")
        while not await self._replaced(request, waiting_is_enough=False):
            await CLOCK.sleep(1.0)
        self._mark("copied")

    def _mark(self, what: str) -> None:
        self._marks[what] = self._now
        tell(f"{self._now:7.1f} s node {WIPED} {what}")

    async def _replaced(self, request: ReplaceNode, *, waiting_is_enough: bool) -> bool:
        try:
            progress = await ask_living(self.services, self.cluster.file, request, ASK_SECONDS)
        except VirtualLogError:  # a busy cluster: ask again
            return False
        return progress.done or (waiting_is_enough and progress.waits)

    async def _wait_serving(self) -> None:
        with CLOCK.timeout(RESTORE_SECONDS):
            while True:
                try:
                    async with connected(self.addresses[WIPED], PATIENCE_SECONDS):
                        return
                except UnavailableError:
                    await CLOCK.sleep(POLL_SECONDS)
        raise UnavailableError(f"node {WIPED} takes no clients {RESTORE_SECONDS:g} s after its start")

    async def _state(self, node: NodeId) -> State:
        async with connected(self.addresses[node], PATIENCE_SECONDS) as client:
            return await read_state(client, self.plan.keys)

    def _problems(self, states: Mapping[NodeId, State]) -> list[str]:
        found = [
            problem
            for state in states.values()
            for writes in self._writes.values()
            for problem in writes.lost(state.numbers)[:PROBLEMS_MAX]
        ]
        if len({state.checksum for state in states.values()}) > 1:
            found.append("the servers' znodes differ")
        return found
