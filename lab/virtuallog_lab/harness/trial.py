"""A cluster under a checked load, for as long as something is done to it; afterwards the log is read back and judged.

The client is this process: so many appends outstanding, each entry numbered, every acknowledgement with its time. Nodes are
processes of their own. Nothing of it lasts: the cluster lives in a folder for temporary files (`TMPDIR` chooses the disk).
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, nullcontext
from pathlib import Path
from typing import Final, Generic, TypeVar

import attrs
import trio

from virtuallog.admin.control import ReconfigExtend, Setting
from virtuallog.client.cluster_file import ClusterFile
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.connect import connect
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.ports import Clock, Services
from virtuallog.contract.register import Register, decode_untrusted
from virtuallog.contract.types import NodeId
from virtuallog.node_services import ask_living, open_services_to
from virtuallog.rpc.security.tls_files import TlsFiles
from virtuallog.runtime.clock import SystemClock
from virtuallog_lab.harness.orderer import ASKED, find_orderer
from virtuallog_lab.workload.verdict import Verdict, judge_log
from virtuallog_lab.workload.writers import Workload, acknowledgement_times
from virtuallog_server.local_cluster.supervisor import PROGRAM, LocalCluster, open_local_cluster
from virtuallog_server.process import log_output
from virtuallog_server.process.process import SWITCH_SECONDS

CHANGE_SECONDS: Final = 15.0
"""Seconds for one reconfiguration; a healthy one takes some milliseconds."""
DRAIN_SECONDS: Final = 90.0
"""Seconds for the last appends, once everything has been mended: longer than an appender tries
before it gives up."""
POLL_SECONDS: Final = 0.01
OBSERVED: Final = (sys.executable, "-P", "-m", "virtuallog_lab.harness.observed_node")
"""A program for nodes that write down the steps of reconfigurations."""

ResultT = TypeVar("ResultT")


@attrs.frozen(kw_only=True)
class TrialLoad:
    """Load of the client during the whole trial."""

    writers: int = 64
    """Appends outstanding."""
    entry_bytes: int = 100


@attrs.frozen(eq=False)
class Trial:
    """Cluster, client and workload that a story may use while the load runs."""

    cluster: LocalCluster
    services: Services
    log: VirtualLog
    workload: Workload
    clock: Clock

    async def orderer(self) -> NodeId:
        """The node that orders entries now.

        Raises:
            UnavailableError: the register cannot be read, or no server knows.
        """
        return await find_orderer(self.services, (await self.log.view.refresh()).chain.last)

    async def extend(self, kind: str, settings: Mapping[str, str]) -> Register:
        """See `extend`."""
        return await extend(self.services, self.cluster.file, kind, settings)

    async def wait_acknowledged(self, offered_after: float, patience_seconds: float) -> bool:
        """Returns True if an append that was offered after a time (of the workload) is
        acknowledged, at the latest after so long."""
        with self.clock.timeout(patience_seconds):
            while self.workload.newest_offer <= offered_after:
                await self.clock.sleep(POLL_SECONDS)
            return True
        return False

    async def restart(self, *killed: NodeId) -> list[NodeId]:
        """Start killed nodes, and return once the cluster answers; also start, and return, those that have ended by
        themselves, which none should."""
        fallen = [node.id for node in self.cluster.nodes.values() if node.pid is None and node.id not in killed]
        for node in (*killed, *fallen):
            await self.cluster.start(node)
        await self.cluster.wait_ready()
        return fallen

    @contextmanager
    def stopped(self, node: NodeId) -> Iterator[None]:
        """SIGSTOP the process of a node for the length of the block."""
        pid = self.cluster.nodes[node].pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)


async def extend(services: Services, cluster: ClusterFile, kind: str, settings: Mapping[str, str]) -> Register:
    """Let a node continue the log on a new loglet.

    Raises:
        UnavailableError: no node answers, or not in time: the outcome is unknown.
        VirtualLogError: what the node answered.
    """
    request = ReconfigExtend(kind=kind, settings=tuple(Setting(*pair) for pair in settings.items()))
    changed = await ask_living(services, cluster, request, CHANGE_SECONDS)
    return decode_untrusted(changed.register)


TrialScript = Callable[[Trial], Awaitable[ResultT]]


@attrs.frozen
class Evidence(Generic[ResultT]):
    """Evidence that a story left behind."""

    result: ResultT
    """Return value of the story."""
    workload: Workload
    times: list[float]
    """Times of all acknowledgements, ascending, in seconds since the start."""
    verdict: Verdict

    @property
    def summary(self) -> str:
        """One line for a history that is right."""
        return (
            f"{self.workload.acknowledged:,} entries acknowledged, {self.workload.unknown} unknown, "
            f"{self.verdict.entries:,} in the log: nothing lost, nothing doubled, nothing reordered"
        )


@asynccontextmanager
async def temporary_cluster(
    program: tuple[str, ...] = PROGRAM,
    keep: Path | None = None,
    loglet: str = "native",
    log_nodes: int = 0,
    tls: bool = False,
) -> AsyncIterator[LocalCluster]:
    """Three nodes that answer, and more that only store, and a process that is set up to be their client.

    Args:
        program: what runs a node.
        keep: a new folder for the cluster, which stays; None: a temporary one.
        loglet: kind of its first loglet.
        log_nodes: how many only store.
        tls: True for nodes inside TLS.
    """
    set_up_client()
    with nullcontext(keep) if keep else tempfile.TemporaryDirectory(prefix="virtuallog-bench-") as folder:
        async with open_local_cluster(
            Path(folder), log_nodes=log_nodes, base_port=0, program=program, loglet=loglet, tls=tls
        ) as cluster:
            await cluster.wait_ready()
            yield cluster


def set_up_client() -> None:
    """Set up the client as the command line does."""
    sys.setswitchinterval(SWITCH_SECONDS)
    log_output.configure("warning")


async def run_trial(
    cluster: LocalCluster, load: TrialLoad, story: TrialScript[ResultT], client: TlsFiles | None = None
) -> Evidence[ResultT]:
    """Run the story while the load runs, then judge.

    Args:
        cluster: that answers.
        load: to run.
        story: what is done meanwhile.
        client: who appends, if nodes use TLS.

    Raises:
        VirtualLogError: a step of the story could not be done at all, or appends did not come to an end.
    """
    workload = Workload(SystemClock(), load.entry_bytes)
    async with (
        connect(attrs.evolve(cluster.file, tls=client)) as log,
        open_services_to(cluster.file, ASKED) as services,
    ):
        trial = Trial(cluster, services, log, workload, SystemClock())
        async with trio.open_nursery() as nursery:
            await nursery.start(workload.run, [log], load.writers)
            result = await story(trial)
            workload.stop()
            await _drain(nursery, trial.clock)
        verdict = await judge_log(workload.told, log)
    return Evidence(result, workload, acknowledgement_times(workload.told.values()), verdict)


async def _drain(nursery: trio.Nursery, clock: Clock) -> None:
    with clock.timeout(DRAIN_SECONDS):
        while nursery.child_tasks:
            await clock.sleep(POLL_SECONDS)
        return
    raise UnavailableError(f"appends have not come to an end in {DRAIN_SECONDS:g} s")
