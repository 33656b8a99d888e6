"""One run of `compact.py`: its steps, one after the other, and the comparison in the end."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.ports import Services
from virtuallog.contract.types import NodeId
from virtuallog_lab.experiments.churn.client import CLOCK, connected, make_znodes
from virtuallog_lab.experiments.churn.load import ChurnLoad
from virtuallog_lab.experiments.churn.sizes import ClusterSizes, SizeObserver
from virtuallog_lab.experiments.churn.wipe import RESTORE_SECONDS, Wipe
from virtuallog_lab.experiments.spark_compact.commands import Commands
from virtuallog_lab.harness.report import tell
from virtuallog_server.local_cluster.supervisor import LocalCluster

WIPED: Final = NodeId(3)
SEGMENTS: Final = 5
"""Closed ones, which are archived."""
GRACE_SECONDS: Final = 5
TRIM_SECONDS: Final = 300.0
"""Seconds for servers to take snapshots past a compaction, and to trim; or to drop what is
archived."""
SNAPSHOT_PART: Final = 0.2
"""Share of all writes between two snapshots of a server. More than is written between a compaction
and the end of a restore, so that no peer has a newer snapshot than the place."""
STEP_PART: Final = 0.05
"""Share of all writes while a command runs."""
REJOIN_PART: Final = 0.02
"""Share of all writes while a server comes back."""
_RESTORED: Final = re.compile(r"restored a snapshot .*position=(\d+) +source=(.*)")
_COMPACTION: Final = "the compaction at"


@attrs.frozen(kw_only=True)
class CompactionPlan:
    """The options."""

    writes: int
    keys: int
    size: int
    outstanding: int

    @property
    def snapshot_bytes(self) -> int:
        return max(1 << 16, int(self.writes * self.size * SNAPSHOT_PART))


@attrs.frozen(kw_only=True)
class Step:
    """A step, and the state after it."""

    what: str
    seconds: float
    look: ClusterSizes


@attrs.frozen(kw_only=True)
class CompactionFindings:
    """Findings of a run."""

    plan: CompactionPlan
    steps: Sequence[Step]
    compactions: Sequence[Mapping[str, Any]]
    """Result of each compaction, as the command printed it."""
    archived: int
    """Segments."""
    kills: Sequence[str]
    """Points at which a compaction was killed, which the same command has ended then."""
    restored_at: int | None
    """Position at which the wiped server has begun with a compaction; None: it has not."""
    writes: int
    """Acknowledged."""
    checksums: Mapping[int, int]
    """Checksum of all znodes, by server."""
    problems: Sequence[str]

    def plain(self) -> dict[str, Any]:
        return attrs.asdict(self)

    def look(self, what: str) -> ClusterSizes:
        return next(step.look for step in self.steps if step.what == what)


@attrs.define(eq=False)
class CompactionExperiment:
    """The experiment of `compact.py`."""

    plan: CompactionPlan
    cluster: LocalCluster
    addresses: Mapping[NodeId, str]
    services: Services
    observer: SizeObserver
    place: Path
    """Place of compactions, which the servers know."""
    folder: Path
    """Folder for everything else."""
    _load: ChurnLoad = attrs.field(init=False)
    _commands: Commands = attrs.field(init=False)
    _steps: list[Step] = attrs.field(factory=list, init=False)
    _compactions: list[Mapping[str, Any]] = attrs.field(factory=list, init=False)
    _kills: list[str] = attrs.field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        plan = self.plan
        self._load = ChurnLoad(self.addresses, plan.keys, plan.size, plan.outstanding, frozenset({WIPED}))
        self._commands = Commands(self.cluster.file_path, self.folder)

    async def run(self) -> CompactionFindings:
        """Run the whole experiment.

        Raises:
            VirtualLogError: something could not be done.
        """
        async with connected(self.addresses[NodeId(1)], RESTORE_SECONDS) as client:
            await make_znodes(client, self.plan.keys)
        self.observer.began = CLOCK.monotonic()
        async with self._step("first compaction"):
            await self._under_load(self._compact)
        async with self._step("log grows"):
            await self._grow()
        async with self._step("archive"):
            archived = await self._under_load(self._archive)
        async with self._step("compact"):
            await self._under_load(self._kill_and_compact)
        async with self._step("trim"):
            await self._wait_trimmed()
        async with self._step("third compaction"):
            await self._compact()
        async with self._step("rejoin"):
            await self._rejoin()
        states = {node: await self._load.state(node) for node in self.addresses}
        return CompactionFindings(
            plan=self.plan, steps=self._steps, compactions=self._compactions, archived=archived, kills=self._kills,
            restored_at=self._restored_at(), writes=self._load.done,
            checksums={int(node): state.checksum for node, state in states.items()},
            problems=[*self._load.problems(states), *self._wrong()],
        )  # fmt: skip

    @asynccontextmanager
    async def _step(self, what: str) -> AsyncIterator[None]:
        began = CLOCK.monotonic()
        yield
        seconds, look = CLOCK.monotonic() - began, await self.observer.look(self._load.done)
        self._steps.append(Step(what=what, seconds=seconds, look=look))
        tell(
            f"{look.at:6.1f} s {what}: {look.writes:,} writes, log {look.most('log_bytes') >> 20} MiB, from "
            f"{look.trim_point:,} to {look.most('cursor'):,}"
        )

    async def _under_load(self, function: Callable[[], Awaitable[Any]]) -> Any:
        """Its result; returns when all writes of this step are acknowledged, too."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._write, STEP_PART)
            return await function()

    async def _write(self, part: float) -> None:
        await self._load.write(max(1, int(part * self.plan.writes)))

    # -- steps ------------------------------------------------------------------------------------------------------------

    async def _compact(self) -> None:
        self._compactions.append(await self._commands.tell("compact", *self._to))

    async def _grow(self) -> None:
        """The log is held at the first compaction, so all of it stays."""
        for _ in range(SEGMENTS):
            await self._write((1 - 4 * STEP_PART) / SEGMENTS)
            await self._commands.run("reconfigure", "--to", "native")

    async def _archive(self) -> int:
        """Returns how many segments; when nodes have let go of them."""
        url = f"file://{self.folder / 'archives'}"
        done = await self._commands.tell("archive", "all", "--to", url, "--grace", str(GRACE_SECONDS))
        await self._until(self._are_released, "nodes keep copies of what is archived")
        return len(done)

    async def _kill_and_compact(self) -> None:
        """Killed when there are effects, and when there are tables; then the same command ends it."""
        await self._killed("effects were written", "compacting/*/*.parquet")
        await self._killed("tables were written", "compacted/*/*.sst")
        await self._compact()

    async def _killed(self, what: str, pattern: str) -> None:
        """Kill a command as soon as there is one file more of this kind."""
        before = len(list(self.place.glob(pattern)))
        if await self._commands.kill_when(lambda: len(list(self.place.glob(pattern))) > before, "compact", *self._to):
            self._kills.append(what)

    async def _wait_trimmed(self) -> None:
        """Servers trim what all of them have in a snapshot; so a bit is written until they have one that is new enough."""
        wanted = self._compactions[-1]["position"]

        async def is_trimmed() -> bool:
            await self._write(STEP_PART / 5)
            return bool(await self.observer.log.find_trim_point() >= wanted)

        await self._until(is_trimmed, f"the log is not trimmed up to {wanted}")

    async def _rejoin(self) -> None:
        wipe = Wipe(
            node=WIPED, address=self.addresses[WIPED], cluster=self.cluster, services=self.services,
            log=self.observer.log, mark=lambda what: tell(f"        node {WIPED} {what}"),
        )  # fmt: skip
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._write, REJOIN_PART)
            await wipe.run()

    # -- what is seen -----------------------------------------------------------------------------------------------------

    @property
    def _to(self) -> Sequence[str]:
        return "--to", f"file://{self.place}", "--work", str(self.folder / "work")

    async def _until(self, is_so: Callable[[], Awaitable[bool]], otherwise: str) -> None:
        with CLOCK.timeout(TRIM_SECONDS):
            while not await is_so():
                await CLOCK.sleep(1.0)
            return
        raise UnavailableError(f"{otherwise} after {TRIM_SECONDS:g} s")

    async def _are_released(self) -> bool:
        view = self.observer.log.view
        closed = (await view.refresh()).chain.segments[:-1]
        return not any("hot" in view.provider(each.kind).describe(each.config) for each in closed)

    def _restored_at(self) -> int | None:
        return restored_at((self.cluster.nodes[WIPED].config.data / "log").read_text(errors="replace"))

    def _wrong(self) -> list[str]:
        last = self._compactions[-1]["position"]
        found = [] if self._restored_at() == last else [f"node {WIPED} has not begun with the compaction at {last}"]
        if self._steps[-1].look.trim_point < self._compactions[1]["position"]:
            found.append("the log is not trimmed up to the second compaction")
        return found


def restored_at(logged: str) -> int | None:
    """Position of the compaction that a server has begun with, by what it has logged; None: with another snapshot, or with none."""
    found = _RESTORED.findall(logged)
    return int(found[-1][0]) if found and _COMPACTION in found[-1][1] else None
