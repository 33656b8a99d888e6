"""Reading the tree: the applied state of one replica.

Every method answers at once, from the local store; it sees all that this replica has applied, and nothing else, so it may be
older than what others have been told (docs/promises.md). `identities` are those of whoever reads: rights are checked here.
"""

from __future__ import annotations

from typing import Protocol

from database.kv.commands import Acl, Identity
from database.kv.results import Stat

Identities = tuple[Identity, ...]


class Tree(Protocol):
    """Raises RefusedError with what ZooKeeper would answer, from every method but those that say otherwise."""

    @property
    def last_zxid(self) -> int: ...

    def get_data(self, path: str, identities: Identities) -> tuple[bytes | None, Stat]: ...

    def exists(self, path: str) -> Stat:
        """Needs no right, as in ZooKeeper 3.8."""
        ...

    def get_children(self, path: str, identities: Identities) -> tuple[list[str], Stat]: ...

    def get_acl(self, path: str, identities: Identities) -> tuple[tuple[Acl, ...], Stat]: ...

    def get_ephemerals(self, session: int, prefix: str) -> list[str]: ...

    def count_descendants(self, path: str, identities: Identities) -> int: ...
