"""Bugs of those who read the log: tailing readers, and trims that they meet."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final

from tests.planted_bugs.mutant import Mutant, mutant
from virtuallog.client.quorum_call import QuorumCall
from virtuallog.client.reader import READ_BYTES, Reader
from virtuallog.contract.chain import Segment
from virtuallog.contract.errors import RetryableError, SealedError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.types import LogletOffset, LogPosition, Open, Tail
from virtuallog_loglets.native.drivers.tail_check_driver import WAIT_SECONDS
from virtuallog_loglets.native.loglet import _TRIMMING, NativeLoglet
from virtuallog_loglets.native.messages import NativeTrim, NativeWaitTail
from virtuallog_simulation.world.options import Options

QUIET: Final = Options(faults=(), seconds=4.0)
"""Found without faults: the workload alone brings about what it takes, and a seed is cheap."""


@mutant(
    Reader._wait_tail,
    scenario="cluster",
    published="Restate 5049, 5054",
    within=5,
    options=QUIET,
    found_by=["progress", "followers reach the tail", "no append passes a known stop"],
)
async def frozen_reader(self: Reader, segment: Segment) -> None:
    """A reader that waits at the tail of a loglet never looks at the chain again."""
    space = self._space
    try:
        tail = await space.view.loglet(segment).wait_tail(segment.offset(self.position))
    except SealedError:
        return
    if isinstance(tail, Open):
        space.view.saw_tail(segment.position(tail.tail))
    await space.view.environment.clock.sleep(0.1)


@mutant(
    Reader.batches,
    scenario="cluster",
    options=QUIET,
    found_by=["followers go on"],
)
async def reader_that_skips_an_entry_at_a_boundary(self: Reader) -> AsyncGenerator[Placed, None]:
    """At the end of a segment the reader goes on one position too far."""
    while self._stop is None or self.position < self._stop:
        try:
            limit = await self.wait_readable()
            if limit is None:
                return
            found = await self._space.read(self.position, limit, READ_BYTES)
        except RetryableError:
            await self._space.view.environment.clock.sleep(0.1)
            continue
        for placed in found:
            self.position = LogPosition(placed.stop)
            yield placed
        register = await self._space.view.current()
        if any(segment.stop == self.position for segment in register.chain.segments):
            self.position = LogPosition(self.position + 1)


@mutant(
    NativeLoglet.wait_tail,
    scenario="minority",
    published="Delos, OSDI'20, section 4.2.1",
    found_by=["open tails below the stop", "loglet tails move forward"],
)
async def entries_of_one_server_read(self: NativeLoglet, past: LogletOffset) -> Tail:
    """A reader that waits takes news from one server for the tail, and reads what may never be committed."""
    courier = QuorumCall(self._environment)
    request = NativeWaitTail(segment=self.segment, past=past, known_tail=self._known_tail)
    for server in self._nearest.order()[:2]:
        courier.ask(server, request, None, WAIT_SECONDS, lambda: True)
    answer = await courier.receive(WAIT_SECONDS)
    if answer is None or answer.outcome.sealed:
        return await self.check_tail()
    return Open(LogletOffset(max(answer.outcome.local_tail, answer.outcome.known_tail)))


@mutant(
    NativeLoglet.prefix_trim,
    scenario="trimmed",
    published="delos-lab",
    found_by=["known is committed"],
)
async def trim_beyond_the_tail(self: NativeLoglet, offset: LogletOffset) -> LogletOffset:
    """A trim is not clamped to what is known to be committed: it becomes known by it."""
    request = NativeTrim(segment=self.segment, offset=offset, known_tail=max(offset, self._known_tail))
    states = await self._ask_majority(request, "trim", _TRIMMING)
    return LogletOffset(max(state.trim for state in states))


@mutant(
    NativeLoglet.prefix_trim,
    scenario="trimmed",
    found_by=["loglet trim points move forward"],
)
async def trim_point_that_moves_backwards(self: NativeLoglet, offset: LogletOffset) -> LogletOffset:
    """A trim returns the trim point of the server that has trimmed the least."""
    if self._known_tail < offset:
        await self.check_tail()
    request = NativeTrim(segment=self.segment, offset=min(offset, self._known_tail), known_tail=self._known_tail)
    states = await self._ask_majority(request, "trim", _TRIMMING)
    return LogletOffset(min(state.trim for state in states))


MUTANTS: Final[tuple[Mutant, ...]] = tuple(found for found in list(globals().values()) if isinstance(found, Mutant))
