"""Has done what only a leader does, wherever it is: runs one `LeaderSearch` over the network.

Every request that goes this way may be made again: a batch is recognised by whoever leads, a seal, a truncation and a
settling add up. So an unknown outcome is followed by another attempt, for as long as the caller has time. What an attempt
says of itself is not the whole story then: an earlier one may have done what the last one says was not done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

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
from virtuallog.contract.ports import Environment
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.core.leader_search import LeaderCache, LeaderSearch, LeaderTarget
from virtuallog_loglets.paxos.messages import (
    NOWHERE,
    CoordinatorReply,
    PaxosAppend,
    PaxosSeal,
    PaxosSettle,
    PaxosTruncate,
)

ASK_SECONDS: Final = 1.0
"""For one who is said to lead. It answers within a few syncs, or it is about to be replaced."""
INSIST_SECONDS: Final = 3.0
"""For an election, and for catching up before it."""
PAUSE_SECONDS: Final = 0.05
"""Between attempts, once everybody has been asked; T to 2T, so that clients that insist do not do it in step."""

OVERLOADED_SECONDS: Final = ASK_SECONDS
"""For so long a node that has no room is asked again, before it counts as one that does not answer. It must not be turned out of the
lead because it is busy."""

_UNANSWERED: Final = (
    UnavailableError,
    UntrustedError,
    CorruptionError,
    StorageError,
    WrongRecipientError,
    UnsupportedError,
)
"""The node cannot do it, for whatever reason of its own; another one can."""
_NO_ROOM: Final = (OverloadedError, DiskFullError)
"""Nothing was done, there or on the way there. The caller of an append is told, and backs off; all else is asked again."""


@attrs.define(eq=False)
class LeaderClient:
    """Of one log, shared by all that one client asks."""

    segment: SegmentId
    environment: Environment
    leadership: LeaderCache

    async def ask(
        self,
        request: Callable[[bool], PaxosAppend | PaxosSeal | PaxosTruncate | PaxosSettle],
        what: str,
        timeout_seconds: float,
        asked: set[NodeId] | None = None,
    ) -> CoordinatorReply:
        """The answer of whoever leads. Cancelled, it may still be done.

        Args:
            request: makes the request; told whether to insist.
            what: for people.
            asked: who has been sent the same request in earlier calls; whoever is now is added.

        Raises:
            UnavailableError: not done in time. Unknown outcome.
            OverloadedError, DiskFullError: of an append only; this attempt did nothing.
            VirtualLogError: what else the leader raised.
        """
        deadline = self.environment.clock.monotonic() + timeout_seconds
        call = _LeaderCall(self, request, what, deadline, set() if asked is None else asked)
        return await call.run()


@attrs.define(eq=False)
class _LeaderCall:
    """One request."""

    _client: LeaderClient
    _request: Callable[[bool], PaxosAppend | PaxosSeal | PaxosTruncate | PaxosSettle]
    _what: str
    _deadline: float
    _asked: set[NodeId]
    _search: LeaderSearch = attrs.field(init=False)
    _doubt: VirtualLogError | None = attrs.field(default=None, init=False)
    """Why it is not known what became of an earlier attempt."""
    _attempts: int = attrs.field(default=0, init=False)
    _overloaded: tuple[NodeId, float] | None = attrs.field(default=None, init=False)
    """Who has no room, and since when."""

    def __attrs_post_init__(self) -> None:
        self._search = self._client.leadership.search()

    async def run(self) -> CoordinatorReply:
        target = self._search.begin()
        while True:
            outcome = await self._attempt(target)
            if isinstance(outcome, CoordinatorReply):
                return outcome
            target = outcome
            await self._pause()

    async def _attempt(self, target: LeaderTarget) -> CoordinatorReply | LeaderTarget:
        """What the node did, or whom to ask next."""
        clock, seconds = self._client.environment.clock, INSIST_SECONDS if target.insist else ASK_SECONDS
        left = self._deadline - clock.monotonic()
        if left <= 0:
            raise self._unavailable()
        self._asked.add(target.node)
        request = self._request(target.insist)
        try:
            taken = await self._client.environment.services.call(target.node, request, min(seconds, left))
        except _NO_ROOM as error:
            if isinstance(request, PaxosAppend):
                raise
            self._doubt = error
            return self._has_no_room(target)
        except _UNANSWERED as error:
            self._doubt, self._overloaded = error, None
            return self._search.failed(target.node, clock.monotonic())
        except VirtualLogError as error:
            raise self._in_doubt(target.node, error) from error
        self._overloaded = None
        if taken.place == NOWHERE:
            return self._search.elsewhere(target.node, taken.coordinator, clock.monotonic())
        self._search.taken(target.node)
        return taken

    def _has_no_room(self, target: LeaderTarget) -> LeaderTarget:
        """Whom to ask next."""
        now = self._client.environment.clock.monotonic()
        if self._overloaded is None or self._overloaded[0] != target.node:
            self._overloaded = target.node, now
        if now - self._overloaded[1] < OVERLOADED_SECONDS:
            return target
        self._overloaded = None
        return self._search.failed(target.node, now)

    def _in_doubt(self, node: NodeId, error: VirtualLogError) -> VirtualLogError:
        """What `node` may say when an earlier attempt has an unknown outcome: not that nothing was done."""
        if isinstance(error, TailMismatchError) and error.found < error.expected and self._asked != {node}:
            # It remembers what it has refused, for itself. A copy that another one has may wait for an election there, or still
            # be on its way, and the tail may come to fit. One that has passed stays past, whoever leads.
            return UnavailableError(f"{self._what} of loglet {self._client.segment}: unknown, then {error}")
        if isinstance(error, ForbiddenError) and self._doubt is not None:
            # Who did not answer may not have known yet that clients may no longer do it.
            return UnavailableError(f"{self._what} of loglet {self._client.segment}: unknown, then {error}")
        if isinstance(error, SealedError) and self._doubt is not None:
            return SealedError(error.reason)
        return error

    def _unavailable(self) -> UnavailableError:
        because = f": {self._doubt}" if self._doubt is not None else ""
        return UnavailableError(f"{self._what} of loglet {self._client.segment}: nobody leads{because}")

    async def _pause(self) -> None:
        """The usual way, from one that is gone over its neighbour to a new leader, is gone without a pause. A node that has no room is
        left alone for a moment."""
        self._attempts += 1
        if self._overloaded is not None or self._attempts > max(2, len(self._client.leadership.replicas)):
            environment = self._client.environment
            await environment.clock.sleep(PAUSE_SECONDS * (1 + environment.random.random()))
