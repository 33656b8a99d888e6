"""What clients are made from: the tree of a replica, whichever life of it there is now (`virtuallog_database.replica.host`)."""

from __future__ import annotations

import random
from typing import Protocol

import attrs

from virtuallog.contract.ports import Clock
from virtuallog_database.replica.database import Database
from virtuallog_database.tree.commands import Identity


class HandleListener(Protocol):
    """Who has something in the soft state of a tree: watches, a session that is attached."""

    def begin(self, database: Database) -> None:
        """There is a new tree, as new as the log was a moment ago; the former one is gone, with all that was in its soft state."""
        ...


@attrs.define(kw_only=True, eq=False)
class DatabaseHandle:
    """See above. `begin` before any client is made from it, and for each new life."""

    clock: Clock
    """Of the process."""
    random: random.Random
    """For the ids and passwords of sessions."""
    node: int = 1
    """Number of the node that the replica is of: session ids begin with it."""
    identities: tuple[Identity, ...] = ()
    """Who the client is, where ACLs ask. Whoever holds a replica can read its files anyway."""
    database: Database = attrs.field(init=False)
    """The present one; or the last one, while there is none. Then writes and reads raise UnavailableError."""
    _dependents: dict[HandleListener, None] = attrs.field(factory=dict, init=False)

    def begin(self, database: Database) -> None:
        """A new life begins."""
        self.database = database
        for dependent in list(self._dependents):
            dependent.begin(database)

    def enter(self, dependent: HandleListener) -> None:
        """Tell it of each life; of the present one now."""
        self._dependents[dependent] = None
        dependent.begin(self.database)

    def leave(self, dependent: HandleListener) -> None:
        del self._dependents[dependent]
