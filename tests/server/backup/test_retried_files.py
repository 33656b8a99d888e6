"""Requests to a place that are made again: what is certain, what is not, and an end."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from tests.server.backup.places import URL, InterruptedFiles, MemoryPlace
from virtuallog.contract.errors import StorageError, UnavailableError, VirtualLogError
from virtuallog.runtime.clock import SystemClock
from virtuallog_server.backup.retried_files import ATTEMPTS_MAX, RetriedFiles

CLOCK = SystemClock()


def failing(
    place: MemoryPlace, *, before: int = 0, after: int = 0, error: type[VirtualLogError] = UnavailableError
) -> RetriedFiles:
    """Files whose first requests fail, so many before they take effect, then so many after."""
    left = {"before": before, "after": after}

    async def interrupted(when: str) -> None:
        if left[when]:
            left[when] -= 1
            raise error("not this time")

    return RetriedFiles(
        InterruptedFiles(place(URL), lambda: interrupted("before"), lambda: interrupted("after")), CLOCK
    )


async def test_a_request_is_made_again(autojump_clock: MockClock) -> None:
    """Any kind of request, and also one that took effect the first time."""
    place = MemoryPlace()
    files = failing(place, before=2, after=2)
    await files.write("a", b"1")
    assert await failing(place, before=3).read("a") == b"1"
    assert await failing(place, after=3).read_range("a", 0, 9) == b"1"
    assert await failing(place, after=3).list() == {"a": 1}
    await failing(place, after=2).delete("a")
    assert await failing(place, before=1).directories() == []


async def test_a_file_that_must_not_be_replaced(autojump_clock: MockClock) -> None:
    """The answer to the write was lost: it is found out who wrote the file. It is another one's if it differs, or was there before."""
    place = MemoryPlace()
    assert await failing(place, after=2).write("mine", b"1", replace=False)
    assert not await failing(place, after=1).write("mine", b"2", replace=False)
    assert not await failing(place).write("mine", b"1", replace=False)
    assert place(URL).content == {"mine": b"1"}


async def test_attempts_are_bounded(autojump_clock: MockClock) -> None:
    """A place that never answers costs some seconds; one that refuses for good costs one request."""
    began = autojump_clock.current_time()
    with pytest.raises(UnavailableError):
        await failing(MemoryPlace(), before=ATTEMPTS_MAX).read("a")
    assert 5 < autojump_clock.current_time() - began < 60
    assert await failing(MemoryPlace(), before=ATTEMPTS_MAX - 1).read("a") is None
    began = autojump_clock.current_time()
    with pytest.raises(StorageError):
        await failing(MemoryPlace(), before=1, error=StorageError).read("a")
    assert autojump_clock.current_time() == began
