"""Turns what one LogServer gave for a range into what a reader gets.                                              Pure."""

from __future__ import annotations

import attrs

from virtuallog.api import Placed
from virtuallog.chain import SegmentId
from virtuallog.errors import CorruptionError, VirtualLogError
from virtuallog.types import Gap, GapKind
from virtuallog_loglets.native import wave as waves
from virtuallog_loglets.native.messages import Waves


@attrs.frozen
class Copy:
    """What one server has of [start, ...), without holes; and what was wrong with the rest, if anything."""

    items: list[Placed]
    damage: VirtualLogError | None


def assemble_untrusted(segment: SegmentId, reply: Waves, start: int, stop: int) -> Copy:
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
                    return Copy(items, None)
                items.append(part)
                start = part.stop
    except VirtualLogError as error:
        return Copy(items, error)
    return Copy(items, None)


def _parse_untrusted(segment: SegmentId, blob: bytes) -> waves.Wave:
    wave = waves.parse_untrusted(blob)
    if wave.segment != segment:
        raise CorruptionError(f"a wave of loglet {wave.segment} was read from loglet {segment}")
    return wave
