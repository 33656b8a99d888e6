"""Protocol versions: the range a program speaks, and the level that a mixed cluster may use.

A version covers everything that crosses from one program to another: messages on a connection, and
state that one program leaves for another in the register. Each side of a connection announces a
range (`Node.open`). The highest version that both speak is in force on it; without a common one the
connection is refused. A program that announces nothing speaks version 1.

    1   the first
    2   probes between nodes, rebuilding a loglet, data directories that join later (register format
    2);
        LogServers remember dropped loglets by the chain (WAL records of kind 7)
    3   replicated logs, and the role `replica` of nodes
    4   loglets that consist of others, or are kept elsewhere than on nodes
    5   logs that only nodes and admins append to (register format 3)
    6   logs replicated by Raft

A node finds out by asking what it may use with one other node (`UnsupportedError`). State that
others must be able to read when it is written, now or after a restart, is written only once every
node of the cluster has announced its version: the *level* of the cluster, `level_of`.
docs/reference/formats.md lists the place of each format, and the effect of an unknown version of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

FIRST: Final = 1
JOINING: Final = 2
"""Level from which on data directories may join later."""
MOVED_SEGMENTS: Final = 2
"""Level from which on closed segments may move to other servers."""
LIVE_LOGLETS: Final = 2
"""Level from which on LogServers write the set of live loglets."""
REPLICAS: Final = 3
"""Level from which on nodes have the role `replica`, so that a log can go on as a replicated one."""
COMPOSED: Final = 4
"""Level from which on a segment may rest on several loglets, or on none on nodes
(`virtuallog.reconfiguration.retention`)."""

GUARDED: Final = 5
"""Level from which on nodes refuse appends of clients to a guarded log (`Register.guarded`)."""

RAFT: Final = 6
"""Level from which on nodes keep replicas of raft loglets."""


@attrs.frozen
class Versions:
    """A range of protocol versions, both ends included."""

    first: int = FIRST
    last: int = 6

    def __attrs_post_init__(self) -> None:
        if not 1 <= self.first <= self.last:
            raise ValueError(f"protocol versions {self.first} to {self.last}")

    def agree_untrusted(self, first: int, last: int) -> int | None:
        """Return the highest version common with a program that announces `first` to `last`; None
        if there is none."""
        common = min(self.last, last)
        return common if first <= last and common >= max(self.first, first) else None

    def up_to(self, last: int) -> Versions:
        """Return the range without versions above `last`; the whole range if `last` is 0 or less."""
        return attrs.evolve(self, last=min(self.last, last)) if last > 0 else self

    def __str__(self) -> str:
        return f"{self.first} to {self.last}"


SPOKEN: Final = Versions()
"""Versions that this program speaks."""


def level_of(announced: Iterable[int | None]) -> int:
    """Return the version that every node can read, from the highest that each has announced (None
    if unknown yet)."""
    return min((FIRST if version is None else version for version in announced), default=FIRST)


def roles_at(level: int, roles: Iterable[str]) -> frozenset[str]:
    """Return those of `roles` that the table of nodes may list.

    A role newer than the level is given to all nodes at once when the level is raised. Before that,
    a single node with the role would make a loglet without copies.
    """
    return frozenset(role for role in roles if level >= REPLICAS or role != "replica")
