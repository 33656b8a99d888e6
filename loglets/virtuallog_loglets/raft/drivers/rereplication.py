"""Re-replication: rebuilds a lost copy of a closed loglet on a replica that is new in its set.

    fetch a piece from any former replica, have the newcomer take it, ... --> read all back

A copy begins at the trim and ends with the SEAL: from then on the newcomer answers from it, as any replica does that knows
the SEAL to be committed. Until then it answers nothing about the loglet, and it never votes. Records keep their bytes. Two
concurrent copiers do no harm, and one that dies leaves a beginning that the next one continues.
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
from virtuallog_loglets.raft.config import RaftLimits
from virtuallog_loglets.raft.core import records
from virtuallog_loglets.raft.core.records import RaftRecord, RecordKind
from virtuallog_loglets.raft.messages import CopyRecords, RaftGetStanding, RaftRecords, RaftStanding, ReadRaftRecords

ANSWER_SECONDS: Final = 5.0
"""Time limit for one piece, in seconds: some MiB through a disk that has appends to sync as well."""

_PIECE = CrashPoint("raft: one piece more of a closed loglet is on a newcomer, the chain does not name it", rare=True)


@attrs.define(eq=False)
class RaftRereplication:
    """Copy of one loglet to one newcomer."""

    loglet: SegmentId
    sources: Sequence[NodeId]
    """Former replicas; any of them may be dead."""
    newcomer: NodeId
    environment: Environment
    pace: Pace
    piece_bytes: int = RaftLimits().piece_bytes
    """See `RaftLimits`."""

    async def run(self) -> None:
        """Copy everything (see `ReplicatedProvider.replicate`). Cancelling it leaves what has been copied."""
        standing = await self._begun()
        at, trim = (0, 0) if standing is None else (standing.tail, standing.trim)
        while standing is None or not standing.sealed:
            found, source = await self._fetch(self.sources, max(at, trim))
            trim = max(trim, source.trim)
            request = CopyRecords(segment=self.loglet, records=tuple(each.blob for each in found), trim=trim)
            standing = await self.environment.services.call(self.newcomer, request, ANSWER_SECONDS)
            at = standing.tail
            _PIECE.reached()
        await self._verify(standing)

    async def _begun(self) -> RaftStanding | None:
        """Return the standing of the newcomer; None if it has no part of the copy."""
        try:
            return await self.environment.services.call(
                self.newcomer, RaftGetStanding(segment=self.loglet), ANSWER_SECONDS
            )
        except SealedError:
            return None
        except UnavailableError:
            return None

    async def _verify(self, standing: RaftStanding) -> None:
        """Read the whole copy back.

        Raises:
            CorruptionError: something is missing or damaged.
        """
        at = standing.trim
        while at < standing.tail:
            found, _ = await self._fetch((self.newcomer,), at)
            if found[-1].stop <= at:
                raise CorruptionError(f"the copy of loglet {self.loglet} on node {self.newcomer} lacks offset {at}")
            at = found[-1].stop

    async def _fetch(self, servers: Sequence[NodeId], at: int) -> tuple[list[RaftRecord], RaftStanding]:
        """The next records from `at`, with valid checksums, and what their replica knows.

        Raises:
            UnavailableError: no replica that answers has them, and knows the loglet to be sealed.
        """
        request = ReadRaftRecords(segment=self.loglet, start=at, stop=POSITION_MAX, max_bytes=self.piece_bytes)
        problem: VirtualLogError | None = None
        for server in servers:
            try:
                reply: RaftRecords = await self.environment.services.call(server, request, ANSWER_SECONDS)
                found = [records.parse_untrusted(blob) for blob in reply.records]
            except VirtualLogError as error:
                problem = error
                continue
            if reply.standing.sealed and found and self._is_usable(found):
                await self.pace(sum(len(record.blob) for record in found))
                return found, reply.standing
        raise UnavailableError(f"no replica that answered has offset {at} of loglet {self.loglet}: {problem}")

    def _is_usable(self, found: Sequence[RaftRecord]) -> bool:
        """True if the newcomer knows more with these: entries, or the SEAL."""
        goes_on = any(record.count > 0 or record.kind is RecordKind.SEAL for record in found)
        return goes_on and all(record.segment == self.loglet for record in found)
