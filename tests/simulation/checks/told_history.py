"""Histories told call by call, for the tests of checkers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from virtuallog.contract import chain
from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.chain import Chain, SegmentId
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.register import ClusterId, Register
from virtuallog.contract.types import Data, Gap, GapKind, LogPosition, Sealed
from virtuallog.testing.checker.actions import LogletAppend, LogletSeal, LogletTail, LogRead, RegisterPut
from virtuallog.testing.checker.history import History, Recorder
from virtuallog_simulation.checks.history.chain import CHAIN_CHECKS
from virtuallog_simulation.checks.history.log import LOG_CHECKS
from virtuallog_simulation.checks.history.loglet import LOGLET_CHECKS

LOGLET = SegmentId(1, 7)
A, B = SessionId(b"a" * 16), SessionId(b"b" * 16)

FIRST = chain.genesis("memory", b"", 1)
SECOND = chain.extend(FIRST, 5, "memory", b"", 2)
"""The first segment ends at 5."""


class _GoneError(Exception):
    """Error of a client that is never heard of again."""


class Story:
    """A history, told in the order in which things happen."""

    def __init__(self) -> None:
        self.history = History()

    def happened(self, action: Any, result: Any = None, client: str = "a") -> None:
        """A call that returned before anything else happened."""
        self.history.observed(client, action, result)

    def failed(self, action: Any, error: VirtualLogError, client: str = "a") -> None:
        with pytest.raises(type(error)), self.history.record(client, action):
            raise error

    @contextmanager
    def during(self, action: Any, client: str = "b") -> Iterator[Recorder]:
        """A call that takes as long as the context; without a result its outcome is unknown."""
        results: list[Any] = []
        with suppress(_GoneError), self.history.record(client, action) as returned:

            def answer(result: Any) -> None:
                results.append(result)
                returned(result)

            yield answer
            if not results:
                raise _GoneError

    @contextmanager
    def refused(self, action: Any, error: VirtualLogError, client: str = "c") -> Iterator[None]:
        """A call that takes as long as the context, and fails then."""
        with suppress(type(error)), self.history.record(client, action):
            yield
            raise error

    def became(self, the_chain: Chain, client: str = "operator") -> None:
        """Record that a chain was decided as clients do it: the client that puts it has read the stop before."""
        for segment in the_chain.segments:
            if segment.stop is not None:
                self.happened(LogletSeal(segment.id), None, client)
                self.happened(LogletTail(segment.id), Sealed(segment.offset(segment.stop)), client)
        self.happened(put(the_chain), the_chain.version, client)

    def broken(self) -> set[str]:
        """Names of the checks that find something."""
        checks = (*LOG_CHECKS, *LOGLET_CHECKS, *CHAIN_CHECKS)
        return {violation.check for check in checks for violation in check(self.history)}


def data(position: int, payload: bytes, sequence: int | None = None, session: SessionId = A) -> Data:
    return Data(LogPosition(position), payload, 0, session, position if sequence is None else sequence)


def trimmed(start: int, stop: int) -> Gap:
    return Gap(start, stop, GapKind.TRIMMED)


def filler(start: int, stop: int) -> Gap:
    return Gap(start, stop, GapKind.FILLER)


def read(*records: Data | Gap) -> LogRead:
    """The read that has this result."""
    first, last = records[0], records[-1]
    start = first.start if isinstance(first, Gap) else first.position
    return LogRead(start, last.stop if isinstance(last, Gap) else last.position + 1)


def batch(session: SessionId, first: int, count: int = 1) -> Batch:
    return Batch.build(session, first, [b"%d" % number for number in range(first, first + count)])


def offer(session: SessionId, first: int, count: int = 1, segment: SegmentId = LOGLET) -> LogletAppend:
    return LogletAppend(segment, batch(session, first, count))


def register(the_chain: Chain) -> bytes:
    return Register(cluster=ClusterId(bytes(16)), chain=the_chain, members=(), nodes={}).encode()


def put(the_chain: Chain, attempt: int | None = None) -> RegisterPut:
    return RegisterPut(the_chain.version, register(the_chain), the_chain.version if attempt is None else attempt)
