"""Placed batches for a reader, from the waves that one log server returned."""

from __future__ import annotations

import attrs

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import CorruptionError, VirtualLogError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.types import Gap, GapKind
from virtuallog_loglets.native.core import wave as waves
from virtuallog_loglets.native.messages import NativeWaves


@attrs.frozen
class NativeCopy:
    """Batches that one server has of [start, ...), without holes, and the damage that ended them, if any."""

    items: list[Placed]
    damage: VirtualLogError | None


def assemble_untrusted(segment: SegmentId, reply: NativeWaves, start: int, stop: int) -> NativeCopy:
    """Assemble the batches from `start`.

    The result begins exactly at `start` unless it is empty. An empty one only says that this server
    does not have the data.
    """
    items: list[Placed] = []
    trimmed = min(reply.state.trim, stop)
    if trimmed > start:
        items.append(Gap(start, trimmed, GapKind.TRIMMED))
        start = trimmed
    try:
        for blob in reply.waves:
            for placed in _parse_untrusted(segment, blob).placed():
                part = placed.clip(start, stop)
                if part is None:
                    continue
                if part.start != start:
                    return NativeCopy(items, None)
                items.append(part)
                start = part.stop
    except VirtualLogError as error:
        return NativeCopy(items, error)
    return NativeCopy(items, None)


def _parse_untrusted(segment: SegmentId, blob: bytes) -> waves.Wave:
    wave = waves.parse_untrusted(blob)
    if wave.segment != segment:
        raise CorruptionError(f"a wave of loglet {wave.segment} was read from loglet {segment}")
    return wave
