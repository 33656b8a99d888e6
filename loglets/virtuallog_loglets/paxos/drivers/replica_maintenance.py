"""Maintenance of one local replica: recovers it if it does not vote, and repairs gaps that persist. The driver of `Recovery`.

    not VOTING --> ask all replicas --> RECOVERING, durable --> learn all that a quorum has --> VOTING, durable
    VOTING     --> a position is missing for a while --> copy it; fill what is older than any wave in flight

Rules:
* A replica votes only once it has learned every position that a quorum of voting replicas knew of when they noted its new
  store. In the same write it stores what they promised. Before, it is RECOVERING durably: a crash in between starts anew.
* A missing position at the end of the log that no replica has learned belongs to the leader, or to a reader that has it
  settled. A recovery waits for that for a while. Then it fills the position, as it could not vote otherwise; the leader
  has to stand for election again. A voting replica leaves it as it is, for ever if nothing is written, unless a SEAL was
  accepted there. That it fills in the end: nothing is written behind a SEAL, and as long as no replica has learned it
  the closed log can be neither trimmed nor copied.
* A whole copy of a closed log needs no vote. If no quorum is left, one replica that has everything is enough to make it.
* A replica that was away when the last positions or the SEAL were decided sees no gap, and may never hear of them. So a
  replica that has learned nothing for a while asks the others for their standings. Otherwise a closed log, which is not
  written any more, would keep fewer copies.

Source: Mesos, `src/log/recover.cpp` and `replica.cpp`, which repair a gap only when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import RetryableError, SealedError, VirtualLogError
from virtuallog.contract.ports import NodeEnvironment
from virtuallog.runtime import log
from virtuallog_loglets.paxos.config import Ensemble
from virtuallog_loglets.paxos.core.recovery import BecomeStatus, FollowQuorum
from virtuallog_loglets.paxos.drivers.broadcast import recovery_round, standings
from virtuallog_loglets.paxos.drivers.catch_up import catch_up
from virtuallog_loglets.paxos.drivers.local_replica import LocalReplica
from virtuallog_loglets.paxos.messages import NOWHERE, Status

IN_FLIGHT: Final = 1
"""Positions at the end of the log that a coordinator may have written and that are not decided."""
RETRY_SECONDS: Final = 0.5
"""T of the pause of T to 2T between two rounds of `PaxosRecover`."""
PATIENCE_SECONDS: Final = 1.0
"""Wait of a recovery for the leader to decide positions in flight. Some waves and syncs take far less."""
AGAIN_SECONDS: Final = 0.1
"""Pause between two looks at positions in flight."""
STAY_SECONDS: Final = 0.25
"""T of T to 2T: a position missing for so long counts as missed. A wave is in flight for milliseconds."""
PAUSE_SECONDS_MAX: Final = 8.0
"""Cap on the pause between attempts, which doubles while they bring nothing."""
SEAL_SECONDS: Final = 2.0
"""Pause from which on a SEAL in flight is filled: its leader would have decided it long ago."""

LOOK_SECONDS: Final = 4.0
"""Time after which a replica that has learned nothing asks the others for their standings. It doubles while that brings
nothing."""
LOOK_SECONDS_MAX: Final = 128.0
"""Cap on that time: an unused log costs next to nothing."""

_RECOVERING = CrashPoint("paxos: a replica without a memory is about to catch up", rare=True)
_CAUGHT_UP = CrashPoint("paxos: a replica without a memory has caught up and does not vote yet", rare=True)


async def maintain_replica(
    replica: LocalReplica,
    ensemble: Callable[[], Ensemble],
    environment: NodeEnvironment,
    *,
    auto_initialize: bool = False,
) -> None:
    """Maintain a replica until the log is closed and whole here, is dropped, or the store has failed.

    Args:
        replica: the replica of this node.
        ensemble: returns the ensemble at the moment of the call.
        environment: the node's.
        auto_initialize: EMPTY replicas may found the log together; only for logs used by themselves.
    """
    maintenance = _ReplicaMaintenance(replica, ensemble, environment, auto_initialize)
    try:
        while not maintenance.is_whole:
            await maintenance.turn()
    except SealedError:
        log.debug("dropped", segment=str(replica.segment))
    except VirtualLogError as error:  # of the local store, which has reported it to its owner
        log.warning("a replica is kept whole no more", segment=str(replica.segment), reason=str(error))


@attrs.define(eq=False)
class _ReplicaMaintenance:
    _replica: LocalReplica
    _ensemble: Callable[[], Ensemble]
    _environment: NodeEnvironment
    _auto_initialize: bool
    _pause_seconds: float = attrs.field(default=STAY_SECONDS, init=False)
    _look_seconds: float = attrs.field(default=LOOK_SECONDS, init=False)
    _has_warned: bool = attrs.field(default=False, init=False)

    @property
    def is_whole(self) -> bool:
        """True if the log is closed and all of it is here."""
        return self._replica.core.seal != NOWHERE

    async def turn(self) -> None:
        """Take one step towards a whole replica."""
        try:
            self._replica.check_live()
            if self._replica.core.status is Status.VOTING:
                await self._close_holes()
            else:
                await self._recover()
        except RetryableError as error:  # a full disk, a full queue
            log.info("a replica is not whole yet", segment=str(self._replica.segment), reason=str(error))
            await self._sleep(RETRY_SECONDS)

    # -- recovery ---------------------------------------------------------------------------------------------------------

    async def _recover(self) -> None:
        """Run one round of recovery.

        The initial status of a replica tells whether it may have forgotten something.
        """
        step = await recovery_round(
            self._replica, self._ensemble, self._environment, has_forgotten=True, auto_initialize=self._auto_initialize
        )
        match step:
            case FollowQuorum():
                await self._follow(step)
            case BecomeStatus(status=status):
                await self._replica.adopt(status, step.promised, incarnations=step.incarnations)
                if status is Status.VOTING:
                    self._replica.meter.recovered()
            case None:
                await self._copy_closed()

    async def _follow(self, quorum: FollowQuorum) -> None:
        _RECOVERING.reached()
        # No position tells what a trim of a closed log has dropped, and a whole copy answers for the log.
        await self._replica.adopt(Status.RECOVERING, begin=quorum.begin, trim=quorum.trim)
        await self._learn_all(quorum.begin, quorum.end)
        _CAUGHT_UP.reached()
        # Durable before visible: a vote without the promise, or with a missing position, would come from a replica that
        # has forgotten what others counted on.
        assert not self._replica.core.missing(quorum.begin, quorum.end + 1)
        await self._replica.adopt(Status.VOTING, quorum.promised, trim=quorum.trim, incarnations=quorum.incarnations)
        self._replica.meter.recovered()
        log.info("recovered", segment=str(self._replica.segment), begin=quorum.begin, end=quorum.end)

    async def _learn_all(self, begin: int, end: int) -> None:
        """Learn [begin, end].

        Positions in flight are left to the leader at first; position 0 is always filled.
        """
        clock, leave = self._environment.clock, IN_FLIGHT if end > 0 else 0
        deadline = clock.monotonic() + PATIENCE_SECONDS
        while await self._catch_up(begin, end + 1, leave) <= end:
            if clock.monotonic() >= deadline:
                leave = 0
            else:
                await clock.sleep(AGAIN_SECONDS)

    async def _copy_closed(self) -> None:
        """Copy a closed log from one replica that has all of it, as there is no quorum to follow; otherwise wait."""
        known = await standings(self._replica, self._environment)
        seal = max((standing.seal for standing in known.values()), default=NOWHERE)
        if seal != NOWHERE:
            # First, as the copy answers for the log from its last position on.
            await self._replica.adopt(self._replica.core.status, trim=max(each.trim for each in known.values()))
            await self._catch_up(self._replica.core.begin, seal + 1, fills=False)
        if not self.is_whole:
            self._warn_once()
            await self._sleep(RETRY_SECONDS)

    def _warn_once(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            log.warning("no quorum of voting replicas answers: this one waits", segment=str(self._replica.segment))

    # -- gaps -------------------------------------------------------------------------------------------------------------

    async def _close_holes(self) -> None:
        """Wait for a gap that persists, then catch up with all that is missing."""
        core, before = self._replica.core, self._replica.core.learned
        with self._environment.clock.timeout(self._look_seconds) as nothing_missing:
            await self._replica.wait_missing()
        if nothing_missing.cancelled_caught and core.learned == before:
            await self._look()
            return
        self._look_seconds, learned = LOOK_SECONDS, core.learned
        if learned > core.end:
            return
        await self._sleep(self._pause_seconds)
        if core.learned == learned:
            is_left = core.slots.seal_seen == NOWHERE or self._pause_seconds < SEAL_SECONDS
            await self._catch_up(learned, core.end + 1, leave=IN_FLIGHT if is_left else 0)
        brought = core.learned > learned
        self._pause_seconds = STAY_SECONDS if brought else min(2 * self._pause_seconds, PAUSE_SECONDS_MAX)

    async def _look(self) -> None:
        """Ask the others for their standings: this replica has heard nothing for long and may have missed the end."""
        known = await standings(self._replica, self._environment)
        learned = self._replica.core.learned
        furthest = max((standing.learned for standing in known.values()), default=0)
        if furthest > learned:
            await self._catch_up(learned, furthest, fills=False)
        brought = self._replica.core.learned > learned
        self._look_seconds = LOOK_SECONDS if brought else min(2 * self._look_seconds, LOOK_SECONDS_MAX)

    # -- both -------------------------------------------------------------------------------------------------------------

    async def _catch_up(self, first: int, stop: int, leave: int = 0, *, fills: bool = True) -> int:
        return await catch_up(self._replica, self._ensemble, self._environment, first, stop, leave=leave, fills=fills)

    async def _sleep(self, seconds: float) -> None:
        """Sleep for T to 2T, so that replicas that began together do not go on in step."""
        await self._environment.clock.sleep(seconds * self._environment.random.uniform(1, 2))
