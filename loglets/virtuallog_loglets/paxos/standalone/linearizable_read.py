"""Linearizable reads of a log used by itself, without a writer: ask a quorum how far the log goes, and learn up to there.

    through = await cover(log)
    await learn(log, first, through)
    records = await log.replica.read(first, through + 1, max_bytes)

This turns no writer out, unless it is slow: a position that it has not announced for `ANNOUNCE_SECONDS` is filled.
"""

from __future__ import annotations

from typing import Final

from virtuallog.contract.errors import UnavailableError, VirtualLogError
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.core.tail_check import cover_of, newest_of
from virtuallog_loglets.paxos.drivers.broadcast import Broadcast
from virtuallog_loglets.paxos.drivers.catch_up import catch_up
from virtuallog_loglets.paxos.messages import GetStanding, Standing
from virtuallog_loglets.paxos.standalone.log import Log

ASK_SECONDS: Final = 1.0
"""Timeout of the question how far the log goes, which needs no sync."""
RECOVER_SECONDS: Final = 10.0
"""Wait for the replica of this process to vote."""
LEARN_SECONDS: Final = 10.0
"""Timeout for learning what others have written, or for filling it; an election has as much."""
LOOK_SECONDS: Final = 0.02
"""Pause between two looks for a decision that its writer is about to announce. It does so within milliseconds."""
ANNOUNCE_SECONDS: Final = 0.5
"""Wait for that, before this replica fills the position, as its writer may be gone."""


async def recovered(log: Log) -> None:
    """Return once the replica of this process votes.

    Raises:
        UnavailableError: not within `RECOVER_SECONDS`.
        VirtualLogError: the log has ended with this error.
    """
    with log.environment.clock.timeout(RECOVER_SECONDS) as scope:
        await log.recovered()
    if scope.cancelled_caught:
        raise UnavailableError("the replica of this process does not vote yet")


async def cover(log: Log) -> int:
    """Highest position that may have been acknowledged before the call.

    Raises:
        UnavailableError: no quorum of replicas that vote has answered.
        VirtualLogError: the log has ended with this error.
    """
    await recovered(log)
    ensemble = log.network.ensemble()
    standings: dict[NodeId, Standing] = {log.environment.node: log.replica.core.standing()}

    def found() -> int | None:
        # Members that are not known here, as they register late, may be in a quorum.
        return cover_of(newest_of(standings), 2 * ensemble.quorum - 1, ensemble.quorum)

    def take(node: NodeId, outcome: Standing | VirtualLogError) -> None:
        if isinstance(outcome, Standing):
            standings[node] = outcome
            if found() is not None:
                question.enough()

    question = Broadcast(log.environment, GetStanding(segment=log.replica.segment), take)
    question.post(ensemble.members, ASK_SECONDS)
    await question.wait()
    position = found() if ensemble.members else None
    if position is None:
        raise UnavailableError(
            f"no quorum of the log answers: {len(standings)} replicas, and {ensemble.quorum} are needed"
        )
    return position


async def learn(log: Log, first: int, through: int) -> None:
    """Have the local replica learn the positions from `first` through `through` that are not truncated.

    Raises:
        UnavailableError: it takes too long.
    """
    replica, clock = log.replica, log.environment.clock
    fill_at, stop = clock.monotonic() + ANNOUNCE_SECONDS, through + 1
    with clock.timeout(LEARN_SECONDS) as scope:
        while (at := max(first, replica.core.begin)) < stop:
            fills = clock.monotonic() >= fill_at
            if await catch_up(replica, replica.ensemble, log.environment, at, stop, fills=fills) == stop:
                return
            await clock.sleep(LOOK_SECONDS)
    if scope.cancelled_caught:
        raise UnavailableError("the log is too far ahead, or no quorum answers")
