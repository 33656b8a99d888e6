"""Read of a range: asks one replica after the other.

A replica that has not learned a position, or does not answer, proves nothing. A replica with a damaged copy is not asked
again. Only if all copies are damaged is the range lost to this reader.
"""

from __future__ import annotations

import attrs

from virtuallog.client.replica_order import ReplicaOrder
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import CorruptionError, SealedError, UnavailableError, VirtualLogError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.ports import Environment
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.core import read_assembly
from virtuallog_loglets.paxos.messages import PaxosRecords, ReadRecords
from virtuallog_loglets.paxos.offsets import position_of


@attrs.define(eq=False)
class ReadDriver:
    """One read of offsets in [start, stop)."""

    segment: SegmentId
    start: int
    stop: int
    max_bytes: int
    _environment: Environment
    _replica_order: ReplicaOrder
    """Order of the replicas, shared by all reads: a replica that fails is asked last from then on."""
    has_waited: bool = attrs.field(default=False, init=False)
    """True if the reader has waited for replicas to learn."""
    _damaged: dict[NodeId, VirtualLogError] = attrs.field(factory=dict, init=False)
    """Errors of the replicas with a damaged copy."""
    _last_error: VirtualLogError | None = attrs.field(default=None, init=False)
    """Error of the last replica that did not answer; None if all have answered."""
    _end: int = attrs.field(default=-1, init=False)
    """Highest position that any answering replica knows of."""

    async def ask_all(self, seconds: float) -> list[Placed]:
        """Ask each replica in order; returns the items of the first one that has any, or an empty list.

        Raises:
            SealedError: the loglet has been dropped.
        """
        for replica in [replica for replica in self._replica_order.order() if replica not in self._damaged]:
            copy = await self._ask(replica, seconds)
            if copy is not None and copy.items:
                return copy.items
            if copy is not None and copy.damage is not None:
                self._damaged[replica] = copy.damage
        return []

    @property
    def is_seen_unlearned(self) -> bool:
        """True if a replica knows of the position and none has learned its value."""
        return self._end >= position_of(self.start) and len(self._damaged) < len(self._replica_order.order())

    @property
    def settle_through(self) -> int:
        """Last position to settle: none that no replica has seen, as settling fills free positions."""
        return min(position_of(self.stop - 1), self._end)

    def failure(self) -> VirtualLogError:
        """The error for a read that found nothing. A replica that did not answer may have an intact copy."""
        if len(self._damaged) == len(self._replica_order.order()):
            return CorruptionError(
                f"every copy of offset {self.start} is damaged: {next(iter(self._damaged.values()))}"
            )
        because = f": {self._last_error}" if self._last_error is not None else ""
        return UnavailableError(f"no replica that answered has offset {self.start}{because}")

    async def _ask(self, replica: NodeId, seconds: float) -> read_assembly.PaxosCopy | None:
        try:
            reply = await self._environment.services.call(replica, self._request, seconds)
        except SealedError:
            raise
        except CorruptionError as error:
            return read_assembly.PaxosCopy([], error)
        except VirtualLogError as error:
            self._last_error = error
            self._replica_order.failed(replica)
            return None
        self._end = max(self._end, reply.standing.end)
        return self._assemble(reply)

    def _assemble(self, reply: PaxosRecords) -> read_assembly.PaxosCopy:
        return read_assembly.assemble_untrusted(reply, self.start, self.stop)

    @property
    def _request(self) -> ReadRecords:
        first, stop = position_of(self.start), position_of(self.stop - 1) + 1
        return ReadRecords(segment=self.segment, first=first, stop=stop, max_bytes=self.max_bytes)
