"""A connection on which a test decides what becomes of each transaction: it happens, late or never, and is answered or not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import attrs

from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.znodes import Operation, RefusedError, Result, Stat, Znode, Znodes

Late = Callable[[], object]


@attrs.define(eq=False)
class Intercepted:
    """`Znodes` over another one. What is to happen is taken from `plan`, one word for each `multi` that `wanted` picks:

    "ok"            as ever
    "no answer"     it happens, and its sender is not told
    "never"         it does not happen, and its sender is not told
    "late"          its sender is not told; it happens when the test calls `arrive`
    """

    znodes: Znodes
    plan: list[str] = attrs.field(factory=list)
    wanted: Callable[[Sequence[Operation]], bool] = lambda operations: len(operations) == 4  # appends
    late: list[Sequence[Operation]] = attrs.field(factory=list)
    outcomes: list[str] = attrs.field(factory=list)
    """Results of late transactions: 'done', or the reason of the refusal."""
    looks: int = 0
    """Reads, so far."""
    between: Callable[[str], Awaitable[None]] | None = None
    """Called before each request of a read: they are executed one after the other, and others come between."""

    async def multi(self, operations: Sequence[Operation]) -> Sequence[Result]:
        word = self.plan.pop(0) if self.plan and self.wanted(operations) else "ok"
        if word == "ok":
            return await self.znodes.multi(operations)
        if word == "no answer":
            await self.znodes.multi(operations)
        elif word == "late":
            self.late.append(operations)
        raise UnavailableError(f"planned: {word}")

    async def arrive(self) -> None:
        """Execute now the first transaction that has not happened yet."""
        try:
            await self.znodes.multi(self.late.pop(0))
            self.outcomes.append("done")
        except RefusedError as error:
            self.outcomes.append(type(error).__name__)

    async def stats(self, paths: Sequence[str], *, fresh: bool = False) -> Sequence[Stat | None]:
        self.looks += 1
        return [None if znode is None else znode.stat for znode in await self.read(paths, fresh=fresh)]

    async def read(self, paths: Sequence[str], *, fresh: bool = False) -> Sequence[Znode | None]:
        if self.between is None:
            return await self.znodes.read(paths, fresh=fresh)
        found: list[Znode | None] = []
        for path in paths:
            await self.between(path)
            found += await self.znodes.read([path], fresh=fresh)
        return found

    async def children(self, path: str, *, fresh: bool = False) -> Sequence[str] | None:
        return await self.znodes.children(path, fresh=fresh)
