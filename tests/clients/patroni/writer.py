"""A program that inserts numbered rows through the primary of the moment, found as libpq finds it."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Final

import attrs
import psycopg

from tests.clients.patroni.member import USER, Member
from virtuallog_server.local_cluster.layout import HOST

TABLE: Final = (
    "CREATE TABLE rows (number bigint PRIMARY KEY, member text NOT NULL DEFAULT current_setting('cluster_name'))"
)
INSERT: Final = "INSERT INTO rows (number) VALUES (%s)"
PAUSE_SECONDS: Final = 0.005
RETRY_SECONDS: Final = 0.05


@attrs.define(eq=False)
class Writer:
    """A row whose insert failed has an unknown outcome; its number is not used again."""

    members: Sequence[Member]
    acknowledged: list[tuple[float, int]] = attrs.field(factory=list)
    """Time and number of each row that was answered, in order."""
    tried: int = 0
    """The last number that was sent."""
    failures: list[str] = attrs.field(factory=list)
    """Errors of inserts and connections."""
    _stopping: threading.Event = attrs.field(factory=threading.Event)

    def run(self) -> None:
        """Insert until `stop`."""
        while not self._stopping.is_set():
            try:
                with psycopg.connect(self._conninfo, autocommit=True) as connection:
                    self._insert_all(connection)
            except psycopg.Error as error:
                self.failures.append(str(error).splitlines()[0])
                self._stopping.wait(RETRY_SECONDS)

    def stop(self) -> None:
        self._stopping.set()

    def create_table(self) -> None:
        """Before `run`."""
        with psycopg.connect(self._conninfo, autocommit=True) as connection:
            connection.execute(TABLE)

    def _insert_all(self, connection: psycopg.Connection) -> None:
        while not self._stopping.wait(PAUSE_SECONDS):
            self.tried += 1
            connection.execute(INSERT, (self.tried,))
            self.acknowledged.append((time.monotonic(), self.tried))

    @property
    def _conninfo(self) -> str:
        hosts = ",".join(HOST for _ in self.members)
        ports = ",".join(str(member.sql_port) for member in self.members)
        return (
            f"host={hosts} port={ports} user={USER} dbname=postgres connect_timeout=2 target_session_attrs=read-write"
        )


def rows_of(member: Member) -> set[int]:
    """Numbers of the rows that a member has, primary or not."""
    with psycopg.connect(member.conninfo) as connection:
        return {number for (number,) in connection.execute("SELECT number FROM rows")}
