"""The virtual address space: tail, reads and trims over the chain (Delos, OSDI'20, section 3.1).

The tail comes from the last segment, entries from the segment that owns their range. Appenders and
readers are built on this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from virtuallog.admin.control import FindTrimPoint
from virtuallog.contract.chain import Chain, Segment
from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import (
    BeyondTailError,
    ReconfigurationNeededError,
    RetryableError,
    SealedError,
    UnavailableError,
    as_unavailable,
)
from virtuallog.contract.loglet import Placed
from virtuallog.contract.types import Gap, GapKind, LogPosition, Open, Sealed, Tail
from virtuallog.reconfiguration.chain_cache import ChainCache
from virtuallog.reconfiguration.chain_writer import ChainWriter
from virtuallog.reconfiguration.successor import SuccessorSearch

ASK_SECONDS: Final = 5.0
"""Timeout of one `FindTrimPoint`: the node asks a majority of the servers of each segment that is trimmed."""
READ_BYTES_MAX: Final = 8 << 20
"""Cap on one read, equal to the servers' own cap. Clamped here because larger values overflow the wire field."""

_TRIMMED = CrashPoint("chain: one segment more is trimmed")
_EMPTY = CrashPoint("chain: segments are trimmed as a whole, the chain still has them", rare=True)


@attrs.define
class AddressSpace:
    """The log as one client sees it."""

    view: ChainCache
    chain_writer: ChainWriter
    """Drops segments that a trim has emptied."""
    successors: SuccessorSearch
    """Finishes half-done changes that are met on the way."""

    async def check_tail(self) -> Tail:
        """See `VirtualLog.check_tail`."""
        while True:
            segment = (await self.view.current()).chain.last
            if segment.stop is not None:
                # A cached "closed" may be old: another client may have extended the log since.
                if (await self.view.refresh()).chain.last.id == segment.id:
                    return Sealed(segment.stop)
                continue
            try:
                tail = await self.view.loglet(segment).check_tail()
            except SealedError:  # dropped: the chain has moved on
                tail = Sealed(segment.base)
            except ReconfigurationNeededError:
                await self.successors.after(segment.id, failed=True)
                continue
            except RetryableError as error:
                # Its servers may have been replaced since, so that none is left to say that it is sealed.
                if (await self.view.refresh()).chain.last.id == segment.id:
                    raise as_unavailable(error) from error
                continue
            if isinstance(tail, Open):
                return Open(self.view.saw_tail(segment.position(tail.tail)))
            await self.successors.after(segment.id)

    async def read(self, start: LogPosition, stop: LogPosition, max_bytes: int = 1 << 20) -> Sequence[Placed]:
        """See `VirtualLog.read`."""
        if start >= stop:
            return []
        if stop > self.view.known_tail:
            tail = await self.check_tail()
            if stop > tail.tail:
                raise BeyondTailError(stop, tail.tail)
        while True:
            register = await self.view.current()
            if start < register.chain.start:
                return [Gap(start, min(stop, register.chain.start), GapKind.TRIMMED)]
            segment = register.chain.segment_at(start)
            if segment is not None:
                try:
                    return await self._read_segment(segment, start, stop, max_bytes)
                except SealedError:  # the loglet was dropped: it is no longer in the chain
                    pass
                except RetryableError as error:  # its servers may be gone for good, and the segment be on others by now
                    if (await self.view.refresh()).chain.find(segment.id) is not None:
                        raise as_unavailable(error) from error
                    continue
            if (await self.view.refresh()).version == register.version:
                raise UnavailableError(f"no server has position {start}, though the chain has it")

    async def _read_segment(self, segment: Segment, start: int, stop: int, max_bytes: int) -> Sequence[Placed]:
        # Clamped to the chain's stop: entries that a loglet holds beyond it are not in the virtual address space.
        if segment.stop is not None:
            stop = min(stop, segment.stop)
        max_bytes = max(0, min(max_bytes, READ_BYTES_MAX))
        found = await self.view.loglet(segment).read(segment.offset(start), segment.offset(stop), max_bytes)
        shift = segment.shift
        return [item.shift(shift) for item in found] if shift else found

    async def prefix_trim(self, position: LogPosition) -> LogPosition:
        """See `VirtualLog.prefix_trim`."""
        target = LogPosition(min(position, (await self.check_tail()).tail))
        while True:
            register = await self.view.current()
            self.view.environment.check_resident()
            try:
                effective = await self._trim_segments(register.chain, target)
            except SealedError as error:  # a loglet was dropped: others have trimmed further
                if (await self.view.refresh()).version == register.version:
                    raise UnavailableError(f"the chain has a loglet that has been dropped: {error}") from error
                continue
            except RetryableError as error:  # as in a read
                if (await self.view.refresh()).version == register.version:
                    raise as_unavailable(error) from error
                continue
            after = (await self.view.refresh()).chain
            if after.start > effective or _replaced(register.chain, after, max(target, effective + 1)):
                # Others have trimmed further, or have copied a segment trimmed here, perhaps before it was trimmed.
                continue
            if any(segment.stop is not None and segment.stop <= target for segment in register.chain.segments[:-1]):
                _EMPTY.reached()
                await self.chain_writer.truncate(target)
            return effective

    async def _trim_segments(self, chain: Chain, target: LogPosition) -> LogPosition:
        """Trim each segment up to `target`; returns the trim point.

        That is beyond `target` if others have trimmed further. So a segment that has nothing to trim is asked as well.
        """
        effective = chain.start
        for segment in chain.segments:
            if segment.start > effective:
                break  # the log begins in an earlier segment
            end = target if segment.stop is None else min(target, segment.stop)
            offset = segment.offset(max(segment.start, end))
            trimmed = segment.position(await self.view.loglet(segment).prefix_trim(offset))
            # Entries beyond the stop of a closed segment are not in the log.
            effective = trimmed if segment.stop is None else min(trimmed, segment.stop)
            _TRIMMED.reached()
        return effective

    async def find_trim_point(self) -> LogPosition:
        """See `VirtualLog.find_trim_point`.

        Done by a trim to position 0, since a read may be answered by a server that does not know of the
        last trim yet. A client that may not trim asks a node to do it.
        """
        if not self.successors.may_change:
            return await ask_for_trim_point(self.view)
        return await self.prefix_trim(LogPosition(0))


def _replaced(before: Chain, after: Chain, stop: int) -> bool:
    """True if another loglet was put under a segment below `stop`."""
    ids = {segment.id for segment in after.segments}
    return any(segment.id not in ids for segment in before.segments if after.start <= segment.start < stop)


async def ask_for_trim_point(view: ChainCache) -> LogPosition:
    """The trim point, from the first node that answers.

    With TLS, a certificate of the role `client` is enough for appends and reads only. Completing a
    half-done seal, repair or trim takes more (docs/howto/secure.md). A client waits until nodes do that, or
    asks one here.

    Raises:
        UnavailableError: no node answers.
    """
    problem: RetryableError = UnavailableError("no node is known")
    for node in sorted((await view.current()).nodes):
        try:
            found = await view.environment.services.call(node, FindTrimPoint(), ASK_SECONDS)
            return LogPosition(found.position)
        except RetryableError as error:
            problem = error
    raise UnavailableError(f"no node has told where the log begins: {problem}")
