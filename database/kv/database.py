"""The tree as a replicated service: what a server of ZooKeeper's protocol, or a program that embeds it, talks to.

database = Database(store, clock=..., random=..., node=...)
engine = <stack of engines, with `database` as its application>
database.attach_to(engine)
await nursery.start(database.run)       # expiry, touches, reaping
"""

from __future__ import annotations

from typing import Protocol

import trio

from database.engines.api import Applicator, Engine
from database.kv.commands import Operation, Origin
from database.kv.expiry import Expiry
from database.kv.results import Result
from database.kv.tree import Tree
from database.kv.watches import Watcher, Watches
from virtuallog.ports import Done


class Database(Applicator, Protocol):
    """One replica of the tree. Skeleton: the class of this name comes with the same methods."""

    tree: Tree
    watches: Watches
    expiry: Expiry

    def attach_to(self, engine: Engine) -> None: ...

    def submit(self, operation: Operation, origin: Origin, done: Done) -> None:
        """Put one command into the log. `done` is called once: with its `Result` (also one that says why it was refused), after
        its watches have fired; or with a VirtualLogError: unknown outcome. Commands of one caller are applied in the order of
        these calls. Costs no task; whoever calls bounds how many are under way."""
        ...

    async def execute(self, operation: Operation, origin: Origin = Origin()) -> Result:
        """`submit`, and wait. Raises VirtualLogError."""
        ...

    async def sync(self) -> None:
        """On return the tree shows every command that was completed, by anybody, before the call."""
        ...

    def set_watches(self, watcher: Watcher, relative_zxid: int, *, data: list[str], exist: list[str], child: list[str],
                    persistent: list[str], recursive: list[str]) -> None:  # fmt: skip
        """Watches of a client that comes back, having seen everything up to `relative_zxid`: those whose change it has missed
        fire at once, the others are set."""
        ...

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Expire sessions, tell of those heard, reap containers and TTL znodes, until cancelled."""
        ...
