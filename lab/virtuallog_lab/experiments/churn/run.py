"""One run of `churn.py`: the writers, the wipe in the middle, and the comparison in the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs
import trio

from virtuallog.contract.ports import Services
from virtuallog.contract.types import NodeId
from virtuallog_lab.experiments.churn.client import CLOCK, connected, make_znodes
from virtuallog_lab.experiments.churn.load import ChurnLoad
from virtuallog_lab.experiments.churn.sizes import ClusterSizes, SizeObserver
from virtuallog_lab.experiments.churn.wipe import POLL_SECONDS, RESTORE_SECONDS, Wipe
from virtuallog_lab.harness.report import tell
from virtuallog_server.local_cluster.supervisor import LocalCluster

WIPED: Final = NodeId(3)
WIPED_AT: Final = 0.4
"""Share of all writes after which a server is wiped."""
LOOKS: Final = 300
"""Looks at the servers over the whole run, at most one a second."""


@attrs.frozen(kw_only=True)
class ChurnPlan:
    """The options."""

    writes: int
    keys: int
    size: int
    outstanding: int
    loglet: str
    wipe: bool


@attrs.frozen(kw_only=True)
class ChurnFindings:
    """Findings of a run."""

    plan: ChurnPlan
    seconds: float
    """Seconds until the last write was acknowledged."""
    looks: Sequence[ClusterSizes]
    marks: Mapping[str, float]
    """Stages of the wiped server, in seconds since the start."""
    checksums: Mapping[int, int]
    """Checksum of all znodes, by server."""
    problems: Sequence[str]

    def plain(self) -> dict[str, Any]:
        return attrs.asdict(self)


@attrs.define(eq=False)
class ChurnExperiment:
    """Churn of a database with a wiped server in the middle."""

    plan: ChurnPlan
    cluster: LocalCluster
    addresses: Mapping[NodeId, str]
    """Addresses at which the servers accept clients."""
    services: Services
    observer: SizeObserver
    _load: ChurnLoad = attrs.field(init=False)
    _marks: dict[str, float] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        plan = self.plan
        self._load = ChurnLoad(self.addresses, plan.keys, plan.size, plan.outstanding, frozenset({WIPED}))

    async def run(self) -> ChurnFindings:
        """Run the whole experiment.

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
                writers.start_soon(self._load.write, self.plan.writes)
            nursery.cancel_scope.cancel()
        await self.observer.look(self._load.done)
        states = {node: await self._load.state(node) for node in self.addresses}
        return ChurnFindings(
            plan=self.plan,
            seconds=self._load.ended - self.observer.began,
            looks=self.observer.looks,
            marks=self._marks,
            checksums={int(node): state.checksum for node, state in states.items()},
            problems=self._load.problems(states),
        )

    @property
    def _now(self) -> float:
        return CLOCK.monotonic() - self.observer.began

    async def _watch(self) -> None:
        while True:
            look = await self.observer.look(self._load.done)
            tell(
                f"{look.at:7.1f} s {look.writes:>10,} writes, log {look.most('log_bytes') >> 20} MiB, "
                f"store {look.most('store_bytes') >> 20} MiB, log from {look.trim_point:,} to {look.most('cursor'):,}"
            )
            expected_seconds = look.at * self.plan.writes / look.writes if look.writes > self.plan.keys else 0.0
            await CLOCK.sleep(max(1.0, expected_seconds / LOOKS))

    async def _wipe(self) -> None:
        """Kill a server, remove all that it has, and start it again in its own place."""
        while self._load.done < WIPED_AT * self.plan.writes:
            await CLOCK.sleep(POLL_SECONDS)
        await Wipe(
            node=WIPED, address=self.addresses[WIPED], cluster=self.cluster, services=self.services,
            log=self.observer.log, mark=self._mark,
        ).run()  # fmt: skip

    def _mark(self, what: str) -> None:
        self._marks[what] = self._now
        tell(f"{self._now:7.1f} s node {WIPED} {what}")
