"""Re-replication: brings a server that is new in the set of a closed loglet up to the loglet's stop.

    seal the newcomer --> fetch a piece from any former server, repair it into the newcomer, ... --> read all back
                      --> say that it is whole --> trim it

Delos, OSDI'20, section 3.2: a sealed segment is rebuilt by `reconfigModify`, and the tail is not disturbed. The loglet
keeps its id and its waves their bytes, so what is copied is what a repair copies, by the same request: two copiers do no
harm to each other, one that dies leaves a beginning that the next one continues, and a wave that is cut, damaged or of
another loglet is refused by the server itself.

Nobody counts on the newcomer before the chain names it. By then it has every wave between the trim point and the stop, so
whatever a majority of the former servers had, a majority of the new ones has. It is sealed first: a majority of the new
servers refuses stores of a sequencer that still thinks of the former ones.

The chain may name a newcomer all the time, if it has lost its disk. It speaks for the loglet, and takes anything but our
repairs, only once it is told that the copy is whole; not before is it sealed (`LogServer`).

One piece is under way at a time, whatever the size of the loglet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import CorruptionError, SealedError, UnavailableError, VirtualLogError
from virtuallog.contract.ports import Environment
from virtuallog.contract.provider import Pace
from virtuallog.contract.types import POSITION_MAX, NodeId
from virtuallog_loglets.native.config import TransferLimits
from virtuallog_loglets.native.core.repair import repairable
from virtuallog_loglets.native.core.wave import Wave
from virtuallog_loglets.native.drivers.tail_check_driver import whole_waves_untrusted
from virtuallog_loglets.native.messages import (
    NativeGetState,
    NativeReadWaves,
    NativeRepair,
    NativeSeal,
    NativeState,
    NativeTrim,
)

ANSWER_SECONDS: Final = 5.0
"""For one piece: some MiB through a disk that has appends to sync as well."""

_BEGUN = CrashPoint("rebuild: a newcomer is told of its copy, nothing is in it", rare=True)
_PIECE = CrashPoint("rebuild: one piece more is on a newcomer, the chain does not name it", rare=True)
_COPIED = CrashPoint("rebuild: a newcomer has everything, it has not been read back", rare=True)


@attrs.define(eq=False)
class NativeRereplication:
    """One loglet, one newcomer."""

    loglet: SegmentId
    sources: Sequence[NodeId]
    """The former servers; any of them may be dead."""
    newcomer: NodeId
    stop: int
    environment: Environment
    pieces: TransferLimits
    pace: Pace

    async def run(self) -> None:
        """See `ReplicatedProvider.replicate`. Cancelling it leaves what has been copied."""
        trim = await self._trim_point()
        state = await self._ask(self.newcomer, NativeSeal(segment=self.loglet, rebuilds=True))
        _BEGUN.reached()
        trim = min(max(trim, state.trim), self.stop)
        at = max(trim, state.local_tail)
        while at < self.stop:
            found = await self._fetch(self.sources, at)
            if not found:  # trimmed meanwhile, or every copy is lost
                raise UnavailableError(f"no server of loglet {self.loglet} has offset {at}")
            await self._store(found)
            at = found[-1].stop
        _COPIED.reached()
        await self._verify(trim)
        await self._ask(self.newcomer, NativeSeal(segment=self.loglet, rebuilds=True, whole=True))
        if trim > 0:
            await self._ask(self.newcomer, NativeTrim(segment=self.loglet, offset=trim, known_tail=self.stop))

    async def _trim_point(self) -> int:
        """Below, servers may have nothing any more. The highest that any of them knows: a trim may have reached few."""
        points: list[int] = []
        for server in self.sources:
            try:
                points.append((await self._ask(server, NativeGetState(segment=self.loglet))).trim)
            except SealedError:
                raise  # dropped: the chain has moved on without us
            except VirtualLogError:
                continue
        if not points:
            raise UnavailableError(f"no server of loglet {self.loglet} answers")
        return max(points)

    async def _verify(self, start: int) -> None:
        """A server may have a hole: when it lagged it took waves that came after what others had committed. So look."""
        at = start
        while at < self.stop:
            found = await self._fetch((self.newcomer,), at)
            if not found:
                raise CorruptionError(f"the copy of loglet {self.loglet} on node {self.newcomer} lacks offset {at}")
            at = found[-1].stop

    async def _fetch(self, servers: Sequence[NodeId], at: int) -> list[Wave]:
        """The next waves from `at` on, with checksums that are right; none, if all have answered and nobody has them.

        Raises:
            UnavailableError: a server that may have them did not answer.
        """
        request = NativeReadWaves(segment=self.loglet, start=at, stop=self.stop, max_bytes=self.pieces.repair_bytes)
        unheard: VirtualLogError | None = None
        for server in servers:
            try:
                reply = await self.environment.services.call(server, request, ANSWER_SECONDS)
            except SealedError:
                raise
            except VirtualLogError as error:
                unheard = error
                continue
            if found := self._usable(whole_waves_untrusted(self.loglet, reply), at):
                await self.pace(sum(len(wave.blob) for wave in found))
                return found
        if unheard is not None:
            raise UnavailableError(f"no server that answered has offset {at} of loglet {self.loglet}: {unheard}")
        return []

    def _usable(self, waves: Sequence[Wave], at: int) -> list[Wave]:
        """Those from `at` on, without a gap, that begin below the stop. The last one may reach past it: who made the loglet a part of
        his own ends where another part does. It is committed like all that begins below a tail that was checked, as waves
        are committed whole."""
        return repairable([wave for wave in waves if wave.first < self.stop], at, POSITION_MAX)

    async def _store(self, found: Sequence[Wave]) -> None:
        """Everything below the stop is committed, as the segment is closed; but nothing is skipped here, only trimmed."""
        blobs, first = tuple(wave.blob for wave in found), found[0].first
        request = NativeRepair(segment=self.loglet, waves=blobs, known_tail=first, rebuilds=True)
        reply = await self.environment.services.call(self.newcomer, request, ANSWER_SECONDS)
        if not reply.accepted or reply.local_tail < found[-1].stop:
            raise UnavailableError(f"node {self.newcomer} did not take offset {found[0].first} of loglet {self.loglet}")
        _PIECE.reached()

    async def _ask(self, server: NodeId, request: NativeGetState | NativeSeal | NativeTrim) -> NativeState:
        return await self.environment.services.call(server, request, ANSWER_SECONDS)
