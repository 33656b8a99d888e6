"""Re-replication: rebuilds a lost copy of a closed loglet on a server that is new in its set.

    seal the newcomer --> fetch a piece from any former server, repair it into the newcomer, ... --> read all back
                      --> say that it is whole --> trim it

Delos, OSDI'20, section 3.2: a sealed segment is rebuilt by `reconfigModify`, and the tail is not
disturbed. The loglet keeps its id and its waves their bytes. So the copy uses the same request as a
repair. Two concurrent copiers do no harm, and one that dies leaves a beginning that the next one
continues. The server itself refuses a wave that is cut, damaged or of another loglet.

No client counts on the newcomer before the chain names it. By then it has every wave between the
trim point and the stop. So whatever a majority of the former servers had, a majority of the new
ones has. It is sealed first: then a majority of the new servers refuses stores of a sequencer that
still uses the former ones.

If a server of the set has lost its disk, the chain names the newcomer all the time. It speaks for
the loglet, and takes requests other than these repairs, only once the request says that the copy is
whole. Until then it is not sealed (`LogServer`).

One piece is in flight at a time, so memory does not depend on the size of the loglet.
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
from virtuallog_loglets.native.core.suffix_repair import repairable
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
"""Time limit for one piece, in seconds: some MiB through a disk that has appends to sync as well."""

_BEGUN = CrashPoint("rebuild: a newcomer is told of its copy, nothing is in it", rare=True)
_PIECE = CrashPoint("rebuild: one piece more is on a newcomer, the chain does not name it", rare=True)
_COPIED = CrashPoint("rebuild: a newcomer has everything, it has not been read back", rare=True)


@attrs.define(eq=False)
class NativeRereplication:
    """Copy of one loglet to one newcomer."""

    loglet: SegmentId
    sources: Sequence[NodeId]
    """Former servers; any of them may be dead."""
    newcomer: NodeId
    stop: int
    environment: Environment
    limits: TransferLimits
    pace: Pace

    async def run(self) -> None:
        """Copy everything (see `ReplicatedProvider.replicate`). Cancelling it leaves what has been copied."""
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
        """Highest trim point that any former server knows. Below it they may have nothing; a trim
        may have reached few."""
        points: list[int] = []
        for server in self.sources:
            try:
                points.append((await self._ask(server, NativeGetState(segment=self.loglet))).trim)
            except SealedError:
                raise  # dropped: the chain has moved on without this loglet
            except VirtualLogError:
                continue
        if not points:
            raise UnavailableError(f"no server of loglet {self.loglet} answers")
        return max(points)

    async def _verify(self, start: int) -> None:
        """Read the whole copy back. A server that lagged may have a hole: it took waves after what
        others had committed."""
        at = start
        while at < self.stop:
            found = await self._fetch((self.newcomer,), at)
            if not found:
                raise CorruptionError(f"the copy of loglet {self.loglet} on node {self.newcomer} lacks offset {at}")
            at = found[-1].stop

    async def _fetch(self, servers: Sequence[NodeId], at: int) -> list[Wave]:
        """Fetch the next waves from `at`, with valid checksums. Returns [] if all servers answered
        and none has them.

        Raises:
            UnavailableError: a server that may have them did not answer.
        """
        request = NativeReadWaves(segment=self.loglet, start=at, stop=self.stop, max_bytes=self.limits.repair_bytes)
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
        """Waves from `at`, without a gap, that begin below the stop. The last one may reach past
        it.

        A caller that makes the loglet a part of a larger one ends it where another part ends. The
        last wave is committed like all that begins below a checked tail, because waves are
        committed whole.
        """
        return repairable([wave for wave in waves if wave.first < self.stop], at, POSITION_MAX)

    async def _store(self, found: Sequence[Wave]) -> None:
        """Store waves on the newcomer.

        Everything below the stop is committed, as the segment is closed. But nothing is skipped
        here, only trimmed: so the known tail of the request is the first offset.
        """
        blobs, first = tuple(wave.blob for wave in found), found[0].first
        request = NativeRepair(segment=self.loglet, waves=blobs, known_tail=first, rebuilds=True)
        reply = await self.environment.services.call(self.newcomer, request, ANSWER_SECONDS)
        if not reply.accepted or reply.local_tail < found[-1].stop:
            raise UnavailableError(f"node {self.newcomer} did not take offset {found[0].first} of loglet {self.loglet}")
        _PIECE.reached()

    async def _ask(self, server: NodeId, request: NativeGetState | NativeSeal | NativeTrim) -> NativeState:
        return await self.environment.services.call(server, request, ANSWER_SECONDS)
