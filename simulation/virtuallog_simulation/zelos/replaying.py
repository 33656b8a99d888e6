"""Plays the log of a run without being a replica, in the end: at every cursor that a replica has had, the state is the same.

What Spark's compaction rests on (`virtuallog_database.replay`). It begins with a store that was seen on the way, so what was trimmed behind
it is not needed; with an empty one, if nothing was.
"""

from __future__ import annotations

from typing import Final

from virtuallog.errors import UnavailableError
from virtuallog.scanning import scan
from virtuallog.types import LogPosition
from virtuallog.virtual_log import VirtualLog
from virtuallog_database.errors import SnapshotNeededError
from virtuallog_database.replay import Replay
from virtuallog_simulation.checks.zelos_replicas import StateWatch
from virtuallog_simulation.world.cluster import Cluster
from virtuallog_simulation.world.store_disk import StoreDisk

PIECE_BYTES: Final = 2 << 10
"""Some entries."""
ATTEMPTS: Final = 10
"""Each begins where the log begins by then. A replica trims once a second at most."""


async def replay_log(cluster: Cluster, states: StateWatch) -> None:
    """Compare what a replay comes to with what the replicas had. Returns when it has come to the tail.

    Raises:
        VirtualLogError: the log cannot be read to its tail.
    """
    async with cluster.client("replay") as client:
        for _ in range(ATTEMPTS):
            try:
                return await _replay(client.log, states)
            except SnapshotNeededError:  # the replicas go on, and have trimmed what was to be read
                continue
        raise UnavailableError(f"the log was trimmed under {ATTEMPTS} replays")


async def _replay(log: VirtualLog, states: StateWatch) -> None:
    trim_point = await log.find_trim_point()
    tail = LogPosition((await log.check_tail()).tail)
    disk = StoreDisk(content=states.oldest_copy(trim_point))
    disk.digest = disk.full_digest()
    replay = Replay(disk.open())
    async for piece in scan(log, replay.cursor, tail, piece_bytes=PIECE_BYTES):
        for effects in replay.play(piece):
            assert replay.cursor == effects.position + 1
            states.replayed(replay.cursor, disk.digest)
    states.replayed(replay.cursor, disk.digest)
