"""Turns what one LogServer gave for a range into what a reader gets.                                              Pure."""

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
    """What one server has of [start, ...), without holes; and what was wrong with the rest, if anything."""

    items: list[Placed]
    damage: VirtualLogError | None


def assemble_untrusted(segment: SegmentId, reply: NativeWaves, start: int, stop: int) -> NativeCopy:
    """Begins exactly at `start`, unless it is empty. Nothing at all says only that this server does not have it."""
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
