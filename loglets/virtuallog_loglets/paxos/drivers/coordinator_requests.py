"""Requests of loglet clients to the coordinator on one node: served, queued for an election, or sent elsewhere.

A request that finds no leader here waits while this coordinator stands for election. It stands if no other leader is
known, or if the client insists because the named leader does not answer. There are no heartbeats: the promise that a
replica gave tells who leads.

A failed election is repeated after a pause of T to 2T, unless the local replica has heard of another leader meanwhile.
So of several nodes that stand at once, one goes on and the others send their clients there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

import attrs

from virtuallog.client.leader_client import INSIST_SECONDS
from virtuallog.contract.batch import Batch
from virtuallog.contract.errors import (
    MalformedError,
    OverloadedError,
    RetryableError,
    SealedError,
    UnavailableError,
    VirtualLogError,
)
from virtuallog.contract.ports import Done, NodeEnvironment
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.core.coordinator import Coordinator, CoordinatorState
from virtuallog_loglets.paxos.drivers.coordinator_driver import CoordinatorDriver
from virtuallog_loglets.paxos.drivers.local_replica import LocalReplica
from virtuallog_loglets.paxos.messages import (
    NO_NODE,
    NOWHERE,
    CoordinatorReply,
    PaxosAppend,
    PaxosSeal,
    PaxosSettle,
    PaxosTruncate,
    Status,
)
from virtuallog_loglets.paxos.offsets import offset_of, position_of

PAUSE_SECONDS: Final = 0.1
"""T of the pause of T to 2T between two elections."""
ELECTIONS_MAX: Final = 4
"""Cap on elections for the requests that wait; their clients give up after some seconds."""
EARLY_MAX: Final = 1024
"""Cap on requests that wait for an election: more than many clients have in flight."""
EARLY_SECONDS: Final = INSIST_SECONDS
"""Time a request waits for an election. After that its client has asked another node, and an answer
would be in vain."""

_Request: TypeAlias = PaxosAppend | PaxosSeal | PaxosTruncate | PaxosSettle


@attrs.define(eq=False)
class CoordinatorRequests:
    """Requests to the coordinator of one log on one node."""

    _replica: LocalReplica
    _environment: NodeEnvironment
    driver: CoordinatorDriver = attrs.field(
        default=attrs.Factory(lambda self: CoordinatorDriver(self._replica, self._environment), takes_self=True)
    )
    _core: Coordinator = attrs.field(init=False)
    _early: deque[tuple[_Request, Done, float]] = attrs.field(factory=deque, init=False)
    """Requests that wait for an election, with their deadlines."""
    _is_campaigning: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._core = self.driver.core

    def stop(self, error: VirtualLogError) -> None:
        """Stop for good. The outcome of pending requests is unknown."""
        self.driver.stop(error)
        self._flush_early()

    def request(self, request: _Request, done: Done) -> None:
        """Handle a request: serve it, queue it or send it elsewhere.

        Returns at once; `done` gets the answer.
        """
        core = self._core
        if core.stopped is not None:
            done(core.stopped)
            return
        if self._replica.core.seal != NOWHERE and core.state is not CoordinatorState.CLOSED:
            self.driver.step(lambda: core.close(self._replica.core.seal))
        if core.state in (CoordinatorState.LEADING, CoordinatorState.CLOSED):
            self._serve(request, done)
        elif self._replica.core.status is not Status.VOTING or (
            not self._is_campaigning and not request.insist and self._leader() not in (NO_NODE, core.node)
        ):
            self._send_elsewhere(done, "the replica on this node does not vote yet")
        elif len(self._early) >= EARLY_MAX:
            done(OverloadedError("no coordinator leads yet"))
        else:
            self._early.append((request, done, self._environment.clock.monotonic() + EARLY_SECONDS))
            self._start_campaign()

    def _send_elsewhere(self, done: Done, reason: str) -> None:
        leader = self._leader()
        if leader in (NO_NODE, self._core.node):
            done(UnavailableError(reason))
        else:
            done(CoordinatorReply(place=NOWHERE, coordinator=leader))

    def _start_campaign(self) -> None:
        if not self._is_campaigning:
            self._is_campaigning = True
            self._environment.nursery.start_soon(self._campaign)

    def _flush_early(self) -> None:
        early, self._early = self._early, deque()
        now = self._environment.clock.monotonic()
        for request, done, end in early:
            if self._core.stopped is not None:
                done(self._core.stopped)
            elif now > end:
                done(UnavailableError("the election took too long"))
            elif self._core.state in (CoordinatorState.LEADING, CoordinatorState.CLOSED):
                self._serve(request, done)
            else:
                self._send_elsewhere(done, "no coordinator could be elected")

    def _serve(self, request: _Request, done: Done) -> None:
        core = self._core
        match request:
            case PaxosAppend():
                self._append(request, done)
            case PaxosSeal():
                self.driver.step(lambda: core.seal_log(self._taken(done, offset_of)))
            case PaxosSettle():
                self.driver.step(lambda: core.settle(request.past, self._taken(done)))
            case PaxosTruncate():
                self._environment.nursery.start_soon(self._truncate, request, done)

    def _append(self, request: PaxosAppend, done: Done) -> None:
        try:
            batch = Batch.parse_untrusted(request.batch)
        except VirtualLogError as error:  # damaged on its way: nothing here is corrupt
            done(MalformedError(f"the batch cannot be read: {error}"))
            return
        # Sessions are forgotten by a clock that does not jump; values carry the time of day.
        now, opens, expected = self.driver.now_ms(), request.opens, request.expected_tail
        ticket = self._taken(done)
        self.driver.step(lambda: self._core.offer(batch, ticket, now, opens=opens, expected_tail=expected))

    def _taken(self, done: Done, place: Callable[[int], int] = int) -> Done:
        """Adapter that turns an outcome of the core into an answer; `place` maps a position or offset."""

        def resolve(outcome: int | VirtualLogError) -> None:
            if isinstance(outcome, VirtualLogError):
                done(outcome)
            else:
                done(CoordinatorReply(place=place(outcome), coordinator=self._core.node))

        return resolve

    async def _truncate(self, request: PaxosTruncate, done: Done) -> None:
        try:
            digest = await self._replica.digest()
        except VirtualLogError as error:
            done(error)
            return
        # What is dropped must be in the digest, and decided: not what waits, nor what the local replica has not learned.
        former = self._replica.core.trim
        trim = max(min(request.offset, offset_of(digest.stop)), former)
        to = min(position_of(trim), digest.stop)
        if self._core.state not in (CoordinatorState.LEADING, CoordinatorState.CLOSED):
            done(UnavailableError("this coordinator leads no longer"))
            return
        if trim == former and self._core.state is CoordinatorState.LEADING:
            # Decided by an earlier TRUNCATE, so a repeated trim writes nothing.
            done(CoordinatorReply(place=former, coordinator=self._core.node))
            return
        ticket = self._taken(done, lambda _: trim)
        self.driver.step(lambda: self._core.truncate(to, trim, digest.encode_below(to), ticket))

    # -- election -------------------------------------------------------------------------------------------------

    async def _campaign(self) -> None:
        """Stand until this or another node leads, at most ELECTIONS_MAX times; then answer the waiting requests."""
        try:
            for _ in range(ELECTIONS_MAX):
                former = self._replica.core.coordinator
                try:
                    await self.driver.stand()
                    break
                except SealedError:
                    break
                except RetryableError:  # not elected; or no room for what it has missed
                    tried = self._core.proposal
                await self._environment.clock.sleep(PAUSE_SECONDS * self._environment.random.uniform(1, 2))
                if self._is_outbid(former, tried):
                    break
        except VirtualLogError as error:  # of the local store, which has reported it to its owner
            self.stop(error)
        finally:
            self._is_campaigning = False
            self._flush_early()

    def _is_outbid(self, former: NodeId, tried: int) -> bool:
        """True if the local replica has heard of another leader since the election began.

        The leader that did not answer the client, `former`, does not count unless it was elected anew.
        """
        replica = self._replica.core
        is_other = replica.coordinator not in (NO_NODE, self._core.node)
        return is_other and (replica.coordinator != former or replica.promised >= tried)

    def _leader(self) -> NodeId:
        """Node that may lead, as far as is known here. NO_NODE or this node means that this node may stand."""
        told = self._replica.core.coordinator
        return self._core.known_leader if told == self._core.node else told
