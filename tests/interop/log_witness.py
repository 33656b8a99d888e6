"""A follower of a real cluster's log that records the applied entries: the order of events for the judges.

A passive replica with the engines of the servers, and a witness on top of them (`virtuallog_simulation.scenarios.database.witness`).
It is up before the first client. If the log has been trimmed by then it begins with a server's snapshot, and so does the model.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import trio

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.connect import connect
from virtuallog.contract.types import NodeId
from virtuallog_database.identity import ReplicaIdentity
from virtuallog_database.replica.host import Host, HostSettings, ReplicaIncarnation
from virtuallog_database.replica.replica import ReplicaSettings
from virtuallog_database.rocks import open_store_directory
from virtuallog_database.snapshots.wire import SNAPSHOTS
from virtuallog_database.tree.paths import CONFIG
from virtuallog_server.local_cluster.supervisor import LocalCluster
from virtuallog_simulation.checks.database.replay import Began
from virtuallog_simulation.scenarios.database.witness import Witness

NODE = NodeId(125)


@attrs.frozen(eq=False)
class Follower:
    """The witness at work."""

    log: VirtualLog
    host: Host

    async def catch_up(self) -> None:
        """Wait until everything that was acknowledged before is in the history."""
        assert self.host.life is not None
        await self.host.life.replica.sync()


@asynccontextmanager
async def following(cluster: LocalCluster, folder: Path, witness: Witness) -> AsyncIterator[Follower]:
    """Follow the log for the length of the block. A log that is trimmed past the follower ends the test: snapshots are made rare enough."""
    async with connect(cluster.file, more=[SNAPSHOTS]) as log, trio.open_nursery() as nursery:
        directory = await open_store_directory(folder)
        register = await log.view.current()
        host = Host(
            log=log,
            directory=directory,
            environment=attrs.evolve(log.view.environment, nursery=nursery),
            identity=ReplicaIdentity(node=NODE, store=b"witness", boot=1),
            cluster=register.cluster,
            peers=lambda: sorted(register.nodes),
            settings=HostSettings(replica=ReplicaSettings(passive=True, recipe=witness.recipe)),
        )
        begun = trio.Event()

        async def attend(life: ReplicaIncarnation) -> None:
            assert not begun.is_set(), "the log was trimmed under the witness"
            tree = life.database.tree
            if not witness.history.events:
                version = tree.exists(CONFIG).version
                witness.history.observed("witness", Began(tree.last_zxid, {CONFIG: version}), None)
            begun.set()

        nursery.start_soon(host.run, attend)
        await begun.wait()
        yield Follower(log, host)
        nursery.cancel_scope.cancel()
    await directory.close()
