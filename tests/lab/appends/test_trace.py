"""Traces of appends: what is recorded, counts, timelines, and a small run of `virtuallog bench trace`."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from queue import SimpleQueue

import pytest
import trio

from virtuallog.runtime.clock import SystemClock
from virtuallog_lab.trace.counts import count_events
from virtuallog_lab.trace.events import EventKind, ProcessTrace, TraceEvent, name_peers
from virtuallog_lab.trace.kernel import has_strace, parse_strace
from virtuallog_lab.trace.probes import PROBES, Probe, TracedQueue
from virtuallog_lab.trace.timeline import typical_steps
from virtuallog_lab.trace.tracer import Tracer

KIND = EventKind


def event(at: float, kind: EventKind, detail: str = "", *, in_loop: bool = True) -> TraceEvent:
    return TraceEvent(at, kind, detail, in_loop)


# -- what is probed ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.path)
def test_what_is_probed_is_there(probe: Probe) -> None:
    """A function that was renamed would end a node that begins a trace."""
    assert callable(attrgetter(probe.path)(import_module(probe.module)))


# -- what is recorded -------------------------------------------------------------------------------------------------


async def test_a_trace_records_calls_and_turns_and_leaves_no_trace() -> None:
    """Calls before and after it are not recorded, and the wrapped functions are themselves again."""
    read, write, put = os.read, os.write, vars(TracedQueue).get("put")
    tracer, queue = Tracer(SystemClock()), TracedQueue()
    one, other = socket.socketpair()
    with one, other:
        one.send(b"before")
        tracer.begin()
        other.setblocking(False)
        os.write(one.fileno(), b"meanwhile")
        other.recv(100)
        with pytest.raises(BlockingIOError):
            other.recv(100)
        queue.put(1)
        await trio.lowlevel.checkpoint()
        trace = tracer.end()
        one.send(b"after")
        kinds = [each.kind for each in trace.events]

        assert kinds[:4] == [KIND.SENT, KIND.RECEIVED, KIND.READ_IN_VAIN, KIND.HANDED_OVER]
        assert [each.detail for each in trace.events[:2]] == [str(one.fileno()), str(other.fileno())]
        assert {KIND.TURN, KIND.TURN_END, KIND.STEP} <= {*kinds}
    assert (os.read, os.write, vars(TracedQueue).get("put")) == (read, write, put)
    assert TracedQueue.put is SimpleQueue.put


async def test_a_thread_is_told_from_the_loop() -> None:
    """A job goes to a thread and comes back with a call into the loop."""
    tracer, token = Tracer(SystemClock()), trio.lowlevel.current_trio_token()
    came_back = trio.Event()
    tracer.begin()
    await trio.to_thread.run_sync(token.run_sync_soon, came_back.set)
    await came_back.wait()
    events = tracer.end().events
    posted = [each for each in events if each.kind is KIND.POSTED]
    called = [each for each in events if each.kind is KIND.CALLED]

    assert False in {each.in_loop for each in posted}
    assert called
    assert all(each.in_loop for each in called)


def test_a_trace_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Another process takes the file, once it is there."""
    trace = ProcessTrace([event(1.5, KIND.SENT, "7"), event(1.75, KIND.SYNC, in_loop=False)], {"7": (4000, 5000)})
    trace.write(tmp_path / "1.json")

    assert ProcessTrace.take(tmp_path / "2.json") is None
    assert ProcessTrace.take(tmp_path / "1.json") == trace
    assert not [*tmp_path.iterdir()]


def test_a_socket_is_named_after_the_process_at_its_other_end() -> None:
    """Ports pair the ends of a connection. Sockets without ports wake the loop of their own process."""
    named = name_peers({
        "client": ProcessTrace([event(1, KIND.SENT, "3"), event(2, KIND.STEP, "3")], {"3": (4000, 5000)}),
        "sequencer": ProcessTrace(
            [event(1, KIND.RECEIVED, "8"), event(2, KIND.RECEIVED, "9"), event(3, KIND.SENT, "4")],
            {"8": (5000, 4000), "9": (5000, 4001)},
        ),
    })  # fmt: skip

    assert [each.detail for each in named["client"]] == ["sequencer", "3"]
    assert [each.detail for each in named["sequencer"]] == ["client", "another", "itself"]


# -- what is made of it -----------------------------------------------------------------------------------------------


def test_counts_are_those_between_the_first_append_and_the_last() -> None:
    """Two appends; what was before and after them does not count."""
    kinds = [KIND.TURN, KIND.STEP, KIND.BUILT, KIND.PARSED, KIND.BUILT, KIND.TURN, KIND.STEP, KIND.TURN]
    events = [event(at, kind, "Wire.run" if kind is KIND.STEP else "") for at, kind in enumerate(kinds)]
    counts = count_events(events, 1, 7, appends=2)

    assert (counts.turns, counts.built, counts.parsed) == (0.5, 1.0, 0.5)
    assert counts.steps == {"Wire.run": 1.0}
    assert counts.woken == {}


def test_a_typical_append_has_the_steps_of_most() -> None:
    """The third append meets a timer: its times count in no median. Twelve that were held up are not looked at."""
    windows = [(0.0, 0.5), (1.0, 1.5), (2.0, 2.5), (3.0, 3.5), *((float(begin), begin + 0.8) for begin in range(4, 16))]
    sequencer = [
        step
        for begin, delay in ((0.0, 0.1), (1.0, 0.2), (2.0, 0.4), (3.0, 0.3), *((float(b), 0.35) for b in range(4, 16)))
        for step in (
            *([event(begin, KIND.STEP, "a timer")] if begin == 2.0 else []),
            event(begin + delay, KIND.RECEIVED, "client"),
            event(begin + delay, KIND.WOKEN, "a task"),
            event(begin + 2 * delay, KIND.SENT, "client"),
            event(begin + 0.9, KIND.SENT, "client"),
        )
    ]
    client = [event(begin + after, KIND.PARSED) for begin, _ in windows for after in (0.45, 0.55)]
    thread = [event(begin + 0.3, KIND.SYNC, in_loop=False) for begin, _ in windows]
    steps = typical_steps(windows, {"client": client, "sequencer": [*sequencer, *thread]}, "client")

    assert [(s.process, s.in_loop, s.kind, s.number, round(s.at_us), s.share) for s in steps] == [
        ("sequencer", True, KIND.RECEIVED, 1, 200_000, 0.75),
        ("sequencer", False, KIND.SYNC, 1, 300_000, 1.0),
        ("sequencer", True, KIND.SENT, 1, 400_000, 0.75),
        ("client", True, KIND.PARSED, 1, 450_000, 1.0),
        ("sequencer", True, KIND.SENT, 2, 900_000, 0.75),
    ]


def test_the_table_of_strace_is_read() -> None:
    """Counts by name, without the heading and the sum."""
    text = "    calls syscall\n--------- ----------------\n     1202 futex\n       31 epoll_wait\n--------- ------\n     1233 total\n"

    assert parse_strace(text) == {"futex": 1202, "epoll_wait": 31}


@pytest.mark.processes
@pytest.mark.slow
def test_a_small_run_traces_the_product_and_the_floor(tmp_path: Path) -> None:
    """`bench trace`: a lone append is a message each way for its client, and two of three disks sync before it ends."""
    picture = tmp_path / "trace.png"
    arguments = ["bench", "trace", "--outstanding", "1,8", "--seconds", "0.4", "--picture", str(picture), "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "virtuallog_server", *arguments], capture_output=True, text=True, timeout=200, check=True
    )

    found = json.loads(done.stdout)
    assert [(trace["system"], trace["outstanding"]) for trace in found["traces"]] == [
        (system, number) for system in ("VirtualLog, native", "floor") for number in (1, 8)
    ]
    for lone in found["traces"][::2]:
        client, sequencer = lone["processes"]["client"], lone["processes"]["sequencer"]
        # More on a slow machine, where fewer appends share what the client says besides.
        assert min(client["events"]["built"], client["events"]["parsed"]) > 0.7
        assert min(client["cpu_us"], sequencer["hand_overs"], sequencer["events"]["turns"]) > 0
        assert ("fdatasync" in sequencer["system_calls"]) == has_strace()
        disks = [step for step in lone["steps"] if step["kind"] == KIND.SYNCED]
        assert {step["process"] for step in disks} == {"sequencer", "log server 1", "log server 2"}
        # A fast disk is synced within the turn by the product, and always in a thread by the floor.
        assert lone["system"] != "floor" or not any(step["in_loop"] for step in disks)
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
