"""Placed batches for a reader, from the records that one replica returned."""

from __future__ import annotations

import attrs

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import CorruptionError, VirtualLogError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.types import Gap, GapKind
from virtuallog_loglets.raft.core import records
from virtuallog_loglets.raft.messages import RaftRecords


@attrs.frozen
class RaftCopy:
    """Batches that one replica has of [start, ...), without holes, and the damage that ended them, if any."""

    items: list[Placed]
    damage: VirtualLogError | None


def assemble_untrusted(segment: SegmentId, reply: RaftRecords, start: int, stop: int) -> RaftCopy:
    """Assemble the batches from `start`.

    The result begins exactly at `start` unless it is empty. An empty one only says that this replica does not know it to be
    committed.
    """
    items: list[Placed] = []
    trimmed = min(reply.standing.trim, stop)
    if trimmed > start:
        items.append(Gap(start, trimmed, GapKind.TRIMMED))
        start = trimmed
    try:
        for blob in reply.records:
            record = records.parse_untrusted(blob)
            if record.segment != segment:
                raise CorruptionError(f"a record of loglet {record.segment} was read from loglet {segment}")
            for placed in record.placed():
                part = placed.clip(start, stop)
                if part is None:
                    continue
                if part.start != start:
                    return RaftCopy(items, None)
                items.append(part)
                start = part.stop
    except VirtualLogError as error:
        return RaftCopy(items, error)
    return RaftCopy(items, None)
