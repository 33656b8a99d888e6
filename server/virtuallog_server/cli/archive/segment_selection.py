"""The closed segments that a command means, one after the other, while the chain goes on changing.

What a command does with each may take an hour: trims drop some that it has not come to, or those that it is busy with, and nodes
that are replaced give others new ids. So the chain is read again before each, and after an error.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.chain import Chain, Segment, SegmentId
from virtuallog.contract.errors import InvalidSettingError, VirtualLogError
from virtuallog.contract.register import Register

ALL: Final = "all"

Means: TypeAlias = Callable[[Segment], bool]
Work: TypeAlias = Callable[[Register, Segment], Awaitable[None]]


def chosen(chain: Chain, wanted: str) -> Sequence[Segment]:
    """The closed segments that the command means.

    Raises:
        InvalidSettingError: there is no such segment.
    """
    if wanted == ALL:
        return [segment for segment in chain.segments if segment.stop is not None]
    segment = chain.find(SegmentId.parse(wanted))
    if segment is None:
        raise InvalidSettingError(f"segment {wanted}", "is not in the chain")
    return [segment]


async def each_segment(log: VirtualLog, wanted: str, means: Means, work: Work) -> None:
    """Have the work done for each, in order. Of `all`, those that `means` says; one that left the chain meanwhile is none of them.

    Raises:
        VirtualLogError: what the work raises for a segment that is still in the chain.
    """
    if wanted != ALL:
        register = await log.view.refresh()
        await work(register, chosen(register.chain, wanted)[0])
        return
    done = 0
    while (segment := _next(register := await log.view.refresh(), done, means)) is not None:
        try:
            await work(register, segment)
        except VirtualLogError:
            if (await log.view.refresh()).chain.find(segment.id) is not None:
                raise
        else:
            assert segment.stop is not None
            done = segment.stop


def _next(register: Register, done: int, means: Means) -> Segment | None:
    """From this position on."""
    return next((segment for segment in chosen(register.chain, ALL) if segment.start >= done and means(segment)), None)
