"""Re-replication: makes the copy of a closed log on one node whole.

    have a replica there --> drop what is truncated --> fetch learned positions from any source, have them learned, ...
                         --> the SEAL is learned, with everything below --> read all back --> trim it

What is learned is final, so what is copied needs no vote: two copiers do no harm to each other, one that dies leaves a
beginning that the next one continues, and a value that is cut or damaged is refused by its checksum. The log keeps its id,
and nobody counts on the copy before it is whole: until it has learned the SEAL, it says nothing about the tail, and never
does it vote. Then it speaks for the log like any other.

One piece is under way at a time, whatever the size of the log. Delos, OSDI'20, section 3.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

import attrs
import structlog

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import CorruptionError, RetryableError, SealedError, UnavailableError, VirtualLogError
from virtuallog.contract.ports import Environment, Request
from virtuallog.contract.provider import Pace
from virtuallog.contract.types import NodeId
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
"""For one piece: some MiB through a disk that has appends to sync as well."""
PIECE_BYTES: Final = 4 << 20
"""How much is copied in one step; one larger value may be."""

ReplyT = TypeVar("ReplyT")

log = structlog.get_logger(__name__)

_BEGUN = CrashPoint("paxos rebuild: a newcomer is told of its copy, nothing is in it", rare=True)
_PIECE = CrashPoint("paxos rebuild: one piece more is on a newcomer, the chain does not name it", rare=True)
_COPIED = CrashPoint("paxos rebuild: a newcomer has everything, it has not been read back", rare=True)


@attrs.define(eq=False)
class PaxosRereplication:
    """One closed log, one server that is to have all of it."""

    loglet: SegmentId
    sources: Sequence[NodeId]
    """The former replicas; any of them may be dead."""
    newcomer: NodeId
    stop: int
    """Loglet offset of the end of the segment: where the SEAL is."""
    environment: Environment
    pace: Pace
    piece_bytes: int = PIECE_BYTES

    async def run(self) -> None:
        """See `ReplicatedProvider.replicate`. Cancelling it leaves what has been copied."""
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
        """The same for one that has been a replica all along. It may have missed the end, and the chain will count it as a copy
        when those that could tell it are shut down. One that does not answer keeps no newcomer waiting: once it is back it
        looks for the rest by itself, see `ReplicaService.refresh_holders`.

        Raises:
            SealedError, CorruptionError: as above.
        """
        try:
            standing = await self._ask(self.newcomer, GetStanding(segment=self.loglet))
            if standing.seal == NOWHERE:
                await self.run()
        except RetryableError as error:
            log.info("not whole yet", segment=str(self.loglet), node=self.newcomer, reason=str(error))

    async def _limits(self) -> tuple[int, int]:
        """Below, replicas may have nothing any more: the highest begin and trim point that any of them knows of."""
        standings: list[Standing] = []
        for source in self.sources:
            try:
                standings.append(await self._ask(source, GetStanding(segment=self.loglet)))
            except SealedError:
                raise  # dropped: the chain has moved on without us
            except VirtualLogError:
                continue
        if not standings:
            raise UnavailableError(f"no replica of loglet {self.loglet} answers")
        return max(standing.begin for standing in standings), max(standing.trim for standing in standings)

    async def _copy_from(self, at: int) -> Standing:
        """One piece; how the newcomer stands then."""
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
        """What it has stored can be read, and nothing is missing up to the SEAL."""
        while at <= self._seal:
            found, begin = await self._fetch((self.newcomer,), at)
            if not found and begin <= at:
                raise CorruptionError(f"the copy of loglet {self.loglet} on node {self.newcomer} lacks position {at}")
            at = max(begin, found[-1].position + 1 if found else 0)

    @property
    def _seal(self) -> int:
        return position_of(self.stop)

    async def _fetch(self, nodes: Sequence[NodeId], at: int) -> tuple[tuple[PaxosRecord, ...], int]:
        """The next learned positions from `at` on, whole; none, if all have answered and nobody has them. And where the log
        begins, by the last answer.

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
