"""Questions to each member of Patroni, twenty times a second, if it can be written to."""

from __future__ import annotations

import threading
import time
from typing import Final

import attrs
import psycopg

from tests.clients.patroni.member import Member
from tests.clients.spans import SpanRecord

QUESTION: Final = "SELECT NOT pg_is_in_recovery() AND current_setting('transaction_read_only') = 'off', pg_postmaster_start_time()::text"
PAUSE_SECONDS: Final = 0.05


@attrs.define(eq=False)
class PrimaryWatch:
    """Asks one member."""

    member: Member
    record: SpanRecord = attrs.Factory(lambda self: SpanRecord(self.member.name), takes_self=True)
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

    def _ask(self, connection: psycopg.Connection) -> None:
        asked = time.monotonic()
        row = connection.execute(QUESTION).fetchone()
        assert row is not None
        self.record.observe(asked, time.monotonic(), *row)
