"""Plays the log of a run without being a replica, in the end: at every cursor that a replica has had, the state is the same.

What Spark's compaction rests on (`database.replay`). It begins with a store that was seen on the way, so what was trimmed behind
it is not needed; with an empty one, if nothing was.
"""

from __future__ import annotations

from typing import Final

from database.replay import Replay
from simulation.checks.zelos_replicas import StateWatch
from simulation.world.cluster import Cluster
from simulation.world.store_disk import StoreDisk
from virtuallog.scanning import scan

PIECE_BYTES: Final = 2 << 10
"""Some entries."""


async def replay_log(cluster: Cluster, states: StateWatch) -> None:
    """Compare what a replay comes to with what the replicas had. Returns when it has come to the tail.

    Raises:
        VirtualLogError: the log cannot be read to its tail.
    """
    async with cluster.client("replay") as client:
        log = client.log
        trim_point = await log.find_trim_point()
        tail = (await log.check_tail()).tail
        disk = StoreDisk(content=states.oldest_copy(trim_point))
        disk.digest = disk.full_digest()
        replay = Replay(disk.open())
        async for piece in scan(log, replay.cursor, tail, piece_bytes=PIECE_BYTES):
            for effects in replay.play(piece):
                assert replay.cursor == effects.position + 1
                states.replayed(replay.cursor, disk.digest)
        states.replayed(replay.cursor, disk.digest)
