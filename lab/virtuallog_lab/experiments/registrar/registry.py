#!/usr/bin/env python3
"""A registry of agents on three real nodes, in the phases of Mesos' benchmark, and beside Mesos' design.

    python -m virtuallog_lab.experiments.registrar.registry --agents 10000,50000 --rounds 3

Three servers of the database on loopback, and two programs with a replica each: an owner and a standby, here two replicas in
one process. A round starts the servers and, for each size,

    admit       offers all admissions at once, and waits for the last one
    one         single operations on the full registry, one after the other
    reachable   marks all reachable: nothing changes
    recover     a new registrar loads the registry
    take over   a standby, which has followed, recovers from its copy
    unreachable marks all unreachable
    back        marks all reachable again
    prune       forgets all, which are unreachable once more, in pieces
    remove      removes all, which were admitted once more

`packed` is the same, without a standby and losses, with all records in one value, stored whole with each batch, as Mesos does (`PackedRecords`).
Sizes and agents are those of Mesos' `Registrar_BENCHMARK_Test`: Performance, MarkUnreachableThenReachable and GcManyAgents. Its figures are
published nowhere.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

import attrs
import click
import trio

from virtuallog.client.cluster_file import ClusterFile
from virtuallog_database.client.passive_replica import open_replica
from virtuallog_database.registrar.core.edit import Operation
from virtuallog_database.registrar.follower import Follower, open_follower
from virtuallog_database.registrar.registrar import Registrar, open_registrar
from virtuallog_database.state.records import PackedRecords, RecordStorage
from virtuallog_database.state.storages.virtual_log import VirtualLogStorage
from virtuallog_lab.agents.agent_operations import Admit, MarkReachable, MarkUnreachable, Prune, Remove
from virtuallog_lab.agents.records import ADMITTED, TABLES, UNREACHABLE, AgentInfo
from virtuallog_lab.agents.recovery import PRUNE_MAX
from virtuallog_lab.experiments.churn.churn import open_database_cluster
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.options import Form, form_options, picture_option
from virtuallog_lab.harness.program import run_to_end
from virtuallog_lab.harness.report import Report, Table, middle_and_ends, tell
from virtuallog_server.process import log_output

RECORDS: Final = "records"
PACKED: Final = "packed"
SINGLE: Final = 200
"""Single operations whose median counts."""
PACKED_SINGLE: Final = 10
PHASES: Final = ("admit", "one", "reachable", "recover", "take over", "unreachable", "back", "prune", "remove")


@attrs.frozen
class Sample:
    """Seconds of one phase; of `one`, the median of an operation."""

    design: str
    agents: int
    phase: str
    seconds: float


def agents_of(count: int, source: random.Random) -> list[AgentInfo]:
    """Agents as in Mesos' benchmark: ids of 38 characters, about 175 bytes."""
    master = f"{source.getrandbits(128):032x}"
    attributes = {"foo": "bar", "baz": "quux"}
    return [AgentInfo(f"{master}-S{n:05}"[:40], "localhost", 1.0, 512.0, 2048.0, attributes) for n in range(count)]


@attrs.define(eq=False)
class Bench:
    """The phases of one size and design."""

    design: str
    name: str
    owner: RecordStorage
    standby: RecordStorage
    agents: list[AgentInfo]
    source: random.Random
    samples: list[Sample] = attrs.field(factory=list)

    async def run(self) -> None:
        """Run all phases."""
        async with self._registrar(self.owner, "owner") as registrar:
            await registrar.recover()
            await self._timed("admit", lambda: self._all(registrar, (Admit(agent) for agent in self.agents)))
            await self._single(registrar)
            self.source.shuffle(self.agents)
            await self._timed("reachable", lambda: self._all(registrar, (MarkReachable(each) for each in self.agents)))
        async with self._registrar(self.owner, "next") as registrar:
            await self._timed("recover", registrar.recover)
            self._demand(registrar, len(self.agents))
        if self.design == RECORDS:
            await self._losses()
        async with self._registrar(self.owner, "last") as registrar:
            await registrar.recover()
            self.source.shuffle(self.agents)
            await self._timed("remove", lambda: self._all(registrar, (Remove(agent.id) for agent in self.agents)))
            self._demand(registrar, 0)

    async def _losses(self) -> None:
        """A standby takes over, loses all agents, has them back, and loses them for good; then they are admitted once more."""
        async with (
            open_follower(self.standby, self.name, tables=TABLES) as follower,
            self._registrar(self.standby, "standby", follower) as registrar,
        ):
            await self._timed("take over", registrar.recover)
            self._demand(registrar, len(self.agents))
            lost = [MarkUnreachable(agent.id, 1.0) for agent in self.agents]
            await self._timed("unreachable", lambda: self._all(registrar, lost))
            self._demand(registrar, 0)
            await self._timed("back", lambda: self._all(registrar, (MarkReachable(each) for each in self.agents)))
            self._demand(registrar, len(self.agents))
            await self._all(registrar, lost)
            ids = [agent.id for agent in self.agents]
            pieces = [Prune(tuple(ids[begin : begin + PRUNE_MAX])) for begin in range(0, len(ids), PRUNE_MAX)]
            await self._timed("prune", lambda: self._all(registrar, pieces))
            if registrar.registry.count(UNREACHABLE):
                raise AssertionError("agents are left that were pruned")
            await self._all(registrar, (Admit(agent) for agent in self.agents))

    def _registrar(
        self, storage: RecordStorage, owner: str, follower: Follower | None = None
    ) -> AbstractAsyncContextManager[Registrar]:
        return open_registrar(storage, self.name, tables=TABLES, owner=owner, follower=follower)

    def _demand(self, registrar: Registrar, count: int) -> None:
        found = registrar.registry.count(ADMITTED)
        if found != count:
            raise AssertionError(f"{found} agents, where {count} were acknowledged")

    async def _single(self, registrar: Registrar) -> None:
        times = []
        for agent in self.source.sample(self.agents, SINGLE if self.design == RECORDS else PACKED_SINGLE):
            began = perf_counter()
            await registrar.apply(Remove(agent.id))
            await registrar.apply(Admit(agent))
            times.append((perf_counter() - began) / 2)
        self._note("one", median(times))

    async def _all(self, registrar: Registrar, operations: Iterable[Operation]) -> None:
        async with trio.open_nursery() as nursery:
            for operation in operations:
                nursery.start_soon(registrar.apply, operation)

    async def _timed(self, phase: str, work: Callable[[], Awaitable[object]]) -> None:
        began = perf_counter()
        await work()
        self._note(phase, perf_counter() - began)

    def _note(self, phase: str, seconds: float) -> None:
        self.samples.append(Sample(self.design, len(self.agents), phase, seconds))
        tell(f"{self.design} {len(self.agents):>6} {phase:>10} {1000 * seconds:10.1f} ms")


@asynccontextmanager
async def replicas(count: int) -> AsyncIterator[list[VirtualLogStorage]]:
    """A cluster, and storages over passive replicas in this process."""
    async with open_database_cluster("native", "") as (cluster, _):
        with tempfile.TemporaryDirectory(prefix="virtuallog-registrar-") as folder:
            storages: list[VirtualLogStorage] = []
            async with open_all(cluster.file, [Path(folder) / str(number) for number in range(count)], storages):
                yield storages


@asynccontextmanager
async def open_all(
    cluster: ClusterFile, folders: Sequence[Path], storages: list[VirtualLogStorage]
) -> AsyncIterator[None]:
    """Open a replica in each folder."""
    if not folders:
        yield
        return
    async with open_replica(cluster, folders[0]) as client:
        storages.append(client.variables)
        async with open_all(cluster, folders[1:], storages):
            yield


async def measure(sizes: Sequence[int], rounds: int, packed: Sequence[int]) -> list[Sample]:
    """All rounds."""
    samples: list[Sample] = []
    for number in range(rounds):
        async with replicas(2) as (owner, standby):
            for size in sizes:
                for design in (RECORDS, *([PACKED] if size in packed else [])):
                    source = random.Random(number)
                    both: list[RecordStorage] = [owner, standby]
                    if design == PACKED:
                        both = [PackedRecords(owner), PackedRecords(standby)]
                    bench = Bench(design, f"{design} {size}", both[0], both[1], agents_of(size, source), source)
                    await bench.run()
                    samples += bench.samples
        tell(f"round {number + 1} of {rounds} is done")
    return samples


def table(samples: Sequence[Sample]) -> Table:
    """Median and spread of each phase, in milliseconds."""
    rows = []
    for design, agents in sorted({(each.design, each.agents) for each in samples}, reverse=True):
        cells = []
        for phase in PHASES:
            found = [
                1000 * each.seconds
                for each in samples
                if (each.design, each.agents, each.phase) == (design, agents, phase)
            ]
            cells.append(middle_and_ends(found, 1))
        rows.append((f"{design}, {agents:,}", *cells))
    return Table("Milliseconds of a phase; of `one`, of an operation", ("design, agents", *PHASES), rows)


def draw(samples: Sequence[Sample], path: Path) -> None:
    """Write a PNG or an SVG: what single operations and all admissions take, by the size of the registry."""
    import matplotlib as mpl  # slow to import, and needed only here

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, pair = pyplot.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for axes, phase, label, limit in zip(
        pair, ("one", "admit"), ("ms: one operation, the median", "s: all admissions at once"), (5.0, 10.0), strict=True
    ):
        for design, color in ((RECORDS, "tab:blue"), (PACKED, "tab:orange")):
            sizes = sorted({each.agents for each in samples if each.design == design})
            found = [
                [each.seconds for each in samples if (each.design, each.agents, each.phase) == (design, size, phase)]
                for size in sizes
            ]
            unit = 1000 if phase == "one" else 1
            axes.plot(sizes, [unit * median(times) for times in found], ".-", color=color, label=design)
        axes.axhline(limit, color="grey", linewidth=0.8, linestyle=":")
        axes.set(xlabel="agents in the registry", ylabel=label, yscale="log")
        axes.legend(frameon=False)
    figure.suptitle(
        "A registrar that stores what has changed (records), and one that stores its whole value, as Mesos (packed); dotted: the target",
        fontsize=10,
    )
    figure.savefig(path, dpi=100)
    pyplot.close(figure)


@click.command()
@click.option("--agents", default="10000,20000,30000,50000", show_default=True, help="Sizes of the registry.")
@click.option("--packed", default="10000,50000", show_default=True, help="Sizes that are measured with one value, too.")
@click.option("--rounds", default=3, show_default=True)
@picture_option
@form_options
def main(agents: str, packed: str, rounds: int, picture: Path | None, form: Form) -> None:
    """Measure, and print."""
    log_output.configure("warning")
    sizes, whole = ([int(size) for size in text.split(",") if size] for text in (agents, packed))
    machine = Machine.look()
    samples = run_to_end(measure, sizes, rounds, whole)
    if picture is not None:
        draw(samples, picture)
        tell(f"picture: {picture}")
    plain = {"samples": [attrs.asdict(sample) for sample in samples]}
    Report(title="The registrar", machine=machine, tables=[table(samples)], plain=plain,
           verdict="every registry had what was acknowledged").publish(form)  # fmt: skip


if __name__ == "__main__":
    main()
