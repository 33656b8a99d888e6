"""Traces of `virtuallog paxos-log benchmark`."""

from __future__ import annotations

import random

import pytest
import trio
import trio.testing

from virtuallog.contract.errors import InvalidSettingError, UnavailableError
from virtuallog.runtime.clock import SystemClock
from virtuallog_server.cli.paxos_log.trace import Appended, Content, entries, parse_trace, replay


def test_a_trace_is_one_size_per_line() -> None:
    """Units are those of Mesos, of 1024 each."""
    assert parse_trace(["100B\n", "\n", " 4KB \n", "2MB"], bytes_max=4 << 20) == [100, 4096, 2 << 20]


@pytest.mark.parametrize("line", ["100", "B", "-1B", "1.5KB", "100 B", "1TB", "5MB", "9" * 50 + "B"])
def test_what_is_no_size_is_refused_with_its_line(line: str) -> None:
    """Before anything is appended."""
    with pytest.raises(InvalidSettingError, match="line 2"):
        parse_trace(["1B", line], bytes_max=4 << 20)


@pytest.mark.parametrize(("content", "expected"), [(Content.ZERO, b"\x00\x00"), (Content.ONE, b"\xff\xff")])
def test_entries_are_what_was_asked_for(content: Content, expected: bytes) -> None:
    """Entries have the sizes of the trace; random ones differ."""
    assert list(entries([2, 0], content, random.Random(1))) == [expected, b""]
    first, second = entries([16, 16], Content.RANDOM, random.Random(1))
    assert first != second


async def test_so_many_are_under_way_and_each_is_told(autojump_clock: trio.testing.MockClock) -> None:
    """In the order of the trace; the total counts what was done."""
    taken: list[bytes] = []
    told: list[Appended] = []
    under_way = most = 0

    async def append(data: bytes) -> int:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        taken.append(data)
        await trio.sleep(0.01)  # noqa: TID251 -- of a mock clock
        under_way -= 1
        return 1

    payloads = [bytes([number]) for number in range(10)]
    total = await replay(append, iter(payloads), SystemClock(), told.append, outstanding=3)

    assert (taken, most) == (payloads, 3)
    assert (total.appends, total.bytes) == (10, 10)
    assert [len(str(each).split("\t")) for each in told] == [3] * 10


async def test_a_maybe_ends_it() -> None:
    """It is not counted, and nothing follows."""
    taken: list[bytes] = []

    async def append(data: bytes) -> int | None:
        taken.append(data)
        return None if data == b"2" else 1

    with pytest.raises(BaseExceptionGroup) as failed:
        await replay(append, iter([b"1", b"2", b"3"]), SystemClock(), lambda appended: None)

    assert isinstance(failed.value.exceptions[0], UnavailableError)
    assert taken == [b"1", b"2"]


async def test_an_append_that_takes_too_long_ends_it(autojump_clock: trio.testing.MockClock) -> None:
    """Ten seconds, as in Mesos."""

    async def append(data: bytes) -> None:
        await trio.sleep_forever()

    with pytest.raises(BaseExceptionGroup) as failed:
        await replay(append, iter([b"1"]), SystemClock(), lambda appended: None)

    assert "within 10 s" in str(failed.value.exceptions[0])
