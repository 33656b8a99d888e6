"""Spans of time in which members could be written to, from questions to each of them twenty times a second.

A span is what is certain: from the first answer "primary" to the last question that was answered so, by one postmaster. Two
spans of two members that overlap are a split brain.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from itertools import combinations
from typing import Final

import attrs
import psycopg

from tests.clients.patroni.member import Member

QUESTION: Final = "SELECT NOT pg_is_in_recovery() AND current_setting('transaction_read_only') = 'off', pg_postmaster_start_time()::text"
PAUSE_SECONDS: Final = 0.05


@attrs.define
class Span:
    """A time in which a member could be written to."""

    member: str
    postmaster: str
    """When that process was started."""
    since: float
    until: float


@attrs.define(eq=False)
class PrimaryWatch:
    """Asks one member."""

    member: Member
    spans: list[Span] = attrs.field(factory=list)
    asked: int = 0
    """Questions that were answered."""
    _open: bool = False
    """True while the last answer was "primary"."""
    _stopping: threading.Event = attrs.field(factory=threading.Event)

    def run(self) -> None:
        """Ask until `stop`. A member that does not answer is asked again: a primary may be busy."""
        while not self._stopping.wait(PAUSE_SECONDS):
            try:
                with psycopg.connect(self.member.conninfo, autocommit=True) as connection:
                    while not self._stopping.wait(PAUSE_SECONDS):
                        self._ask(connection)
            except psycopg.Error:
                continue

    def stop(self) -> None:
        self._stopping.set()

    def observe(self, asked: float, answered: float, writable: bool, postmaster: str) -> None:
        """Record one answer."""
        if not writable:
            self._open = False
        elif self._open and self.spans[-1].postmaster == postmaster:
            self.spans[-1].until = asked
        else:
            self.spans.append(Span(self.member.name, postmaster, answered, answered))
            self._open = True

    def _ask(self, connection: psycopg.Connection) -> None:
        asked = time.monotonic()
        row = connection.execute(QUESTION).fetchone()
        assert row is not None
        self.observe(asked, time.monotonic(), *row)
        self.asked += 1


def overlaps(spans: Sequence[Span]) -> list[tuple[Span, Span]]:
    """Pairs of spans of two members that have a time in common."""
    return [
        (one, other)
        for one, other in combinations(spans, 2)
        if one.member != other.member and one.since <= other.until and other.since <= one.until
    ]
