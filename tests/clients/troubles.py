"""Troubles for an ensemble while clients work: swaps and kills, one after the other, and what clients saw of each."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import cycle, pairwise
from typing import Final

import attrs
import trio

from tests.clients.ensembles import SIZE, Ensemble, VirtualLogEnsemble
from virtuallog.contract.errors import VirtualLogError

KINDS: Final = ("paxos", "raft", "striped", "native")
"""Kinds of loglets to swap to, in their turn."""
SWAP_SECONDS: Final = 60.0
SWAP, LEADER, OTHER, BOTH, START = "swap", "leader killed", "other server killed", "swap and kill at once", "server started again"  # fmt: skip


@attrs.frozen
class Trouble:
    """One of them."""

    what: str
    begun: int
    """Milliseconds since 1970."""
    ended: int
    """When the clients had gone on for a while."""

    def longest_gap(self, times: Sequence[int]) -> int:
        """Longest time without an acknowledgement, in milliseconds, that ended in this trouble."""
        return max((after - before for before, after in pairwise(times) if self.begun < after <= self.ended), default=0)


@attrs.define(eq=False)
class Troubles:
    """The troubles of one run."""

    ensemble: Ensemble
    go_on: Callable[[], Awaitable[None]]
    """Returns once all clients have worked on for a while."""
    seen: list[Trouble] = attrs.field(factory=list)
    _kinds: cycle[str] = attrs.field(factory=lambda: cycle(KINDS), init=False)

    async def run(self, rounds: int) -> None:
        """In each round, every server is killed once and started again, the leader first; before it the log is swapped. The last
        kill comes at the same time as a swap.
        """
        swaps = isinstance(self.ensemble, VirtualLogEnsemble)
        for _ in range(rounds):
            left = set(range(1, SIZE + 1))
            while left:
                at_once = swaps and len(left) == 1
                if swaps and not at_once:
                    await self._note(SWAP, lambda: self.ensemble.swap(next(self._kinds)))
                server = await self._choose(left)
                left.remove(server)
                await self._kill(server, with_swap=at_once)
                await self._note(START, partial(self.ensemble.start, server))

    async def _choose(self, left: set[int]) -> int:
        """The leader first, then another one."""
        leader = await self.ensemble.leader()
        if len(left) == SIZE:
            return leader
        return min(left - {leader} or left)

    async def _kill(self, server: int, *, with_swap: bool) -> None:
        if with_swap:
            await self._note(BOTH, partial(self._swap_and_kill, server))
        else:
            what = LEADER if server == await self.ensemble.leader() else OTHER
            await self._note(what, partial(self.ensemble.kill, server))

    async def _swap_and_kill(self, server: int) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._swap_at_last, next(self._kinds))
            nursery.start_soon(self.ensemble.kill, server)

    async def _swap_at_last(self, kind: str) -> None:
        """The node that is asked may be the one that dies; then another one is."""
        with trio.fail_after(SWAP_SECONDS):
            while True:
                with suppress(VirtualLogError):
                    return await self.ensemble.swap(kind)

    async def _note(self, what: str, happen: Callable[[], Awaitable[None]]) -> None:
        begun = _now()
        await happen()
        await self.go_on()
        self.seen.append(Trouble(what, begun, _now()))


def longest_gaps(troubles: Sequence[Trouble], times: Sequence[int]) -> Mapping[str, int]:
    """Sort of trouble -> longest gap in any of them, in milliseconds."""
    gaps: dict[str, int] = {}
    for trouble in troubles:
        gaps[trouble.what] = max(gaps.get(trouble.what, 0), trouble.longest_gap(times))
    return gaps


def _now() -> int:
    return int(time.time() * 1000)  # of the machine, as the clients' own
