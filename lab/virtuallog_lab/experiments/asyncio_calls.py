#!/usr/bin/env python3
"""Calls of the log from trio and from asyncio, in turn, on three nodes on loopback.

    python -m virtuallog_lab.experiments.asyncio_calls
    python -m virtuallog_lab.experiments.asyncio_calls --rounds 9 --seconds 3 --markdown

One round measures each call with each number of callers through both, one right after the other, and the next round in the other
order. The difference is taken within a round. Both clients are of this process, with the interpreter's usual switch interval.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from statistics import median
from typing import Final, TypeAlias

import attrs
import click
import trio

from virtuallog import aio
from virtuallog.client.cluster_file import ClusterFile
from virtuallog.connect import connect
from virtuallog.runtime.clock import SystemClock
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.options import Form, form_options, whole_numbers
from virtuallog_lab.harness.program import run_to_end
from virtuallog_lab.harness.report import Report, Table, middle_and_ends, tell
from virtuallog_lab.harness.trial import temporary_cluster
from virtuallog_lab.workload.appends import percentile

CLOCK: Final = SystemClock()
WAYS: Final = ("trio", "asyncio")
CALLS: Final = ("append", "check_tail", "nothing")
"""`nothing` is a function on the client's loop that returns at once: the way there and back by itself."""
SIZE: Final = 100
"""Bytes of an entry."""
WARM: Final = 100
"""Calls at the start that do not count."""
SWITCH_SECONDS: Final = 0.005
"""The interpreter's own interval, as in a user's program."""
FAST: Final = 0.1
"""Share of the calls that other programs of the machine have hardly delayed: what a wake-up costs by itself."""
MEDIAN: Final = 0.5
TARGET_MS: Final = 0.15
"""Most milliseconds that a call of a lone caller may take longer from asyncio."""
Call: TypeAlias = Callable[[], Awaitable[object]]


@attrs.frozen(kw_only=True)
class CallSample:
    """Calls of one kind, of so many callers, through one API."""

    way: str
    call: str
    outstanding: int
    latencies: Sequence[float]
    """Seconds of each call, in ascending order."""
    seconds: float
    """Length of the measurement."""
    cpu_seconds: float
    """CPU time of this process, all threads."""
    wake_ups: int
    """Times that one thread of asyncio's client woke the other."""

    @property
    def per_second(self) -> float:
        return len(self.latencies) / self.seconds

    def milliseconds(self, share: float) -> float:
        """Latency that this share of the calls does not exceed."""
        return 1000 * percentile(self.latencies, share)


@attrs.define
class Callers:
    """Closed loop of some callers for a while."""

    call: Call
    stop: float
    latencies: list[float] = attrs.field(factory=list)

    async def go_on(self) -> None:
        """Call until the end. The same on both loops."""
        while (begin := CLOCK.monotonic()) < self.stop:
            await self.call()
            self.latencies.append(CLOCK.monotonic() - begin)

    async def warm(self) -> None:
        for _ in range(WARM):
            await self.call()


async def run(outstanding: Sequence[int], rounds: int, seconds: float) -> list[CallSample]:
    """Measure all rounds on one cluster."""
    samples = list[CallSample]()
    async with temporary_cluster() as cluster:
        sys.setswitchinterval(SWITCH_SECONDS)
        for number in range(rounds):
            for call in CALLS:
                for callers in outstanding:
                    for way in WAYS if number % 2 else reversed(WAYS):
                        samples.append(await _measure(way, cluster.file, call, callers, seconds))
            tell(f"round {number + 1} of {rounds}")
    return samples


async def _measure(way: str, cluster: ClusterFile, call: str, callers: int, seconds: float) -> CallSample:
    if way == "trio":
        return await _measure_trio(cluster, call, callers, seconds)
    return await trio.to_thread.run_sync(asyncio.run, _measure_asyncio(cluster, call, callers, seconds))


async def _measure_trio(cluster: ClusterFile, call: str, count: int, seconds: float) -> CallSample:
    async with connect(cluster) as log:
        calls: dict[str, Call] = {
            "append": lambda: log.append(bytes(SIZE)),
            "check_tail": log.check_tail,
            "nothing": lambda: _nothing(log),
        }
        await Callers(calls[call], 0).warm()
        begin, cpu = CLOCK.monotonic(), time.process_time()
        callers = Callers(calls[call], begin + seconds)
        async with trio.open_nursery() as nursery:
            for _ in range(count):
                nursery.start_soon(callers.go_on)
        return _sample("trio", call, count, callers, begin, cpu, 0)


async def _measure_asyncio(cluster: ClusterFile, call: str, count: int, seconds: float) -> CallSample:
    async with aio.connect(cluster) as log:
        calls: dict[str, Call] = {
            "append": lambda: log.append(bytes(SIZE)),
            "check_tail": log.check_tail,
            "nothing": lambda: log.run(_nothing),
        }
        await Callers(calls[call], 0).warm()
        woken, begin, cpu = log.wake_ups, CLOCK.monotonic(), time.process_time()
        callers = Callers(calls[call], begin + seconds)
        await asyncio.gather(*(callers.go_on() for _ in range(count)))
        return _sample("asyncio", call, count, callers, begin, cpu, log.wake_ups - woken)


async def _nothing(_: object) -> None:
    await trio.lowlevel.checkpoint()


def _sample(way: str, call: str, count: int, callers: Callers, begin: float, cpu: float, wake_ups: int) -> CallSample:
    return CallSample(
        way=way,
        call=call,
        outstanding=count,
        latencies=sorted(callers.latencies),
        seconds=CLOCK.monotonic() - begin,
        cpu_seconds=time.process_time() - cpu,
        wake_ups=wake_ups,
    )


def report(machine: Machine, samples: Sequence[CallSample]) -> Report:
    """A row for each call, number of callers and API; the differences are of one round."""
    rows, plain = list[list[str]](), dict[str, dict[str, float]]()
    for call, outstanding in dict.fromkeys((each.call, each.outstanding) for each in samples):
        found = {
            way: [each for each in samples if (each.way, each.call, each.outstanding) == (way, call, outstanding)]
            for way in WAYS
        }
        more = {
            share: [
                one.milliseconds(share) - other.milliseconds(share) for other, one in zip(*found.values(), strict=True)
            ]
            for share in (FAST, MEDIAN)
        }
        for way, those in found.items():
            cpu = [1e6 * each.cpu_seconds / len(each.latencies) for each in those]
            woken = [each.wake_ups / len(each.latencies) for each in those]
            rows.append(
                [
                    f"{call}, {outstanding}, {way}",
                    middle_and_ends([each.per_second for each in those]),
                    *(
                        middle_and_ends([each.milliseconds(share) for each in those], 2)
                        for share in (FAST, MEDIAN, 0.99)
                    ),
                    *(middle_and_ends(each, 2) if way == "asyncio" else "" for each in more.values()),
                    middle_and_ends(cpu),
                    f"{median(woken):.2f}" if way == "asyncio" else "",
                ]
            )
            plain[f"{call}, {outstanding}, {way}"] = {
                "per_second": median(each.per_second for each in those),
                "p10_ms": median(each.milliseconds(FAST) for each in those),
                "median_ms": median(each.milliseconds(MEDIAN) for each in those),
                "cpu_us": median(cpu),
                "wake_ups": median(woken),
            }
        plain[f"{call}, {outstanding}"] = {
            "more_p10_ms": median(more[FAST]),
            "more_ms": median(more[MEDIAN]),
            "target_ms": TARGET_MS,
        }
    columns = [
        "call, callers, API", "calls/s", "p10 ms", "median ms", "p99 ms", "more at p10", "more at the median", "CPU us a call", "wake-ups a call",
    ]  # fmt: skip
    rounds = len(samples) // max(1, len(rows))
    return Report(
        title=f"The log from trio and from asyncio, {rounds} rounds",
        machine=machine,
        tables=[
            Table(f"Median of the rounds, and ends; at most {TARGET_MS} ms more is the target at 1", columns, rows)
        ],
        plain={"rows": plain},
        verdict="every call returned",
    )


@click.command()
@click.option(
    "--outstanding", default="1,64", show_default=True, callback=whole_numbers, metavar="N,N", help="Callers."
)
@click.option("--rounds", default=7, show_default=True, type=click.IntRange(min=1))
@click.option("--seconds", default=2.0, show_default=True, type=click.FloatRange(min=0.05), help="Of each measurement.")
@form_options
def main(*, outstanding: list[int], rounds: int, seconds: float, form: Form) -> None:
    """Measure appends and tail checks through trio and through asyncio."""
    machine = Machine.look()
    report(machine, run_to_end(run, outstanding, rounds, seconds)).publish(form)


if __name__ == "__main__":
    main()
