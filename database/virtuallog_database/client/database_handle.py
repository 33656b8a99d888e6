"""Handle from which clients are made. It follows the replica through its incarnations
(`virtuallog_database.replica.host`)."""

from __future__ import annotations

import random
from typing import Protocol

import attrs

from virtuallog.contract.ports import Clock
from virtuallog_database.replica.database import Database
from virtuallog_database.tree.commands import Identity


class HandleListener(Protocol):
    """Owner of soft state in a database, such as a watch or an attached session."""

    def begin(self, database: Database) -> None:
        """A new database has started, as new as the log was a moment ago. The former one is gone
        with all its soft state."""
        ...


@attrs.define(kw_only=True, eq=False)
class DatabaseHandle:
    """The current database of a replica, and the soft state that moves to each new one. Call
    `begin` before making a client, and for each new incarnation."""

    clock: Clock
    """Clock of the process."""
    random: random.Random
    """Source of session ids and passwords."""
    node: int = 1
    """Node number of the replica; session ids begin with it."""
    identities: tuple[Identity, ...] = ()
    """Identities of the client for ACL checks. A program with a replica can read its files anyway,
    so these protect nothing from it."""
    database: Database = attrs.field(init=False)
    """The current database; the last one while there is none. Then writes and reads raise
    UnavailableError."""
    _listeners: dict[HandleListener, None] = attrs.field(factory=dict, init=False)

    def begin(self, database: Database) -> None:
        """Switch to the database of a new incarnation."""
        self.database = database
        for listener in list(self._listeners):
            listener.begin(database)

    def enter(self, listener: HandleListener) -> None:
        """Register a listener: it is called for the current database now, and for each later one."""
        self._listeners[listener] = None
        listener.begin(self.database)

    def leave(self, listener: HandleListener) -> None:
        del self._listeners[listener]
