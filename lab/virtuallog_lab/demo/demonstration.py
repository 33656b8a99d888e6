"""The demonstration: a workload that never pauses, while everything underneath it is replaced.

It visits all kinds of loglets that need no external server, archives old segments, trims, kills the
node that orders, and leaves it to the cluster to go on. Entries are read and compared before they
are trimmed, all others in the end.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Final

import attrs
import trio

from virtuallog.admin.cluster_status import fetch_statuses
from virtuallog.admin.control import PrefixTrim
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.connect import connect
from virtuallog.contract.chain import Chain, Segment
from virtuallog.contract.errors import RetryableError, StorageError, UnavailableError
from virtuallog.contract.ports import Services
from virtuallog.contract.provider import replicated
from virtuallog.contract.types import LogPosition, NodeId
from virtuallog.node_services import ask_living, newest_register, open_services_to
from virtuallog.plugins import loglet_providers
from virtuallog.runtime.clock import SystemClock
from virtuallog_lab.demo.changes import ActiveSegment, ActiveSegments, Change, RequestedChange, find_changes
from virtuallog_lab.harness.trial import extend
from virtuallog_lab.workload.verdict import Judge, Verdict, show
from virtuallog_lab.workload.writers import Workload, acknowledgement_times
from virtuallog_server.local_cluster.supervisor import PROGRAM, LocalCluster

NODES: Final = 3
LOG_NODES: Final = 3
"""More that only store: nodes 4 to 6."""
CLIENTS: Final = 2
WRITERS_PER_CLIENT: Final = 16
VICTIM: Final = NodeId(3)
CHANGE_SECONDS: Final = 30.0
HEAL_SECONDS: Final = 60.0
"""Takes one or two; a machine that is busy with other things may need many."""
DRAIN_SECONDS: Final = 60.0
"""Seconds for the last appends, once everything has been mended."""
LOOK_SECONDS: Final = 0.1
"""Between two looks at the chain."""
GRACE_SECONDS: Final = 2.0
"""Seconds for which nodes keep archived segments; few, so that their removal can be seen."""
ARCHIVED: Final = slice(1, 3)
"""Indices of the archived segments of the chain: the second and the third."""


def can_archive() -> bool:
    """True if the libraries of the extra `archive` are installed. Loads them now: under load that
    would stop the run for a moment."""
    if not all(find_spec(name) for name in ("pyarrow", "fsspec", "numpy")):
        return False
    for module in ("virtuallog_loglets.archive.core.parquet", "fsspec.implementations.local"):
        import_module(module)
    return "archive" in loglet_providers()


@attrs.frozen
class Stop:
    """A way to continue the log."""

    kind: str
    settings: dict[str, str]
    label: str


@attrs.frozen
class Event:
    """Something that was done and is no swap. Swaps are found in the chain itself."""

    at: float
    """Seconds since the start."""
    label: str
    is_fault: bool = False
    """Done to a node, not to the log."""


@attrs.frozen(kw_only=True)
class DemoOutcome:
    """All that the demo has seen."""

    workload: Workload
    events: tuple[Event, ...]
    reigns: tuple[ActiveSegment, ...]
    changes: tuple[Change, ...]
    chain: Chain
    """Chain at the end."""
    trim_point: int
    verdict: Verdict


@attrs.define(eq=False)
class Demonstration:
    """`run` it once.

    Args:
        cluster: `NODES` nodes and `LOG_NODES` log servers that answer.
        tell: called with each step as a line of text.
        phase_seconds: how long the workload runs undisturbed between two steps.
    """

    _cluster: LocalCluster
    _tell: Callable[[str], None]
    _phase_seconds: float
    workload: Workload = attrs.field(init=False)
    _archives: bool = attrs.field(factory=can_archive, init=False)
    _clock: SystemClock = attrs.field(factory=SystemClock, init=False)
    _court: Judge = attrs.field(init=False)
    _reigns: ActiveSegments = attrs.field(factory=ActiveSegments, init=False)
    _asked: list[RequestedChange] = attrs.field(factory=list, init=False)
    _events: list[Event] = attrs.field(factory=list, init=False)
    _judged: LogPosition = attrs.field(default=LogPosition(0), init=False)
    """The judge has seen everything below."""
    _trim_point: LogPosition = attrs.field(default=LogPosition(0), init=False)

    def __attrs_post_init__(self) -> None:
        self.workload = Workload(self._clock)
        self._court = Judge(self.workload.told)

    async def run(self) -> DemoOutcome:
        """Takes some twelve phases, and what the steps between them need.

        Raises:
            VirtualLogError: a step could not be done at all.
        """
        async with _clients(self._cluster) as logs, open_services_to(self._cluster.file) as services:
            async with trio.open_nursery() as nursery:
                await nursery.start(self.workload.run, logs, WRITERS_PER_CLIENT)
                async with trio.open_nursery() as watching:
                    watching.start_soon(self._watch, services)
                    await self._steps(services, logs[0])
                    watching.cancel_scope.cancel()
                self.workload.stop()
                await self._drain(nursery)
            self._tell("reading everything back")
            verdict = await self._conclude(logs[0])
            return self._outcome(await self._chain(services), verdict)

    async def _steps(self, services: Services, log: VirtualLog) -> None:
        await self._undisturbed()
        for stop in tour(orderers((await self._chain(services)).last)):
            await self._swap(services, stop)
            await self._undisturbed()
        if self._archives:
            await self._archive(services)
        await self._trim(services, log)
        await self._undisturbed()
        await self._kill_and_recover()
        await self._undisturbed()

    async def _swap(self, services: Services, stop: Stop) -> None:
        self._say(f"swap to {stop.label}")
        began = self.workload.elapsed
        chain = (await extend(services, self._cluster.file, stop.kind, stop.settings)).chain
        ended = self.workload.elapsed
        self._reigns.see(ended, chain)
        self._asked.append(RequestedChange(began, ended, chain.last.id))
        took = f"after {1000 * (ended - began):.0f} ms"
        self._tell(f"    chain version {chain.version}: continues at position {chain.last.start}, {took}")

    async def _archive(self, services: Services) -> None:
        """Archive with the command of an operator, so that Arrow works in another process, as in
        production."""
        folder = self._cluster.path / "archives"
        for segment in (await self._chain(services)).segments[ARCHIVED]:
            self._note(f"archive a {segment.kind} segment")
            await _run_program("archive", str(segment.id), "--to", folder.as_uri(), "--grace", f"{GRACE_SECONDS:g}",
                               "--cluster", str(self._cluster.file_path))  # fmt: skip
            self._tell(f"    [{segment.start}, {segment.stop}) is in Parquet files, read back and compared")

    async def _trim(self, services: Services, log: VirtualLog) -> None:
        """Trim to the middle of the second segment: the first goes as a whole. Trimmed entries are
        read and judged before."""
        segment = (await self._chain(services)).segments[1]
        assert segment.stop is not None
        cut = LogPosition((segment.start + segment.stop) // 2)
        self._note("read the beginning")
        await show(self._court, log, self._judged, cut)
        self._judged = cut
        self._note(f"trim into the middle of {segment.kind}")
        trimmed = await ask_living(services, self._cluster.file, PrefixTrim(position=cut), CHANGE_SECONDS)
        self._trim_point = LogPosition(trimmed.position)
        self._tell(f"    the log begins at position {trimmed.position}")

    async def _kill_and_recover(self) -> None:
        """Kill the node of the sequencer, with which the tour ends. Only the cluster itself reacts."""
        before = self._reigns.seen[-1]
        self._note(f"kill -9 node {VICTIM}", is_fault=True)
        await self._cluster.kill(VICTIM)
        with self._clock.timeout(HEAL_SECONDS):
            while self._reigns.seen[-1] is before:
                await self._clock.sleep(LOOK_SECONDS)
        if self._reigns.seen[-1] is before:
            raise UnavailableError(f"the cluster has not healed itself in {HEAL_SECONDS:g} s")
        self._tell("    the cluster has healed itself")
        await self._undisturbed()
        self._note(f"node {VICTIM} is back")
        await self._cluster.start(VICTIM)

    async def _watch(self, services: Services) -> None:
        """Record each active loglet, by whatever client it was made. Polls the nodes, not an
        appending client, which would learn of it sooner."""
        while True:
            with suppress(RetryableError):  # the next look is a moment away
                self._reigns.see(self.workload.elapsed, await self._chain(services))
            await self._clock.sleep(LOOK_SECONDS)

    async def _chain(self, services: Services) -> Chain:
        answers = await fetch_statuses(services, list(self._cluster.nodes))
        return newest_register(answers).chain

    async def _undisturbed(self) -> None:
        before = self.workload.acknowledged
        await self._clock.sleep(self._phase_seconds)
        self._tell(f"    {(self.workload.acknowledged - before) / self._phase_seconds:,.0f} appends/s")

    async def _drain(self, nursery: trio.Nursery) -> None:
        with self._clock.timeout(DRAIN_SECONDS):
            while nursery.child_tasks:
                await self._clock.sleep(0.01)
            return
        raise UnavailableError("appends do not come to an end")

    async def _conclude(self, log: VirtualLog) -> Verdict:
        await show(self._court, log, self._judged, LogPosition((await log.check_tail()).tail))
        return self._court.conclude()

    def _outcome(self, chain: Chain, verdict: Verdict) -> DemoOutcome:
        faults = [event.at for event in self._events if event.is_fault]
        times = acknowledgement_times(self.workload.told.values())
        changes = find_changes(self._reigns.seen, self._asked, faults, times)
        return DemoOutcome(
            workload=self.workload, events=tuple(self._events), reigns=tuple(self._reigns.seen), changes=tuple(changes),
            chain=chain, trim_point=self._trim_point, verdict=verdict,
        )  # fmt: skip

    def _note(self, label: str, *, is_fault: bool = False) -> None:
        self._events.append(Event(self.workload.elapsed, label, is_fault))
        self._say(label)

    def _say(self, label: str) -> None:
        self._tell(f"{self.workload.elapsed:5.1f} s  {label}")


def orderers(segment: Segment) -> frozenset[NodeId]:
    """Return the nodes that order the appends to a segment; empty if any server may."""
    found = replicated(loglet_providers()[segment.kind])
    return frozenset() if found is None else found.placement(segment.config).orders


def tour(ordering: Collection[NodeId]) -> list[Stop]:
    """List the swaps: every kind that needs nothing but our nodes, and different nodes that order.

    Args:
        ordering: nodes that order the log at the start. The first swap goes to another one.
    """
    installed = loglet_providers()
    whole = {"servers": "1,2,3"}
    first = 1 if 2 in ordering else 2
    stops = [
        Stop("native", {**whole, "sequencer": str(first)}, f"native, sequencer on node {first}"),
        Stop("paxos", whole, "paxos"),
        Stop("raft", whole, "raft"),
        Stop("striped", {**whole, "stripes": "2"}, "striped, two native loglets side by side"),
        Stop("native", {"servers": "4,5,6", "sequencer": "1"}, "native, entries on log servers of their own"),
        Stop("native", {**whole, "sequencer": str(VICTIM)}, f"native, sequencer on node {VICTIM}"),
    ]
    return [stop for stop in stops if stop.kind in installed]


@asynccontextmanager
async def _clients(cluster: LocalCluster) -> AsyncIterator[list[VirtualLog]]:
    async with connect(cluster.file) as first, connect(cluster.file) as second:
        yield [first, second]


async def _run_program(*arguments: str) -> None:
    done = await trio.run_process([*PROGRAM, *arguments], capture_stdout=True, capture_stderr=True, check=False)
    if done.returncode:
        raise StorageError(f"virtuallog {arguments[0]}: {done.stderr.decode(errors='replace').strip()}")
