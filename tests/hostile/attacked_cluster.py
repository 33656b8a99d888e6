"""A cluster of real processes under attack, with an honest client beside it whose every entry is accounted for.

Node processes must live, be the same boot, and be no larger than before. The honest client must be served, and find every entry at its
position.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from tests.hostile.attacker import KINDS, PARALLEL, Attacker
from virtuallog.admin.cluster_status import fetch_statuses
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.connect import connect
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import UnavailableError, VirtualLogError
from virtuallog.contract.types import NodeId
from virtuallog.node_services import open_services_to
from virtuallog.runtime.clock import SystemClock
from virtuallog_lab.workload.verdict import Verdict, judge_log
from virtuallog_lab.workload.writers import Workload
from virtuallog_server.local_cluster.supervisor import LocalCluster, open_local_cluster

WRITERS: Final = 4
SAMPLE_SECONDS: Final = 0.5
ANSWER_SECONDS: Final = 30.0
_MIB: Final = 1 << 20


@attrs.frozen(kw_only=True)
class Phase:
    """Observations during one attack."""

    attack: str
    seconds: float
    appends: int
    """Appends of the honest client."""
    p50_ms: float
    p99_ms: float
    slowest_ms: float
    rss_mib: Mapping[str, tuple[int, int, int]]
    """MiB of each node: before, at most, after."""
    seen: Mapping[str, int]
    """Counts of all attackers together."""


@attrs.define(eq=False)
class Siege:
    """A cluster under siege. Use `besiege`."""

    cluster: LocalCluster
    log: VirtualLog
    workload: Workload
    boots: Mapping[NodeId, int]
    _ended: trio.Event
    """The honest client has stopped."""
    _clock: SystemClock = attrs.field(factory=SystemClock)

    async def attack(
        self, kind: str, seconds: float, workers: int = 1, frames_max: int = 1 << 60, seed: int = 1
    ) -> Phase:
        """Start attackers, and observe the nodes and the honest client meanwhile.

        Args:
            kind: of `attacker.KINDS`. If empty, no attack, to compare with.
            seconds: longest duration.
            workers: number of attacking processes. 0 if this process attacks.
            frames_max: enough mutated frames.
            seed: of the random choices.
        """
        began, before, largest = self.workload.elapsed, self._rss(), self._rss()
        seen: Counter[str] = Counter()
        async with trio.open_nursery() as watching:
            watching.start_soon(self._watch, largest)
            if not kind:
                await self._clock.sleep(seconds)
            elif not workers:
                await self._attack_from_here(kind, seconds, frames_max, seed, seen)
            else:
                named = await self._segment()
                segment = f"{named.version}/{named.attempt}"
                async with trio.open_nursery() as attacking:
                    for worker in range(workers):
                        arguments = [kind, str(seconds), str(seed * 100 + worker), *self._addresses()]
                        arguments += ["--frames-max", str(frames_max // workers), "--segment", segment]
                        attacking.start_soon(_run_attacker, arguments, seen)
            watching.cancel_scope.cancel()
        return self._phase(kind or "nothing", began, before, largest, seen)

    async def _attack_from_here(
        self, kind: str, seconds: float, frames_max: int, seed: int, seen: Counter[str]
    ) -> None:
        ends_at = trio.current_time() + seconds  # noqa: TID251 -- against real processes
        attacker = Attacker(self._addresses(), seed, ends_at, frames_max, await self._segment())
        await attacker.attack(KINDS[kind], PARALLEL[kind])
        seen.update(attacker.count)

    async def check(self) -> Verdict:
        """Stop writing, then judge everything. Raises AssertionError if a node has changed."""
        self.workload.stop()
        await self._ended.wait()  # else its last entries would be acknowledged after the log has been read
        assert await boots_of(self.cluster) == self.boots
        return await judge_log(self.workload.told, self.log)

    def _phase(
        self, kind: str, began: float, before: dict[str, int], largest: dict[str, int], seen: Counter[str]
    ) -> Phase:
        now = self.workload.elapsed
        took = sorted(
            ended - offered
            for told in self.workload.told.values()
            for offered, ended in zip(told.began, told.ended, strict=True)
            if began <= offered
        )
        after = self._rss()
        return Phase(
            attack=kind,
            seconds=round(now - began, 1),
            appends=len(took),
            p50_ms=round(1000 * statistics.median(took), 2) if took else -1,
            p99_ms=round(1000 * took[int(len(took) * 0.99)], 2) if took else -1,
            slowest_ms=round(1000 * took[-1], 1) if took else -1,
            rss_mib={node: (before[node], largest[node], after[node]) for node in before},
            seen=dict(sorted(seen.items())),
        )

    async def _watch(self, largest: dict[str, int]) -> None:
        while True:
            for node, size in self._rss().items():
                largest[node] = max(size, largest[node])
            await self._clock.sleep(SAMPLE_SECONDS)

    def _rss(self) -> dict[str, int]:
        """MiB of each node. A dead node has none, which is an error here."""
        return {f"node {node.id}": _rss_mib(node.pid) for node in self.cluster.nodes.values()}

    def _addresses(self) -> list[str]:
        return [node.config.listen for node in self.cluster.nodes.values()]

    async def _segment(self) -> SegmentId:
        return (await self.log.view.current()).chain.last.id


async def _run_attacker(arguments: Sequence[str], seen: Counter[str]) -> None:
    done = await trio.run_process([sys.executable, "-m", "tests.hostile.attacker", *arguments], capture_stdout=True)
    seen.update(json.loads(done.stdout))


def _rss_mib(pid: int | None) -> int:
    assert pid is not None, "a node has died"
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 // _MIB


async def boots_of(cluster: LocalCluster) -> Mapping[NodeId, int]:
    """The boot number of each node, once all have answered: traces of an attack may take a moment."""
    async with open_services_to(cluster.file) as services:
        with trio.fail_after(ANSWER_SECONDS):  # noqa: TID251 -- against real processes
            answers = await fetch_statuses(services, list(cluster.nodes))
            while any(isinstance(answer, UnavailableError) for answer in answers.values()):
                answers = await fetch_statuses(services, list(cluster.nodes))
    boots: dict[NodeId, int] = {}
    for node, answer in answers.items():
        assert not isinstance(answer, VirtualLogError), f"node {node}: {answer}"
        assert not answer.failures, f"node {node}: {answer.failures}"
        boots[node] = answer.boot
    return boots


@asynccontextmanager
async def besiege(path: Path, nodes: int = 3, writers: int = WRITERS) -> AsyncIterator[Siege]:
    """Start a cluster in `path` with the honest client at work."""
    async with open_local_cluster(path, nodes=nodes, base_port=0) as cluster:
        await cluster.wait_ready()
        async with connect(cluster.file) as log, trio.open_nursery() as nursery:
            workload, ended = Workload(SystemClock(), entry_bytes=100), trio.Event()
            nursery.start_soon(_append, workload, log, writers, ended)
            yield Siege(cluster, log, workload, await boots_of(cluster), ended)
            workload.stop()


async def _append(workload: Workload, log: VirtualLog, writers: int, ended: trio.Event) -> None:
    await workload.run([log], writers)
    ended.set()


def report(phase: Phase) -> dict[str, Any]:
    """One line of JSON."""
    return attrs.asdict(phase)
