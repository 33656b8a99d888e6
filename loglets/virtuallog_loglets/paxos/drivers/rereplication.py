"""Re-replication: rebuilds the copy of a closed log on one node, for instance after a lost disk.

    make a replica there --> drop what is truncated --> fetch learned positions from any source, have them learned, ...
                         --> the SEAL is learned, with everything below --> read all back --> trim it

Learned positions are final, so copying needs no vote. Two copiers do no harm to each other. A copier that dies leaves a
beginning that the next one continues. A cut or damaged value is refused by its checksum. The log keeps its id, and no
check counts on the copy before it is whole: until it has learned the SEAL it says nothing about the tail. It never votes.
Once whole, it answers for the log like any other replica.

One piece is in flight at a time, for a log of any size. Delos, OSDI'20, section 3.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

import attrs

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import CorruptionError, RetryableError, SealedError, UnavailableError, VirtualLogError
from virtuallog.contract.ports import Environment, Request
from virtuallog.contract.provider import Pace
from virtuallog.contract.types import NodeId
from virtuallog.runtime import log
from virtuallog_loglets.paxos.core.gap_repair import tombstone, usable_untrusted
from virtuallog_loglets.paxos.messages import (
    NOWHERE,
    GetStanding,
    Learn,
    PaxosRecord,
    PaxosRecords,
    ReadRecords,
    Standing,
    TrimSealed,
)
from virtuallog_loglets.paxos.offsets import position_of

ANSWER_SECONDS: Final = 5.0
"""Timeout for one piece: some MiB through a disk that syncs appends as well."""
PIECE_BYTES: Final = 4 << 20
"""Bytes copied in one step; a single larger value is allowed."""

ReplyT = TypeVar("ReplyT")

_BEGUN = CrashPoint("paxos rebuild: a newcomer is told of its copy, nothing is in it", rare=True)
_PIECE = CrashPoint("paxos rebuild: one piece more is on a newcomer, the chain does not name it", rare=True)
_COPIED = CrashPoint("paxos rebuild: a newcomer has everything, it has not been read back", rare=True)


@attrs.define(eq=False)
class PaxosRereplication:
    """Copies one closed log to one server."""

    loglet: SegmentId
    sources: Sequence[NodeId]
    """Former replicas; some of them may be dead."""
    newcomer: NodeId
    """Server that gets the copy."""
    stop: int
    """Loglet offset of the end of the segment, that is, of the SEAL."""
    environment: Environment
    pace: Pace
    piece_bytes: int = PIECE_BYTES

    async def run(self) -> None:
        """Make the copy on the newcomer whole; see `ReplicatedProvider.replicate`.

        If cancelled, copied positions stay.
        """
        begin, trim = await self._limits()
        standing = await self._learn(())
        _BEGUN.reached()
        if standing.learned < begin:
            standing = await self._learn((tombstone(begin),))
        while standing.seal == NOWHERE:
            standing = await self._copy_from(standing.learned)
        _COPIED.reached()
        await self._verify(standing.begin)
        if trim > 0:
            await self._ask(self.newcomer, TrimSealed(segment=self.loglet, offset=min(trim, self.stop)))

    async def complete(self) -> None:
        """Make the copy on a former replica whole.

        It may have missed the end, and the chain will count it as a copy when those that could tell it are shut down. One
        that does not answer delays no newcomer: once it is back it fetches the rest by itself
        (`ReplicaService.refresh_holders`).

        Raises:
            SealedError, CorruptionError: as from `run`.
        """
        try:
            standing = await self._ask(self.newcomer, GetStanding(segment=self.loglet))
            if standing.seal == NOWHERE:
                await self.run()
        except RetryableError as error:
            log.info("not whole yet", segment=str(self.loglet), node=self.newcomer, reason=str(error))

    async def _limits(self) -> tuple[int, int]:
        """Highest begin and highest trim point of all sources; below these, replicas may have nothing any more."""
        standings: list[Standing] = []
        for source in self.sources:
            try:
                standings.append(await self._ask(source, GetStanding(segment=self.loglet)))
            except SealedError:
                raise  # the loglet was dropped: the chain has moved on
            except VirtualLogError:
                continue
        if not standings:
            raise UnavailableError(f"no replica of loglet {self.loglet} answers")
        return max(standing.begin for standing in standings), max(standing.trim for standing in standings)

    async def _copy_from(self, at: int) -> Standing:
        """Copy one piece from position `at` on and return the newcomer's standing."""
        found, begin = await self._fetch(self.sources, at)
        if not found and begin > at:  # truncated meanwhile
            found = (tombstone(begin),)
        if not found:
            raise UnavailableError(f"no replica of loglet {self.loglet} has learned position {at}")
        standing = await self._learn(found)
        if standing.learned <= at and standing.seal == NOWHERE:
            raise UnavailableError(f"node {self.newcomer} did not take position {at} of loglet {self.loglet}")
        _PIECE.reached()
        return standing

    async def _verify(self, at: int) -> None:
        """Read the copy back: everything is readable and nothing is missing up to the SEAL."""
        while at <= self._seal:
            found, begin = await self._fetch((self.newcomer,), at)
            if not found and begin <= at:
                raise CorruptionError(f"the copy of loglet {self.loglet} on node {self.newcomer} lacks position {at}")
            at = max(begin, found[-1].position + 1 if found else 0)

    @property
    def _seal(self) -> int:
        return position_of(self.stop)

    async def _fetch(self, nodes: Sequence[NodeId], at: int) -> tuple[tuple[PaxosRecord, ...], int]:
        """Next intact learned records from `at` on, and the begin of the log. No records if all answered and none has them.

        Raises:
            UnavailableError: a replica that may have them did not answer.
        """
        request = ReadRecords(segment=self.loglet, first=at, stop=self._seal + 1, max_bytes=self.piece_bytes)
        last_error: VirtualLogError | None = None
        begin = 0
        for node in nodes:
            try:
                reply: PaxosRecords = await self._ask(node, request)
            except SealedError:
                raise
            except VirtualLogError as error:
                last_error = error
                continue
            begin = max(begin, reply.standing.begin)
            if found := usable_untrusted(reply.records, at, self._seal + 1):
                await self.pace(sum(len(record.value) for record in found))
                return found, begin
        if last_error is not None and begin <= at:
            raise UnavailableError(f"no replica that answered has position {at} of loglet {self.loglet}: {last_error}")
        return (), begin

    async def _learn(self, records: tuple[PaxosRecord, ...]) -> Standing:
        return await self._ask(self.newcomer, Learn(segment=self.loglet, records=records, rebuilds=True))

    async def _ask(self, node: NodeId, request: Request[ReplyT]) -> ReplyT:
        return await self.environment.services.call(node, request, ANSWER_SECONDS)
