"""Driver of one coordinator: sends its requests, delivers the answers, stands for election on demand. No task per request.

Elections are in `election_driver.py`. Requests of loglet clients are in `coordinator_requests.py`; a log used by itself
calls this module directly.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

import attrs
import trio

from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import UnavailableError, VirtualLogError
from virtuallog.contract.ports import NodeEnvironment
from virtuallog.contract.types import NodeId
from virtuallog.runtime import log
from virtuallog_loglets.paxos.core.coordinator import Coordinator, CoordinatorState
from virtuallog_loglets.paxos.core.effects import (
    Announce,
    CatchUp,
    CoordinatorEffect,
    LearnLocally,
    PaxosResolve,
    PaxosSend,
)
from virtuallog_loglets.paxos.drivers.election_driver import ElectionDriver
from virtuallog_loglets.paxos.drivers.local_replica import LocalReplica
from virtuallog_loglets.paxos.messages import GetStanding, PaxosWrite, Promise
from virtuallog_loglets.paxos.metrics import ProposerPhase
from virtuallog_loglets.paxos.offsets import offset_of

WRITE_SECONDS: Final = 3.0
"""Timeout of a write. A disk that stalls for longer only gets the same write twice."""
UNANSWERED_MAX: Final = 64
"""Cap on unanswered requests to one replica. A replica that stalls is not sent everything: it catches up later."""
TICK_SECONDS: Final = 0.005
"""Tick while requests are in flight. If nothing was decided for so long, replicas are sent the
decisions, as readers wait."""

_WRITING = CrashPoint("paxos: a write has left for one replica more")
_DECIDED = CrashPoint("paxos: a position is decided, nobody has been told")
_TOLD = CrashPoint("paxos: the local replica knows of a decision, the client does not")
_SEALED = CrashPoint("paxos: a SEAL is decided, nobody has been told")

_Take: TypeAlias = Callable[[NodeId, int, Any], list[CoordinatorEffect]]


@attrs.define(eq=False)
class CoordinatorDriver:
    """The coordinator beside one local replica. Start `run` in the nursery that owns the replica."""

    _replica: LocalReplica
    _environment: NodeEnvironment
    _core: Coordinator = attrs.field(init=False)
    _takers: dict[type[Any], _Take] = attrs.field(init=False)
    """Method of the core that takes the answer, by request class."""
    _election_driver: ElectionDriver = attrs.field(init=False)
    _unanswered: dict[NodeId, int] = attrs.field(factory=dict, init=False)
    _offered: trio.Event = attrs.field(factory=trio.Event, init=False)
    _ticking: trio.Event = attrs.field(factory=trio.Event, init=False)
    _sent_at: float = attrs.field(default=0.0, init=False)
    _abandoned: bool = attrs.field(default=False, init=False)
    """True once the role and its nursery are closed; later answers are ignored."""

    def __attrs_post_init__(self) -> None:
        replica = self._replica
        core = self._core = Coordinator(replica.segment, self._environment.node, replica.ensemble())
        self._takers = {Promise: core.promised, PaxosWrite: core.written, GetStanding: core.confirmed}
        self._election_driver = ElectionDriver(core, replica, self._environment, self.step, self.now_ms)

    @property
    def core(self) -> Coordinator:
        """The core, for callers that inspect it."""
        return self._core

    @property
    def is_leading(self) -> bool:
        return self._core.state is CoordinatorState.LEADING

    async def run(self) -> None:
        """Run until cancelled or stopped."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._run_turns)
                nursery.start_soon(self._run_ticks)
        finally:
            self._abandoned = self._core.stopped is None

    def resign(self) -> None:
        """Give up the lead. The outcome of pending requests is *maybe*."""
        self.step(lambda: self._core.resign("the coordinator has resigned"))

    def stop(self, error: VirtualLogError) -> None:
        """Stop for good. The outcome of pending requests is unknown."""
        self.step(lambda: self._core.stop(error))

    async def stand(self) -> int:
        """Stand for election once; see `ElectionDriver.stand`."""
        return await self._election_driver.stand()

    # -- a log used by itself -------------------------------------------------------------------------------------

    def append(self, payload: bytes, done: Callable[[int | VirtualLogError], None]) -> None:
        """Append user bytes without a session.

        `done` gets the position once it is decided, in the order of positions. UnavailableError means *maybe*: this
        coordinator does not lead any more.
        """
        if not self._can_write(done):
            return
        self.step(lambda: self._core.append(payload, done))
        self.turn()

    async def truncate(self, to: int) -> int:
        """Decide that everything below position `to` may be dropped; returns the position of the TRUNCATE.

        Cancelling the wait does not undo it.

        Raises:
            UnavailableError: the outcome is *maybe*, or this coordinator does not lead.
            SealedError: the log is closed.
        """
        outcomes: list[int | VirtualLogError] = []
        settled = trio.Event()

        def done(outcome: int | VirtualLogError) -> None:
            outcomes.append(outcome)
            settled.set()

        if self._can_write(done):
            self.step(lambda: self._core.truncate(to, offset_of(to), b"", done))
            self.turn()
        await settled.wait()
        if isinstance(outcomes[0], VirtualLogError):
            raise outcomes[0]
        return outcomes[0]

    def _can_write(self, done: Callable[[int | VirtualLogError], None]) -> bool:
        if self._core.stopped is None and self._core.state in (CoordinatorState.LEADING, CoordinatorState.CLOSED):
            return True
        done(self._core.stopped or UnavailableError("this coordinator does not lead"))
        return False

    # -- the core -------------------------------------------------------------------------------------------------

    def turn(self) -> None:
        """Write the next position, if requests wait and none is in flight."""
        if self._core.has_work:
            self._core.ensemble = self._replica.ensemble()
            self._sent_at = self._environment.clock.monotonic()
            self.step(lambda: self._core.turn(self.now_ms(), self._time_ms()))

    async def _run_turns(self) -> None:
        while self._core.stopped is None:
            await self._offered.wait()
            self._offered = trio.Event()
            self.turn()

    async def _run_ticks(self) -> None:
        while self._core.stopped is None:
            if not self._ticking.is_set():
                await self._ticking.wait()
            await self._environment.clock.sleep(TICK_SECONDS)
            self._ticking = trio.Event()
            self.step(lambda: self._core.tick(self.now_ms()))

    def now_ms(self) -> int:
        """Time of a clock that does not jump, in milliseconds."""
        return int(self._environment.clock.monotonic() * 1000)

    def _time_ms(self) -> int:
        return max(0, int(self._environment.clock.wall() * 1000))

    def step(self, step: Callable[[], list[CoordinatorEffect]]) -> None:
        """Perform a step of the core.

        A broken invariant ends this role, and not the connection that happened to call.
        """
        if self._abandoned:
            return
        try:
            self._perform(step())
        except AssertionError as error:
            self._environment.fail(error)

    def _perform(self, effects: list[CoordinatorEffect]) -> None:
        is_decided = False
        for effect in effects:
            match effect:
                case PaxosResolve(done, outcome):
                    done(outcome)
                case PaxosSend(nodes, request, number):
                    for node in nodes:
                        self._send(node, request, number)
                case LearnLocally(decided, size):
                    is_decided = True
                    (_SEALED if self._core.state is CoordinatorState.CLOSED else _DECIDED).reached()
                    self._replica.meter.committed(size, self._environment.clock.monotonic() - self._sent_at)
                    self._replica.learn(decided)
                    _TOLD.reached()
                case Announce(nodes, learn):
                    for node in nodes:
                        self._environment.services.post(node, learn, _ignore, WRITE_SECONDS)
                case CatchUp():
                    self._election_driver.won(effect)
        core = self._core
        if core.state not in (CoordinatorState.ELECTING, CoordinatorState.LEADING):
            self._election_driver.wake()
        if core.has_work:
            # What has waited for a decision has company already; what has just arrived may get some in this turn.
            if is_decided or core.may_hurry:
                self.turn()
            else:
                self._offered.set()
        if not self._ticking.is_set() and core.needs_ticks:
            self._ticking.set()
        if core.stopped is not None:
            self._offered.set()
            self._ticking.set()

    def _send(self, node: NodeId, request: Promise | PaxosWrite | GetStanding, number: int) -> None:
        if self._unanswered.get(node, 0) >= UNANSWERED_MAX:
            self.step(lambda: self._core.unanswered(node, number))
            return
        self._unanswered[node] = self._unanswered.get(node, 0) + 1
        take = self._takers[type(request)]
        self._environment.services.post(node, request, partial(self._answered, take, node, number), WRITE_SECONDS)
        if isinstance(request, PaxosWrite):
            _WRITING.reached()

    def _answered(self, take: _Take, node: NodeId, number: int, outcome: Any) -> None:
        self._unanswered[node] -= 1
        before, refusals = self._core.state, self._core.refusals
        if isinstance(outcome, VirtualLogError):
            self.step(lambda: self._core.unanswered(node, number))
        else:
            self.step(lambda: take(node, number, outcome))
        if self._core.refusals > refusals:
            self._replica.meter.rejected(
                ProposerPhase.WRITE if before is CoordinatorState.LEADING else ProposerPhase.PROMISE
            )
        if before is CoordinatorState.LEADING and self._core.state is CoordinatorState.INITIAL:
            log.info("leads no longer", segment=str(self._core.segment), rival=self._core.known_leader)


def _ignore(outcome: object) -> None:
    """Ignore an answer: a replica that has not learned the decision catches up later."""
