"""Which versions of the protocol a program speaks, and what a cluster of mixed programs may use.                    Pure.

A version stands for all that crosses from one program to another: messages on a connection, and what one program leaves
for another in the register. Each side of a connection announces a range (`Node.open`); the highest that both speak is in
force on it, and without one the connection is refused. A program that says nothing speaks version 1.

    1   the first
    2   probes between nodes, rebuilding a loglet, data directories that join later (register format 2);
        LogServers remember dropped loglets by the chain (WAL records of kind 7)
    3   replicated logs, and the role `replica` of nodes
    4   loglets that consist of others, or are kept elsewhere than on nodes
    5   logs that only nodes and admins append to (register format 3)

What a node may meet alone, it finds out by asking (`UnsupportedError`). What others must be able to read when it is
written, now or after a restart, is written only once every node of the cluster has announced it: the *level* of the
cluster, `level_of`. docs/reference/formats.md lists what is kept where, and what an unknown version of it does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

FIRST: Final = 1
JOINING: Final = 2
"""From this level on data directories may join later."""
MOVED_SEGMENTS: Final = 2
"""From this level on closed segments may move to other servers."""
LIVE_LOGLETS: Final = 2
"""From this level on LogServers write which loglets live."""
REPLICAS: Final = 3
"""From this level on nodes have the role `replica`, so from here on a log can go on as a replicated one."""
COMPOSED: Final = 4
"""From this level on nodes know that a segment may rest on several loglets, or on none of theirs (`virtuallog.reconfiguration.retention`)."""

GUARDED: Final = 5
"""From this level on nodes refuse appends of clients to a log that is guarded (`Register.guarded`)."""


@attrs.frozen
class Versions:
    """A range of protocol versions, both ends included."""

    first: int = FIRST
    last: int = 5

    def __attrs_post_init__(self) -> None:
        if not 1 <= self.first <= self.last:
            raise ValueError(f"protocol versions {self.first} to {self.last}")

    def agree_untrusted(self, first: int, last: int) -> int | None:
        """The version in force between this program and one that announces `first` to `last`; None: there is none."""
        common = min(self.last, last)
        return common if first <= last and common >= max(self.first, first) else None

    def up_to(self, last: int) -> Versions:
        """The same without what is newer than `last`; 0 or less: all of it."""
        return attrs.evolve(self, last=min(self.last, last)) if last > 0 else self

    def __str__(self) -> str:
        return f"{self.first} to {self.last}"


SPOKEN: Final = Versions()
"""By this program."""


def level_of(announced: Iterable[int | None]) -> int:
    """What every node of a cluster can read, from the highest version that each has announced; None: not heard yet."""
    return min((FIRST if version is None else version for version in announced), default=FIRST)


def roles_at(level: int, roles: Iterable[str]) -> frozenset[str]:
    """What the table of nodes may list of `roles`. One that is newer than the level is given to all at once when the level is
    raised: before, a single node that has it would make a loglet without copies."""
    return frozenset(role for role in roles if level >= REPLICAS or role != "replica")
