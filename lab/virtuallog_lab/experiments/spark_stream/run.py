"""One run of `stream.py`: its concurrent parts, and the comparison in the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import cycle
from typing import Any, Final

import attrs
import trio

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import UnavailableError, VirtualLogError
from virtuallog.contract.ports import Services
from virtuallog.contract.types import LogPosition, NodeId
from virtuallog_database.control.client import find_hold, place_hold
from virtuallog_lab.experiments.churn.client import CLOCK, connected, make_znodes
from virtuallog_lab.experiments.churn.load import ChurnLoad
from virtuallog_lab.experiments.spark_stream.check import Entries, differences, read_log, unacknowledged
from virtuallog_lab.experiments.spark_stream.driver import HOLD
from virtuallog_lab.experiments.spark_stream.kills import DriverKills
from virtuallog_lab.experiments.spark_stream.load import Appends
from virtuallog_lab.experiments.spark_stream.query import Query
from virtuallog_lab.harness.report import tell
from virtuallog_lab.harness.trial import extend
from virtuallog_server.local_cluster.supervisor import LocalCluster

CHECKER: Final = "spark-stream-check"
"""Name of the checker's hold, as it reads the log from its beginning."""
KILLED: Final = NodeId(2)
NODE_AT: Final = 0.55
"""Share of all appends after which a node is killed."""
FINISH_SECONDS: Final = 600.0
TELL_SECONDS: Final = 10.0
SERVE_SECONDS: Final = 240.0
"""Seconds for a killed server to serve again."""
POLL_SECONDS: Final = 0.5


@attrs.frozen(kw_only=True)
class StreamPlan:
    """The options."""

    entries: int
    seconds: float
    """Approximate seconds in which they are appended."""
    size: int
    keys: int
    writes_per_second: int
    """Writes to the database."""
    swap_seconds: float
    """Between two reconfigurations."""
    kills: int
    """Kills of the driver."""
    down_seconds: float
    """Seconds for which the killed node stays away."""


@attrs.frozen(kw_only=True)
class StreamFindings:
    """Findings of a run."""

    plan: StreamPlan
    seconds: float
    """Seconds until the last append was acknowledged."""
    finish_seconds: float
    """Seconds until all of it was in the table, with a driver that was started then, and had been
    counted there."""
    unknown: int
    """Appends with an unknown outcome."""
    writes: int
    """Acknowledged writes to the database."""
    segments: Mapping[str, int]
    """Number of segments by kind."""
    swaps: int
    kills: Sequence[str]
    """Stages of a batch at which the driver was killed."""
    batches: int
    """Batches of the stream."""
    node_kills: int
    held_from: int | None
    """Position of the stream's hold at the end."""
    fillers: int
    log_entries: int
    log_checksum: int
    rows: int
    table_checksum: int
    problems: Sequence[str]

    def plain(self) -> dict[str, Any]:
        return attrs.asdict(self)


@attrs.define(eq=False)
class StreamExperiment:
    """The experiment of `stream.py`."""

    plan: StreamPlan
    cluster: LocalCluster
    addresses: Mapping[NodeId, str]
    """Addresses at which servers of the database accept clients."""
    services: Services
    log: VirtualLog
    query: Query
    appends: Appends = attrs.field(init=False)
    load: ChurnLoad = attrs.field(init=False)
    swaps: int = attrs.field(default=0, init=False)
    node_kills: int = attrs.field(default=0, init=False)
    drivers: DriverKills = attrs.field(init=False)
    problems: list[str] = attrs.field(factory=list, init=False)
    _is_over: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        plan = self.plan
        self.appends = Appends(CLOCK, plan.entries, plan.seconds, plan.size)
        self.load = ChurnLoad(self.addresses, plan.keys, plan.size, 12, frozenset({KILLED}))
        self.drivers = DriverKills(plan.kills, self.query, lambda: self.appends.done, CLOCK, self.problems)

    async def run(self) -> StreamFindings:
        """Run the whole experiment.

        Raises:
            VirtualLogError: something could not be done.
        """
        await place_hold(self.log, CHECKER, LogPosition(0))
        async with connected(self.addresses[NodeId(1)], FINISH_SECONDS) as client:
            await make_znodes(client, self.plan.keys)
        try:
            await self._append()
            return await self._compare()
        finally:
            await self.query.close()

    async def _append(self) -> None:
        """Appends, writes, reconfigurations, kills, and the query, until all that is done."""
        await self.query.start()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._swap)
            nursery.start_soon(self._tell)
            async with trio.open_nursery() as writing:
                writing.start_soon(self._write)
                async with trio.open_nursery() as ending:
                    for last in (self.drivers.run, self._kill_node, self._append_entries):
                        ending.start_soon(last)
                self._is_over = True  # what has been written last is waited for: servers are compared
            nursery.cancel_scope.cancel()
        if self.query.process is not None:
            code = await self.query.end()
            if code:
                self.problems.append(f"the driver ended with {code}: {self.query.last_words}")

    async def _append_entries(self) -> None:
        await self.appends.run(self.log)

    async def _write(self) -> None:
        """Write to the database, a few at a time, so that the rate is kept."""
        while not self._is_over:
            before = CLOCK.monotonic()
            await self.load.write(2 * self.plan.writes_per_second)
            await CLOCK.sleep(max(0.0, before + 2 - CLOCK.monotonic()))

    async def _swap(self) -> None:
        """The log goes on with another loglet, again and again. A node that is down makes some of these fail."""
        for kind, sequencer in cycle((kind, node) for node in self.addresses for kind in ("paxos", "native")):
            await CLOCK.sleep(self.plan.swap_seconds)
            settings = {"sequencer": str(sequencer)} if kind == "native" else {}
            try:
                await extend(self.services, self.cluster.file, kind, settings)
            except VirtualLogError as error:
                tell(f"swap to {kind}: {error}")
            else:
                self.swaps += 1

    async def _kill_node(self) -> None:
        while self.appends.done < NODE_AT:
            await CLOCK.sleep(POLL_SECONDS)
        await self.cluster.kill(KILLED)
        self.node_kills += 1
        tell(f"node {KILLED} killed")
        await CLOCK.sleep(self.plan.down_seconds)
        await self.cluster.start(KILLED)
        tell(f"node {KILLED} started")

    async def _tell(self) -> None:
        while True:
            await CLOCK.sleep(TELL_SECONDS)
            progress, appends = self.query.progress, self.appends
            tell(
                f"{appends.elapsed:6.0f} s {appends.acknowledged:>10,} appends, {self.load.done:,} writes, {self.swaps} swaps, "
                f"{progress.committed + 1} batches, driver killed {len(self.drivers.stages)} times"
            )

    # -- the end --------------------------------------------------------------------------------------------------

    async def _compare(self) -> StreamFindings:
        """Compare the log with the table."""
        tail = LogPosition((await self.log.check_tail()).tail)
        states = {node: await self._patiently(partial(self.load.state, node)) for node in self.addresses}
        tell("the last driver reads what is left, and counts")
        began = CLOCK.monotonic()
        await self.query.run("finish", FINISH_SECONDS)
        finished = CLOCK.monotonic() - began
        tell("the log is read without Spark")
        log = await read_log(self.log, LogPosition((await self.log.check_tail()).tail))
        table = Entries.load(self.query.folder / "table.npy")
        log.entries.save(self.query.folder / "log.npy")
        expected = up_to(log.entries, tail, table)
        self.problems += [
            *log.problems,
            *differences(expected, table, "the table"),
            *unacknowledged(self.appends.chunks, log.appends),
            *self.load.problems(states),
        ]
        return await self._findings(log.fillers, expected, table, finished)

    async def _findings(self, fillers: int, expected: Entries, table: Entries, finished: float) -> StreamFindings:
        chain = (await self.log.view.refresh()).chain
        return StreamFindings(
            plan=self.plan,
            seconds=self.appends.ended,
            finish_seconds=finished,
            unknown=sum(chunk.count for chunk in self.appends.chunks if chunk.place is None),
            writes=self.load.done,
            segments=dict(Counter(segment.kind for segment in chain.segments)),
            swaps=self.swaps,
            kills=self.drivers.stages,
            batches=self.query.progress.committed + 1,
            node_kills=self.node_kills,
            held_from=await self._patiently(lambda: find_hold(self.log, HOLD)),
            fillers=fillers,
            log_entries=len(expected.keys),
            log_checksum=expected.checksum,
            rows=len(table.keys),
            table_checksum=table.checksum,
            problems=self.problems,
        )

    async def _patiently(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        """A node that has just come back takes a while until it serves."""
        with CLOCK.timeout(SERVE_SECONDS):
            while True:
                try:
                    return await ask()
                except UnavailableError:
                    await CLOCK.sleep(POLL_SECONDS)
        raise UnavailableError(f"a server of the database takes no clients for {SERVE_SECONDS:g} s")


def up_to(log: Entries, tail: LogPosition, table: Entries) -> Entries:
    """Position below which everything must be in the table: the tail at which the stream was asked
    to end, and entries that servers had appended by themselves by then."""
    last = max(int(tail) - 1, int(table.keys.max(initial=-1)))
    below = log.keys <= last
    return Entries(log.keys[below], log.values[below])
