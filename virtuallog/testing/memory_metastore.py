"""A MetaStore in the memory of one process: a correct register, for tests and examples."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import trio

from virtuallog.contract.errors import ChainConflictError, UnavailableError
from virtuallog.contract.types import NodeId


@attrs.define
class MemoryMetaStore:
    """`virtuallog.contract.metastore.MetaStore` on a list. Every call takes a moment before it acts
    and one after."""

    values: list[bytes] = attrs.field(factory=list)
    """Values of version 1, 2, ..."""
    attempts: list[int] = attrs.field(factory=list)
    down: bool = False
    """True if no member answers."""
    lose_replies: int = 0
    """Number of puts from now on that happen without an answer to their caller."""

    async def get(self) -> tuple[int, bytes]:
        await self._reach()
        newest = len(self.values), self.values[-1] if self.values else b""
        await trio.lowlevel.checkpoint()
        return newest

    async def put(
        self, value: bytes, expected_version: int, attempt: int, members: Sequence[NodeId] | None = None
    ) -> int:
        await self._reach()
        version = expected_version + 1
        if version <= len(self.values):
            if self.attempts[expected_version] != attempt:
                raise ChainConflictError(expected_version, len(self.values))
        else:
            assert expected_version == len(self.values), "no client can know a version that is not decided"
            self.values.append(value)
            self.attempts.append(attempt)
        await trio.lowlevel.checkpoint()
        if self.lose_replies:
            self.lose_replies -= 1
            raise UnavailableError("the reply was lost")
        return version

    async def _reach(self) -> None:
        await trio.lowlevel.checkpoint()
        if self.down:
            raise UnavailableError("the MetaStore is down")
