"""Bounds on what all callers, and each of them, have under way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import attrs

from virtuallog.contract import metrics
from virtuallog.contract.metrics import MetricFamily
from virtuallog_console.access.core.caller import Caller
from virtuallog_console.access.core.problem import Problem, ProblemError

REQUESTS_MAX: Final = 128
"""Requests under way, streams apart. Each holds at most its body and its answer."""
REQUESTS_OF_CALLER_MAX: Final = 64
"""The same of one caller: half, so that one program does not keep the others out."""
STREAMS_MAX: Final = 256
"""Streams that are open, such as tails. Each holds a connection, and no copy of what it sends."""
STREAMS_OF_CALLER_MAX: Final = 128
"""The same of one caller."""
BUFFERS_BYTES_MAX: Final = 128 << 20
"""Bytes of all bodies that requests under way have sent, or announced, and of all answers that clients have yet to take."""
RETRY_SECONDS: Final = 1
"""Pause that a refusal recommends."""


@attrs.frozen(kw_only=True)
class AdmissionLimits:
    """The bounds of one console."""

    requests: int = REQUESTS_MAX
    requests_of_caller: int = REQUESTS_OF_CALLER_MAX
    streams: int = STREAMS_MAX
    streams_of_caller: int = STREAMS_OF_CALLER_MAX
    buffers_bytes: int = BUFFERS_BYTES_MAX


@attrs.define(eq=False)
class Admission:
    """Requests and bytes under way."""

    limits: AdmissionLimits = attrs.field(factory=AdmissionLimits)
    _requests: Counter[Caller] = attrs.field(factory=Counter, init=False)
    _streams: Counter[Caller] = attrs.field(factory=Counter, init=False)
    _buffers_bytes: int = attrs.field(default=0, init=False)

    @property
    def streams(self) -> int:
        """Open streams."""
        return self._streams.total()

    @property
    def requests(self) -> int:
        """Requests under way."""
        return self._requests.total()

    def metrics(self) -> Sequence[MetricFamily]:
        """Requests, streams and bytes under way, each with its limit."""
        items = [
            metrics.queue_items("console requests", self.requests, self.limits.requests),
            metrics.queue_items("console streams", self.streams, self.limits.streams),
            metrics.queue_bytes("console buffers", self._buffers_bytes, self.limits.buffers_bytes),
        ]
        return [family for each in items for family in each]

    @contextmanager
    def admit(self, caller: Caller, *, is_stream: bool) -> Iterator[BufferAllowance]:
        """Count a request until the block ends.

        Raises:
            ProblemError: one more would be too many.
        """
        counted, most, of_caller, what = (
            (self._streams, self.limits.streams, self.limits.streams_of_caller, "streams")
            if is_stream
            else (self._requests, self.limits.requests, self.limits.requests_of_caller, "requests")
        )
        if counted[caller] >= of_caller:
            raise ProblemError(_too_many(f"{caller.name} has {of_caller} {what} under way"))
        if counted.total() >= most:
            raise ProblemError(_too_many(f"this console has {most} {what} under way"))
        counted[caller] += 1
        allowance = BufferAllowance(self)
        try:
            yield allowance
        finally:
            allowance.release()
            counted[caller] -= 1
            if not counted[caller]:
                del counted[caller]

    def reserve(self, count: int) -> None:
        """Take `count` bytes.

        Raises:
            ProblemError: there are too many.
        """
        if self._buffers_bytes + count > self.limits.buffers_bytes:
            raise ProblemError(_too_many(f"all requests and answers under way have {self.limits.buffers_bytes} bytes"))
        self._buffers_bytes += count

    def give_back(self, count: int) -> None:
        """Give bytes back."""
        self._buffers_bytes -= count


@attrs.define(eq=False)
class BufferAllowance:
    """Bytes that one request has taken for its body and its answer."""

    _admission: Admission
    _bytes: int = 0

    def grow(self, total: int) -> None:
        """Have `total` bytes, if it has not more already.

        Raises:
            ProblemError: all requests together have too many.
        """
        if total > self._bytes:
            self._admission.reserve(total - self._bytes)
            self._bytes = total

    def release(self) -> None:
        """Give all of them back."""
        self._admission.give_back(self._bytes)
        self._bytes = 0


def _too_many(detail: str) -> Problem:
    return Problem(
        status=429,
        kind="too-many",
        title="Too much is under way",
        detail=detail,
        remedy="nothing was done; try again later, with fewer requests at a time",
        headers={"Retry-After": str(RETRY_SECONDS)},
    )
