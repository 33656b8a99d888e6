"""Runs one coordinator: stands for election, sends what it writes, hands out the answers. No task per request.

A request that finds no coordinator leading waits while this one stands, if nobody else is known to lead, or the client insists
because whoever was said to lead does not answer. There are no heartbeats: what a replica promised or accepted last says who leads.

An election that somebody was in the way of is repeated after a pause of T to 2T, unless the local replica has heard of somebody
else meanwhile: so of several who stand at once, one goes on and the others send their clients there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

import attrs
import structlog
import trio

from loglets.paxos.catch_up import catch_up
from loglets.paxos.coordinator import Coordinator, State
from loglets.paxos.coordinator_effects import Announce, CatchUp, Effect, LearnHere, Resolve, Send
from loglets.paxos.messages import (
    NOBODY,
    NOWHERE,
    Append,
    GetStanding,
    Learn,
    Promise,
    Seal,
    Settle,
    Status,
    Taken,
    Truncate,
    Write,
)
from loglets.paxos.metrics import Election, Phase
from loglets.paxos.places import offset_of, position_of
from loglets.paxos.replica_service import LocalReplica
from virtuallog.batch import Batch
from virtuallog.crash_points import CrashPoint
from virtuallog.errors import (
    MalformedError,
    OverloadedError,
    RetryableError,
    SealedError,
    UnavailableError,
    VirtualLogError,
)
from virtuallog.ports import Done, NodeEnvironment
from virtuallog.types import NodeId

WRITE_SECONDS: Final = 3.0
"""After this a write counts as failed. A disk that stalls for longer only gets the same write twice."""
ELECT_SECONDS: Final = 1.0
"""For the promises of a quorum: a round trip and a sync. Replicas that take longer do not vote this time."""
CATCH_UP_SECONDS: Final = 10.0
"""For what the local replica has missed. If that takes longer, another one is better placed to lead."""
PAUSE_SECONDS: Final = 0.1
"""T of the pause of T to 2T between two elections."""
ELECTIONS_MAX: Final = 4
"""On behalf of the requests that wait; their clients give up after some seconds."""
EARLY_MAX: Final = 1024
"""Requests that wait for an election: more than many clients have under way."""
UNANSWERED_MAX: Final = 64
"""Requests to one replica at a time. One that stands still is not sent everything: it catches up when it is back."""
TICK_SECONDS: Final = 0.005
"""While something is under way. When nothing was decided for so long, replicas are told what is: who reads there waits for it."""

_PROMISED = CrashPoint("paxos: a coordinator is elected, it has not caught up")
_LEADING = CrashPoint("paxos: a coordinator has caught up, nothing is written")
_WRITING = CrashPoint("paxos: a write has left for one replica more")
_DECIDED = CrashPoint("paxos: a position is decided, nobody has been told")
_TOLD = CrashPoint("paxos: the local replica knows of a decision, the client does not")
_SEALED = CrashPoint("paxos: a SEAL is decided, nobody has been told")

_Take: TypeAlias = Callable[[NodeId, int, Any], list[Effect]]

log = structlog.get_logger(__name__)


@attrs.define(eq=False)
class RunningCoordinator:
    """The coordinator beside one local replica. Of a loglet: `request`. Of a log used by itself: `stand`, `append`, `truncate`.

    `run` is its only task of its own; start it in the nursery that owns the replica.
    """

    _replica: LocalReplica
    _environment: NodeEnvironment
    _core: Coordinator = attrs.field(init=False)
    _early: deque[tuple[Any, Done]] = attrs.field(factory=deque, init=False)
    """Requests that wait for an election."""
    _is_campaigning: bool = attrs.field(default=False, init=False)
    _takers: dict[type[Any], _Take] = attrs.field(init=False)
    """What the core does with the answer, by the request."""
    _unanswered: dict[NodeId, int] = attrs.field(factory=dict, init=False)
    _to_catch_up: CatchUp | None = attrs.field(default=None, init=False)
    _stirred: trio.Event = attrs.field(factory=trio.Event, init=False)
    """The core has left the state in which it waits for promises."""
    _offered: trio.Event = attrs.field(factory=trio.Event, init=False)
    _ticking: trio.Event = attrs.field(factory=trio.Event, init=False)
    _sent_at: float = attrs.field(default=0.0, init=False)
    _abandoned: bool = attrs.field(default=False, init=False)
    """The role has been closed, and its nursery with it: answers that are still on their way concern nobody."""

    def __attrs_post_init__(self) -> None:
        replica = self._replica
        core = self._core = Coordinator(replica.segment, self._environment.node, replica.ensemble())
        self._takers = {Promise: core.promised, Write: core.written, GetStanding: core.confirmed}

    @property
    def core(self) -> Coordinator:
        """For who looks inside."""
        return self._core

    @property
    def is_leading(self) -> bool:
        return self._core.state is State.LEADING

    async def run(self) -> None:
        """Until cancelled, or stopped."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._run_turns)
                nursery.start_soon(self._run_ticks)
        finally:
            self._abandoned = self._core.stopped is None

    def resign(self) -> None:
        """Lead no longer. What is pending is maybe."""
        self._guard(lambda: self._core.resign("the coordinator has resigned"))

    def stop(self, error: VirtualLogError) -> None:
        """Take nothing more, for good. What is pending is unknown."""
        self._guard(lambda: self._core.stop(error))
        self._flush_early()

    # -- election -------------------------------------------------------------------------------------------------

    async def stand(self) -> int:
        """One election. On return appends are taken, everything before is decided and learned by the local replica.

        Cancelled, or failed, this one does not lead.

        Returns:
            The highest position of the log.

        Raises:
            UnavailableError: not elected: somebody was in the way, or not enough replicas answered. Try again after a pause.
            SealedError: the log is closed.
        """
        self._check()
        try:
            return await self._stand()
        finally:
            if self._core.state in (State.ELECTING, State.CATCHING_UP):
                self._guard(lambda: self._core.resign("the election was given up"))

    def _check(self) -> None:
        """
        Raises:
            SealedError, UnavailableError: it cannot stand.
        """
        core, replica = self._core, self._replica.core
        if core.stopped is not None:
            raise core.stopped
        if replica.seal != NOWHERE:
            self._guard(lambda: core.close(replica.seal))
            raise SealedError("the log is closed")
        if replica.status is not Status.VOTING:
            raise UnavailableError("the replica on this node does not vote yet")
        if core.state is State.LEADING:
            self.resign()
        if core.state is not State.INITIAL:
            raise UnavailableError("an election is under way")

    async def _stand(self) -> int:
        core, meter, refusals = self._core, self._replica.meter, self._core.refusals
        core.ensemble = self._replica.ensemble()
        self._to_catch_up, self._stirred = None, trio.Event()
        self._guard(lambda: core.elect(self._replica.core.promised))
        with self._environment.clock.timeout(ELECT_SECONDS):
            await self._stirred.wait()
        gap = self._gap()
        if gap is None:
            meter.stood(Election.REJECTED if core.refusals > refusals else Election.UNDECIDED)
            raise UnavailableError("not elected")
        _PROMISED.reached()
        try:
            end = await self._catch_up(gap)
        except UnavailableError:
            meter.stood(Election.UNDECIDED)
            raise
        meter.stood(Election.ELECTED)
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
            self._guard(lambda: core.close(replica.core.seal))
            raise SealedError("the log is closed")
        digest = await replica.digest()
        if core.state is not State.CATCHING_UP or replica.core.learned != gap.stop:
            raise UnavailableError("somebody else leads")
        self._guard(lambda: core.caught_up(digest, self._now_ms()))
        return gap.stop - 1

    async def _campaign(self) -> None:
        """Stand until it leads, or somebody else does, or it has been tried often enough. Then answer those who wait."""
        try:
            for _ in range(ELECTIONS_MAX):
                former = self._replica.core.coordinator
                try:
                    await self.stand()
                    break
                except SealedError:
                    break
                except RetryableError:  # not elected; or no room for what it has missed
                    tried = self._core.proposal
                await self._environment.clock.sleep(PAUSE_SECONDS * self._environment.random.uniform(1, 2))
                if self._is_outbid(former, tried):
                    break
        except VirtualLogError as error:  # of the local store: who owns it has been told
            self.stop(error)
        finally:
            self._is_campaigning = False
            self._flush_early()

    def _is_outbid(self, former: NodeId, tried: int) -> bool:
        """Whether the local replica has heard of somebody else since we stood; not of whoever did not answer our client."""
        replica = self._replica.core
        is_other = replica.coordinator not in (NOBODY, self._core.node)
        return is_other and (replica.coordinator != former or replica.promised >= tried)

    def _leader(self) -> NodeId:
        """Who may lead, as far as is known here; nobody, or this node: it may stand."""
        told = self._replica.core.coordinator
        return self._core.rival if told == self._core.node else told

    # -- requests to a loglet -------------------------------------------------------------------------------------

    def request(self, request: Append | Seal | Truncate | Settle, done: Done) -> None:
        """A handler: see messages.py. Returns at once."""
        core = self._core
        if core.stopped is not None:
            done(core.stopped)
            return
        if self._replica.core.seal != NOWHERE and core.state is not State.CLOSED:
            self._guard(lambda: core.close(self._replica.core.seal))
        if core.state in (State.LEADING, State.CLOSED):
            self._serve(request, done)
        elif self._replica.core.status is not Status.VOTING or (
            not self._is_campaigning and not request.insist and self._leader() not in (NOBODY, core.node)
        ):
            self._send_elsewhere(done, "the replica on this node does not vote yet")
        elif len(self._early) >= EARLY_MAX:
            done(OverloadedError("no coordinator leads yet"))
        else:
            self._early.append((request, done))
            self._start_campaign()

    def _send_elsewhere(self, done: Done, reason: str) -> None:
        leader = self._leader()
        if leader in (NOBODY, self._core.node):
            done(UnavailableError(reason))
        else:
            done(Taken(place=NOWHERE, coordinator=leader))

    def _start_campaign(self) -> None:
        if not self._is_campaigning:
            self._is_campaigning = True
            self._environment.nursery.start_soon(self._campaign)

    def _flush_early(self) -> None:
        early, self._early = self._early, deque()
        for request, done in early:
            if self._core.stopped is not None:
                done(self._core.stopped)
            elif self._core.state in (State.LEADING, State.CLOSED):
                self._serve(request, done)
            else:
                self._send_elsewhere(done, "no coordinator could be elected")

    def _serve(self, request: Append | Seal | Truncate | Settle, done: Done) -> None:
        core = self._core
        match request:
            case Append():
                self._append(request, done)
            case Seal():
                self._guard(lambda: core.seal_log(self._taken(done, offset_of)))
            case Settle():
                self._guard(lambda: core.settle(request.past, self._taken(done)))
            case Truncate():
                self._environment.nursery.start_soon(self._truncate, request, done)

    def _append(self, request: Append, done: Done) -> None:
        try:
            batch = Batch.parse_untrusted(request.batch)
        except VirtualLogError as error:  # damaged on its way: nothing here is corrupt
            done(MalformedError(f"the batch cannot be read: {error}"))
            return
        # Sessions are forgotten by a clock that does not jump; values carry the time of day.
        now, opens, expected = self._now_ms(), request.opens, request.expected_tail
        ticket = self._taken(done)
        self._guard(lambda: self._core.offer(batch, ticket, now, opens=opens, expected_tail=expected))
        if self._core.may_hurry:
            self._turn()

    def _taken(self, done: Done, place: Callable[[int], int] = int) -> Done:
        """Turns what the core says into an answer."""

        def resolve(outcome: int | VirtualLogError) -> None:
            if isinstance(outcome, VirtualLogError):
                done(outcome)
            else:
                done(Taken(place=place(outcome), coordinator=self._core.node))

        return resolve

    async def _truncate(self, request: Truncate, done: Done) -> None:
        try:
            digest = await self._replica.digest()
        except VirtualLogError as error:
            done(error)
            return
        # What is dropped must be in the digest, and decided: not what waits, nor what the local replica has not learned.
        former = self._replica.core.trim
        trim = max(min(request.offset, offset_of(digest.stop)), former)
        to = min(position_of(trim), digest.stop)
        if self._core.state not in (State.LEADING, State.CLOSED):
            done(UnavailableError("this coordinator leads no longer"))
            return
        if (
            trim == former and self._core.state is State.LEADING
        ):  # decided by an earlier TRUNCATE: who trims again costs nothing
            done(Taken(place=former, coordinator=self._core.node))
            return
        ticket = self._taken(done, lambda _: trim)
        self._guard(lambda: self._core.truncate(to, trim, digest.encode(to), ticket))

    # -- a log used by itself -------------------------------------------------------------------------------------

    def append(self, payload: bytes, done: Callable[[int | VirtualLogError], None]) -> None:
        """Bytes of a user, without session. `done` is told the position once it is decided, in the order of positions;
        UnavailableError: maybe, and this coordinator leads no longer."""
        if not self._can_write(done):
            return
        self._guard(lambda: self._core.append(payload, done))
        self._turn()

    async def truncate(self, to: int) -> int:
        """Decide that everything below position `to` may be dropped; returns the position of the TRUNCATE. Cancelling the wait
        does not undo it.

        Raises:
            UnavailableError: maybe; or this coordinator does not lead.
            SealedError: the log is closed.
        """
        outcomes: list[int | VirtualLogError] = []
        settled = trio.Event()

        def done(outcome: int | VirtualLogError) -> None:
            outcomes.append(outcome)
            settled.set()

        if self._can_write(done):
            self._guard(lambda: self._core.truncate(to, offset_of(to), b"", done))
            self._turn()
        await settled.wait()
        if isinstance(outcomes[0], VirtualLogError):
            raise outcomes[0]
        return outcomes[0]

    def _can_write(self, done: Callable[[int | VirtualLogError], None]) -> bool:
        if self._core.stopped is None and self._core.state in (State.LEADING, State.CLOSED):
            return True
        done(self._core.stopped or UnavailableError("this coordinator does not lead"))
        return False

    # -- the core -------------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        if self._core.has_work:
            self._core.ensemble = self._replica.ensemble()
            self._sent_at = self._environment.clock.monotonic()
            self._guard(lambda: self._core.turn(self._now_ms(), self._time_ms()))

    async def _run_turns(self) -> None:
        while self._core.stopped is None:
            await self._offered.wait()
            self._offered = trio.Event()
            self._turn()

    async def _run_ticks(self) -> None:
        while self._core.stopped is None:
            await self._ticking.wait()
            await self._environment.clock.sleep(TICK_SECONDS)
            self._ticking = trio.Event()
            self._guard(lambda: self._core.tick(self._now_ms()))

    def _now_ms(self) -> int:
        return int(self._environment.clock.monotonic() * 1000)

    def _time_ms(self) -> int:
        return max(0, int(self._environment.clock.wall() * 1000))

    def _guard(self, step: Callable[[], list[Effect]]) -> None:
        """A broken invariant ends this role; it must not end the connection that happened to call."""
        if self._abandoned:
            return
        try:
            self._perform(step())
        except AssertionError as error:
            self._environment.fail(error)

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Resolve(done, outcome):
                    done(outcome)
                case Send(nodes, request, number):
                    for node in nodes:
                        self._send(node, request, number)
                case LearnHere(decided, size):
                    _DECIDED.reached()
                    self._replica.meter.committed(size, self._environment.clock.monotonic() - self._sent_at)
                    self._replica.post(Learn(segment=self._core.segment, decided=decided), _ignore)
                    _TOLD.reached()
                case Announce(nodes, learn):
                    for node in nodes:
                        self._environment.services.post(node, learn, _ignore, WRITE_SECONDS)
                case CatchUp():
                    self._to_catch_up = effect
        core = self._core
        if core.state is not State.ELECTING:
            self._stirred.set()
        if core.has_work or core.stopped is not None:
            self._offered.set()
        if core.needs_ticks or core.stopped is not None:
            self._ticking.set()

    def _send(self, node: NodeId, request: Promise | Write | GetStanding, number: int) -> None:
        if self._unanswered.get(node, 0) >= UNANSWERED_MAX:
            self._guard(lambda: self._core.unanswered(node, number))
            return
        self._unanswered[node] = self._unanswered.get(node, 0) + 1
        take = self._takers[type(request)]
        self._environment.services.post(node, request, partial(self._answered, take, node, number), WRITE_SECONDS)
        if isinstance(request, Write):
            _WRITING.reached()

    def _answered(self, take: _Take, node: NodeId, number: int, outcome: Any) -> None:
        self._unanswered[node] -= 1
        before, refusals = self._core.state, self._core.refusals
        if isinstance(outcome, VirtualLogError):
            self._guard(lambda: self._core.unanswered(node, number))
        else:
            self._guard(lambda: take(node, number, outcome))
        if self._core.refusals > refusals:
            self._replica.meter.rejected(Phase.WRITE if before is State.LEADING else Phase.PROMISE)
        if before is State.LEADING and self._core.state is State.INITIAL:
            log.info("leads no longer", segment=str(self._core.segment), rival=self._core.rival)


def _ignore(outcome: object) -> None:
    """Whoever has not learned it catches up."""
