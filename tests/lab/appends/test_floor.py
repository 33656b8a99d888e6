"""The floor: its frames, its processes, and comparisons with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from virtuallog_lab.bench.floor_comparison import FloorComparison, comparison_report
from virtuallog_lab.floor.processes import open_floor
from virtuallog_lab.floor.wire import LENGTH_BYTES, take_frames
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.program import PeerError
from virtuallog_lab.workload.appends import Measurement


@given(st.lists(st.binary(max_size=9), max_size=5), st.integers(1, 20))
def test_frames_are_the_same_however_the_bytes_come(messages: list[bytes], size: int) -> None:
    """A read may end anywhere, also within the length of a frame."""
    data = b"".join(len(message).to_bytes(LENGTH_BYTES, "little") + message for message in messages)
    inbox, found = bytearray(), list[bytes]()
    for start in range(0, len(data), size):
        inbox += data[start : start + size]
        found += take_frames(inbox)

    assert found == messages
    assert not inbox


@pytest.mark.processes
@pytest.mark.slow
async def test_an_entry_is_acknowledged_by_two_of_three() -> None:
    """One log server stands still. Entries are larger than what a socket takes at once, and come back nevertheless."""
    async with open_floor() as floor:
        os.kill(floor.log_servers[0], signal.SIGSTOP)
        async with trio.open_nursery() as nursery:
            for size in (0, 100, 3 << 20, 5 << 20):
                nursery.start_soon(floor.client.append, bytes(size))


@pytest.mark.processes
@pytest.mark.slow
async def test_an_append_fails_when_the_sequencer_has_died() -> None:
    """A measurement ends with an error, and does not wait for ever."""
    with pytest.RaisesGroup(PeerError):
        async with open_floor() as floor:
            os.kill(floor.sequencer, signal.SIGKILL)
            await floor.client.append(b"lost")


def measured(ops_per_s: float, p50_ms: float) -> Measurement:
    return Measurement(outstanding=64, bytes=100, seconds=1, ops=9, ops_per_s=ops_per_s, p50_ms=p50_ms, p99_ms=9)


def test_a_ratio_is_that_of_one_round() -> None:
    """The machine becomes half as fast in the second round, for both: the ratio stays."""
    comparison = FloorComparison(
        floor=[measured(1000, 1.0), measured(500, 2.0), measured(900, 1.0)],
        log=[measured(800, 1.5), measured(400, 3.0), measured(630, 2.0)],
    )
    plain = comparison.plain()
    (table,) = comparison_report([comparison], Machine.look()).tables

    assert (plain["outstanding"], plain["ops_per_s"], plain["floor"]["ops_per_s"]) == (64, 630, 900)
    assert plain["ratio"] == {"ops_per_s": 0.8, "p50_ms": 1.5, "p99_ms": 1.0}
    assert len(plain["rounds"]) == 3
    assert table.rows[0][:4] == ("64", "900 (500-1,000)", "630 (400-800)", "0.80 (0.70-0.80)")


@pytest.mark.processes
@pytest.mark.slow
def test_the_benchmark_measures_the_floor_in_turn() -> None:
    """`bench append --floor`: the fields of a measurement without it, and the ratios."""
    arguments = ["bench", "append", "--floor", "--rounds", "1", "--outstanding", "1,8", "--seconds", "0.3", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "virtuallog_server", *arguments], capture_output=True, text=True, timeout=100, check=True
    )

    found = json.loads(done.stdout)["comparisons"]
    assert [each["outstanding"] for each in found] == [1, 8]
    assert all(min(each["ops_per_s"], each["floor"]["ops_per_s"], each["ratio"]["p50_ms"]) > 0 for each in found)
