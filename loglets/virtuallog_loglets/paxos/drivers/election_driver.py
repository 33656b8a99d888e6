"""Elections of one coordinator: asks for promises, catches up, then leads.

A coordinator never stands unasked. The callers decide when to stand, and how long to pause after a failure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs
import trio

from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import RetryableError, SealedError, UnavailableError
from virtuallog.contract.ports import NodeEnvironment
from virtuallog.runtime import log
from virtuallog_loglets.paxos.core.coordinator import Coordinator, CoordinatorState
from virtuallog_loglets.paxos.core.effects import CatchUp, CoordinatorEffect
from virtuallog_loglets.paxos.drivers.catch_up import catch_up
from virtuallog_loglets.paxos.drivers.local_replica import LocalReplica
from virtuallog_loglets.paxos.messages import NOWHERE, Status
from virtuallog_loglets.paxos.metrics import ElectionOutcome

ELECT_SECONDS: Final = 1.0
"""Timeout for the promises of a quorum: a round trip and a sync. The votes of slower replicas are not counted."""
CATCH_UP_SECONDS: Final = 10.0
"""Timeout for catching up. If that takes longer, another node is better placed to lead."""

_PROMISED = CrashPoint("paxos: a coordinator is elected, it has not caught up")
_LEADING = CrashPoint("paxos: a coordinator has caught up, nothing is written")


@attrs.define(eq=False)
class ElectionDriver:
    """Runs the elections of one coordinator; `step` performs steps of its core."""

    _core: Coordinator
    _replica: LocalReplica
    _environment: NodeEnvironment
    _step: Callable[[Callable[[], list[CoordinatorEffect]]], None]
    _now_ms: Callable[[], int]
    _to_catch_up: CatchUp | None = attrs.field(default=None, init=False)
    _state_changed: trio.Event = attrs.field(factory=trio.Event, init=False)
    """Set when the core has left the state in which it waits for promises."""

    def won(self, gap: CatchUp) -> None:
        """Note that a quorum has promised, and what is left to catch up."""
        self._to_catch_up = gap

    def wake(self) -> None:
        """Note that the core does not wait for promises any more."""
        self._state_changed.set()

    async def stand(self) -> int:
        """Stand for election once.

        On return the coordinator leads and takes appends; every earlier position is decided and learned by the local
        replica. If cancelled or failed, this coordinator does not lead.

        Returns:
            The highest position of the log.

        Raises:
            UnavailableError: not elected: a higher number was met, or not enough replicas answered. Try again after a pause.
            SealedError: the log is closed.
        """
        self._require_idle()
        try:
            return await self._stand()
        finally:
            if self._core.state in (CoordinatorState.ELECTING, CoordinatorState.CATCHING_UP):
                self._step(lambda: self._core.resign("the election was given up"))

    def _require_idle(self) -> None:
        """Check that the coordinator can stand; a coordinator that leads resigns.

        Raises:
            SealedError, UnavailableError: it cannot stand.
        """
        core, replica = self._core, self._replica.core
        if core.stopped is not None:
            raise core.stopped
        if replica.seal != NOWHERE:
            self._step(lambda: core.close(replica.seal))
            raise SealedError("the log is closed")
        if replica.status is not Status.VOTING:
            raise UnavailableError("the replica on this node does not vote yet")
        if core.state is CoordinatorState.LEADING:
            self._step(lambda: core.resign("the coordinator stands again"))
        if core.state is not CoordinatorState.INITIAL:
            raise UnavailableError("an election is under way")

    async def _stand(self) -> int:
        core, meter, refusals = self._core, self._replica.meter, self._core.refusals
        core.ensemble = self._replica.ensemble()
        self._to_catch_up, self._state_changed = None, trio.Event()
        self._step(lambda: core.elect(self._replica.core.promised))
        with self._environment.clock.timeout(ELECT_SECONDS):
            await self._state_changed.wait()
        gap = self._gap()
        if gap is None:
            meter.election_ended(ElectionOutcome.REJECTED if core.refusals > refusals else ElectionOutcome.UNDECIDED)
            raise UnavailableError("not elected")
        _PROMISED.reached()
        try:
            end = await self._catch_up(gap)
        except RetryableError:
            meter.election_ended(ElectionOutcome.UNDECIDED)
            raise
        meter.election_ended(ElectionOutcome.ELECTED)
        _LEADING.reached()
        log.info("elected", segment=str(core.segment), proposal=core.proposal, end=end)
        return end

    def _gap(self) -> CatchUp | None:
        return self._to_catch_up

    async def _catch_up(self, gap: CatchUp) -> int:
        core, replica = self._core, self._replica
        with self._environment.clock.timeout(CATCH_UP_SECONDS) as scope:
            await catch_up(
                replica, replica.ensemble, self._environment, replica.core.begin, gap.stop, proposal=gap.proposal
            )
        if scope.cancelled_caught:
            raise UnavailableError("elected, but too far behind")
        if replica.core.seal != NOWHERE:
            self._step(lambda: core.close(replica.core.seal))
            raise SealedError("the log is closed")
        digest = await replica.digest()
        if core.state is not CoordinatorState.CATCHING_UP or replica.core.learned != gap.stop:
            raise UnavailableError("another replica leads")
        self._step(lambda: core.caught_up(digest, self._now_ms()))
        return gap.stop - 1
