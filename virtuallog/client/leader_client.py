"""Client of the leader: finds it with a `LeaderSearch` over the network and retries until it has done the request.

Every request may be repeated: any leader recognises a batch, and seal, truncation and settling are idempotent. So an
unknown outcome is followed by another attempt while the caller has time. Then the last answer is not the whole truth: an
earlier attempt may have done what the last one says was not done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Generic, Protocol, TypeVar

import attrs

from virtuallog.client.leader_search import LeaderCache, LeaderSearch, LeaderTarget
from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import (
    CorruptionError,
    DiskFullError,
    ForbiddenError,
    OverloadedError,
    SealedError,
    StorageError,
    TailMismatchError,
    UnavailableError,
    UnsupportedError,
    UntrustedError,
    VirtualLogError,
    WrongRecipientError,
)
from virtuallog.contract.ports import Environment, Request
from virtuallog.contract.types import NodeId

NOWHERE: Final = -1
"""`LeaderAnswer.place` of a node that does not lead and has done nothing."""
ASK_SECONDS: Final = 1.0
"""Timeout of a request to the presumed leader. It answers within a few syncs, or is about to be replaced."""
INSIST_SECONDS: Final = 3.0
"""Timeout of a request that insists: time for an election and the catch-up with it."""
PAUSE_SECONDS: Final = 0.05
"""T of the pause of T to 2T between attempts, once all nodes have been asked: clients that insist
do not act in step."""

OFFERS_MAX: Final = 1024
"""Cap on remembered conditional batches without an answer: many more than one client has in flight."""
OVERLOADED_SECONDS: Final = ASK_SECONDS
"""Time for which an overloaded node is asked again, before it counts as one that does not answer. A busy leader must not
be turned out."""

_UNANSWERED: Final = (
    UnavailableError,
    UntrustedError,
    CorruptionError,
    StorageError,
    WrongRecipientError,
    UnsupportedError,
)
"""Errors of one node that another node need not have."""


class LeaderAnswer(Protocol):
    """Answer of a leader, or of a node that names one."""

    @property
    def place(self) -> int:
        """Offset or position that the request asked for; NOWHERE if this node does not lead."""
        ...

    @property
    def leader(self) -> NodeId:
        """Node that may lead, as far as this node knows."""
        ...


AnswerT = TypeVar("AnswerT", bound=LeaderAnswer)


@attrs.define(eq=False)
class LeaderClient(Generic[AnswerT]):
    """Requests of one client to the leader of one log."""

    segment: SegmentId
    environment: Environment
    leadership: LeaderCache
    _offered: dict[tuple[SessionId, int], set[NodeId]] = attrs.field(factory=dict, init=False)
    """Nodes that were sent each conditional batch without an answer, oldest batch first."""

    @contextmanager
    def tracking(self, batch: Batch) -> Iterator[set[NodeId]]:
        """Nodes that are sent a conditional batch, from its first call to the one that gets an answer; for `ask`.

        A refusal must hold for all of them.
        """
        name = batch.session, batch.first_sequence
        if name not in self._offered and len(self._offered) >= OFFERS_MAX:
            del self._offered[next(iter(self._offered))]
        asked = self._offered.setdefault(name, set())
        try:
            yield asked
        except TailMismatchError:
            self._offered.pop(name, None)
            raise
        self._offered.pop(name, None)

    async def ask(
        self,
        request: Callable[[bool], Request[AnswerT]],
        what: str,
        timeout_seconds: float,
        asked: set[NodeId] | None = None,
        *,
        appends: bool = False,
        insists: bool = True,
    ) -> AnswerT:
        """Have the leader do a request and return its answer. If cancelled, the request may still be done.

        Args:
            request: makes the request; its argument is True if the request insists.
            what: name of the request in error messages.
            timeout_seconds: timeout of all attempts together.
            asked: nodes that were sent the same request in earlier calls; nodes asked now are added.
            appends: True for an append: its caller backs off from an overloaded leader by itself.
            insists: False for a request that makes no node stand for election.

        Raises:
            UnavailableError: not done in time; the outcome is unknown.
            OverloadedError, DiskFullError: an append only; this attempt did nothing.
            VirtualLogError: any other error of the leader.
        """
        deadline = self.environment.clock.monotonic() + timeout_seconds
        call = _LeaderCall(self, request, what, deadline, set() if asked is None else asked, appends, insists)
        return await call.run()

    def post(
        self,
        request: Callable[[bool], Request[AnswerT]],
        what: str,
        timeout_seconds: float,
        done: Callable[[AnswerT | VirtualLogError], None],
        *,
        insists: bool = True,
    ) -> None:
        """Do the same without waiting; costs no task unless the first node that is asked does not do it.

        Args:
            request: as for `ask`, and so are `what`, `timeout_seconds` and `insists`.
            done: called once, later, with the answer or with the error that `ask` would raise.
        """
        deadline = self.environment.clock.monotonic() + timeout_seconds
        _LeaderCall(self, request, what, deadline, set(), True, insists).start(done)


@attrs.define(eq=False)
class _LeaderCall(Generic[AnswerT]):
    """One call of `LeaderClient.ask` or `LeaderClient.post`."""

    _client: LeaderClient[AnswerT]
    _request: Callable[[bool], Request[AnswerT]]
    _what: str
    _deadline: float
    _asked: set[NodeId]
    _is_append: bool
    _insists: bool
    _search: LeaderSearch = attrs.field(init=False)
    _doubt: VirtualLogError | None = attrs.field(default=None, init=False)
    """Error that left the outcome of an earlier attempt unknown; None if there is none."""
    _attempts: int = attrs.field(default=0, init=False)
    _overloaded: tuple[NodeId, float] | None = attrs.field(default=None, init=False)
    """The overloaded node and the time since when; None if there is none."""

    def __attrs_post_init__(self) -> None:
        self._search = self._client.leadership.search(insists=self._insists)

    async def run(self) -> AnswerT:
        target = self._search.begin()
        return await self._go_on(target, await self._attempt(target))

    def start(self, done: Callable[[AnswerT | VirtualLogError], None]) -> None:
        """Ask the first node without waiting; a task asks the others, if need be."""
        environment, target = self._client.environment, self._search.begin()

        def answered(outcome: AnswerT | VirtualLogError) -> None:
            if not isinstance(outcome, VirtualLogError) and outcome.place != NOWHERE:
                self._search.taken(target.node)
                done(outcome)
            else:
                environment.nursery.start_soon(self._finish, target, outcome, done)

        environment.services.post(target.node, self._request_to(target), answered, ASK_SECONDS)

    async def _finish(
        self,
        target: LeaderTarget,
        outcome: AnswerT | VirtualLogError,
        done: Callable[[AnswerT | VirtualLogError], None],
    ) -> None:
        """Bring to an end what `start` has begun. If cancelled, the client ends, and `done` is not called."""
        try:
            outcome = await self._go_on(target, outcome)
        except VirtualLogError as error:
            outcome = error
        done(outcome)

    async def _go_on(self, target: LeaderTarget, outcome: AnswerT | VirtualLogError) -> AnswerT:
        """Ask one node after the other, from the outcome at `target` on, until one has done the request."""
        while True:
            judged = self._judge(target, outcome)
            if not isinstance(judged, LeaderTarget):
                return judged
            target = judged
            await self._pause()
            outcome = await self._attempt(target)

    async def _attempt(self, target: LeaderTarget) -> AnswerT | VirtualLogError:
        """Ask one node; returns its answer or error."""
        environment, seconds = self._client.environment, INSIST_SECONDS if target.insist else ASK_SECONDS
        left = self._deadline - environment.clock.monotonic()
        if left <= 0:
            raise self._unavailable()
        try:
            return await environment.services.call(target.node, self._request_to(target), min(seconds, left))
        except VirtualLogError as error:
            return error

    def _request_to(self, target: LeaderTarget) -> Request[AnswerT]:
        """The request to send to a node, which counts as asked."""
        self._asked.add(target.node)
        return self._request(target.insist)

    def _judge(self, target: LeaderTarget, outcome: AnswerT | VirtualLogError) -> AnswerT | LeaderTarget:
        """The answer if the request is done, or else the next node to ask.

        Raises:
            VirtualLogError: no other node need be asked.
        """
        now = self._client.environment.clock.monotonic()
        match outcome:
            case OverloadedError() | DiskFullError():  # surely not done
                if self._is_append:  # its caller backs off
                    raise outcome
                self._doubt = outcome
                return self._has_no_room(target)
            case VirtualLogError() if isinstance(outcome, _UNANSWERED):
                self._doubt, self._overloaded = outcome, None
                return self._search.failed(target.node, now)
            case VirtualLogError():
                raise self._in_doubt(target.node, outcome) from outcome
            case _ if outcome.place == NOWHERE:
                self._overloaded = None
                return self._search.elsewhere(target.node, outcome.leader, now)
            case _:
                self._overloaded = None
                self._search.taken(target.node)
                return outcome

    def _has_no_room(self, target: LeaderTarget) -> LeaderTarget:
        """Next node to ask after an overloaded one: the same, for a while."""
        now = self._client.environment.clock.monotonic()
        if self._overloaded is None or self._overloaded[0] != target.node:
            self._overloaded = target.node, now
        if now - self._overloaded[1] < OVERLOADED_SECONDS:
            return target
        self._overloaded = None
        return self._search.failed(target.node, now)

    def _in_doubt(self, node: NodeId, error: VirtualLogError) -> VirtualLogError:
        """The error to raise for an error of `node`.

        After an unknown outcome it must not say that nothing was done.
        """
        if isinstance(error, TailMismatchError) and error.found < error.expected and self._asked != {node}:
            # A node remembers its own refusals only. A copy of the request may wait for an election at another node, or
            # still be on its way, and the tail may come to fit. A tail that has passed the condition stays past it.
            return UnavailableError(f"{self._what} of loglet {self._client.segment}: unknown, then {error}")
        if isinstance(error, ForbiddenError) and self._doubt is not None:
            # A node that did not answer may not have known yet that clients may no longer do it.
            return UnavailableError(f"{self._what} of loglet {self._client.segment}: unknown, then {error}")
        if isinstance(error, SealedError) and self._doubt is not None:
            return SealedError(error.reason)
        return error

    def _unavailable(self) -> UnavailableError:
        because = f": {self._doubt}" if self._doubt is not None else ""
        return UnavailableError(f"{self._what} of loglet {self._client.segment}: no replica leads{because}")

    async def _pause(self) -> None:
        """Pause before the next attempt, if the node is overloaded or all nodes have been asked.

        The usual path, from a dead node over its neighbour to a new leader, has no pause.
        """
        self._attempts += 1
        if self._overloaded is not None or self._attempts > max(2, len(self._client.leadership.replicas)):
            environment = self._client.environment
            await environment.clock.sleep(PAUSE_SECONDS * (1 + environment.random.random()))
