"""Selection of the closed segments that a command names, one after the other, while the chain changes.

The work on one segment may take an hour. Meanwhile trims drop segments that are still to come, or the one at work, and
replaced nodes give others new ids. So the chain is read again before each segment, and after an error.
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
    """The closed segments that `wanted` names.

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
    """Run `work` on each closed segment that `wanted` names, in order.

    With `all`, on those that `means` accepts; a segment that left the chain meanwhile is skipped.

    Raises:
        VirtualLogError: the work failed on a segment that is still in the chain.
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
    """The first accepted segment that starts at `done` or later. None if there is none."""
    return next((segment for segment in chosen(register.chain, ALL) if segment.start >= done and means(segment)), None)
