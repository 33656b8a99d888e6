"""Requests to many servers whose answers reach one task in order of arrival, without a task per request."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs
import trio

from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import ForbiddenError, SealedError, UnavailableError, VirtualLogError
from virtuallog.contract.placement import majority_of
from virtuallog.contract.ports import Environment, Request
from virtuallog.contract.types import LogletOffset, NodeId

PAUSE_SECONDS: Final = 0.05
"""Pause between a failed request and the next attempt: finds a restarted server soon, and does not flood it."""
TRIM_SECONDS: Final = 10.0
"""Time limit for a trim to reach a majority of replicas, in seconds: some elections."""


@attrs.frozen(eq=False)
class _Inquiry:
    server: NodeId
    request: Request[Any]
    tag: Any
    timeout_seconds: float
    wanted: Callable[[], bool]
    """True if a failed request is to be sent again."""


@attrs.frozen
class QuorumAnswer:
    """The answer to one request; `outcome` is an error only if the request was not to be sent again."""

    server: NodeId
    tag: Any
    outcome: Any


@attrs.define(eq=False)
class QuorumCall:
    """Requests of one operation of one task. If that is cancelled, later answers are dropped."""

    _environment: Environment
    _answers: deque[QuorumAnswer] = attrs.field(factory=deque, init=False)
    _repeats: deque[tuple[float, _Inquiry]] = attrs.field(factory=deque, init=False)
    """Requests to send again, each with its time, earliest first."""
    _arrived: trio.Event = attrs.field(factory=trio.Event, init=False)
    _last_error: VirtualLogError | None = attrs.field(default=None, init=False)

    def ask(
        self,
        server: NodeId,
        request: Request[Any],
        tag: Any,
        timeout_seconds: float,
        wanted: Callable[[], bool] = lambda: False,
        *,
        pause: bool = False,
    ) -> None:
        """Send a request; returns at once.

        Args:
            server: the node to ask.
            request: the request.
            tag: comes back with the answer.
            timeout_seconds: of each attempt.
            wanted: while it returns True, a failed request is sent again after a pause, else its
                error is the answer.
            pause: send after `PAUSE_SECONDS`.
        """
        inquiry = _Inquiry(server, request, tag, timeout_seconds, wanted)
        if pause:
            self._post_later(inquiry)
        else:
            self._post(inquiry)

    async def receive(self, timeout_seconds: float) -> QuorumAnswer | None:
        """The next answer; None if none has come in that time.

        Raises:
            SealedError: a server answered that the loglet was dropped.
            ForbiddenError: this client may not send the request.
        """
        clock = self._environment.clock
        deadline = clock.monotonic() + timeout_seconds
        while not self._answers:
            now = clock.monotonic()
            if now >= deadline:
                return None
            until = min(deadline, self._repeats[0][0]) if self._repeats else deadline
            with clock.timeout(max(until - now, 0.0)):  # a repeat may be overdue
                await self._arrived.wait()
            self._arrived = trio.Event()
            self._repeat_due()
        answer = self._answers.popleft()
        if isinstance(answer.outcome, SealedError | ForbiddenError):
            raise answer.outcome
        return answer

    def unavailable(self, what: str) -> UnavailableError:
        """An error that names what could not be done, and the last error of a server."""
        because = f": {self._last_error}" if self._last_error is not None else ""
        return UnavailableError(f"{what}: not enough servers answered{because}")

    def _post(self, inquiry: _Inquiry) -> None:
        self._environment.services.post(
            inquiry.server, inquiry.request, lambda outcome: self._arrive(inquiry, outcome), inquiry.timeout_seconds
        )

    def _post_later(self, inquiry: _Inquiry) -> None:
        self._repeats.append((self._environment.clock.monotonic() + PAUSE_SECONDS, inquiry))
        self._arrived.set()

    def _arrive(self, inquiry: _Inquiry, outcome: Any) -> None:
        if isinstance(outcome, VirtualLogError):
            self._last_error = outcome
            if inquiry.wanted() and not isinstance(outcome, SealedError | ForbiddenError):
                self._post_later(inquiry)
                return
        self._answers.append(QuorumAnswer(inquiry.server, inquiry.tag, outcome))
        self._arrived.set()

    def _repeat_due(self) -> None:
        now = self._environment.clock.monotonic()
        while self._repeats and self._repeats[0][0] <= now:
            _, inquiry = self._repeats.popleft()
            if inquiry.wanted():
                self._post(inquiry)


async def trim_majority(
    environment: Environment, replicas: Sequence[NodeId], request: Callable[[int], Any], trim_point: int, left: CrashPoint,
    ask_seconds: float,
) -> LogletOffset:  # fmt: skip
    """Raise the trim points of a majority of replicas to one and the same, and return it.

    Args:
        environment: that of the client.
        replicas: all replicas of the loglet.
        request: makes the request for a trim point, with `segment`; the answer has the replica's own as `trim`.
        trim_point: not past the tail.
        left: reached whenever a request has left.
        ask_seconds: timeout of one request.

    Raises:
        UnavailableError: no majority answered in time.
        SealedError, ForbiddenError: see `QuorumCall.receive`.
    """
    while True:
        call, points = QuorumCall(environment), dict[NodeId, int]()
        asked = request(trim_point)
        deadline = environment.clock.monotonic() + TRIM_SECONDS
        for replica in replicas:
            call.ask(replica, asked, None, ask_seconds, lambda: True)
            left.reached()
        while len(points) < majority_of(len(replicas)):
            answer = await call.receive(deadline - environment.clock.monotonic())
            if answer is None:
                raise call.unavailable(f"trim of loglet {asked.segment}")
            points[answer.server] = answer.outcome.trim
        trim_point = max(points.values())
        if min(points.values()) == trim_point:
            return LogletOffset(trim_point)
        # A newer trim of another client has reached a minority. Without a majority behind it, a later caller could
        # see a lower trim point. A further round needs a still newer trim, and each round is bounded in time.
