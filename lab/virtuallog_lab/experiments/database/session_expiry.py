#!/usr/bin/env python3
"""Life of the ephemerals of a killed client, as a share of its session timeout.

    python -m virtuallog_lab.experiments.database.session_expiry
    python -m virtuallog_lab.experiments.database.session_expiry --servers 127.0.0.1:2181,127.0.0.1:2182

For each timeout one process of kazoo clients, each with a session and some ephemerals, is killed by SIGKILL. Another session watches
the ephemerals. The clients of a process begin at different moments, so the last ping of each is another part of the timeout ago. All
timeouts are measured at the same time: the waits cost no processor. Three servers of the database are started, unless `--servers` names some.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from statistics import median
from typing import Any, Final

import attrs
import click
import trio
from kazoo.client import KazooClient

from virtuallog.runtime.clock import SystemClock
from virtuallog_lab.experiments.churn.churn import open_database_cluster
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.options import Form, form_options
from virtuallog_lab.harness.program import PeerError, run_to_end
from virtuallog_lab.harness.report import Report, Table, tell
from virtuallog_server.process import log_output

CLOCK: Final = SystemClock()
ROOT: Final = "/session-expiry"
CONNECT_SECONDS: Final = 60.0
"""Timeout in seconds of what is done before the kill."""
GONE_TIMEOUTS: Final = 5.0
"""Timeouts after the kill within which all ephemerals must be gone."""
_VICTIM: Final = """
import random, sys, time
from kazoo.client import KazooClient
hosts, timeout, sessions, ephemerals, root = sys.argv[1], float(sys.argv[2]), *map(int, sys.argv[3:5]), sys.argv[5]
clients = []
for session in range(sessions):
    client = KazooClient(hosts, timeout=timeout)
    client.start(timeout=60)
    assert client._session_timeout == timeout * 1000, client._session_timeout
    for number in range(ephemerals):
        client.create(f"{root}/{session}-{number}", ephemeral=True)
    clients.append(client)
    time.sleep(random.uniform(0, timeout / 3 / sessions))
print("ready", flush=True)
time.sleep(3600)
"""
"""The program of a client process."""


@attrs.frozen(kw_only=True)
class ExpiryPlan:
    """Options of a measurement."""

    timeouts: Sequence[float]
    """Session timeouts in seconds."""
    sessions: int
    """Sessions of each timeout in one round."""
    ephemerals: int
    """Ephemerals of each session."""
    rounds: int


@attrs.define(eq=False)
class _Watcher:
    """The session that watches. kazoo calls it on a thread of its own."""

    hosts: str
    client: Any = attrs.field(init=False)
    gone: dict[str, float] = attrs.field(factory=dict, init=False)
    """Time by the monotonic clock at which an ephemeral was reported to be deleted."""

    def __attrs_post_init__(self) -> None:
        self.client = KazooClient(self.hosts, timeout=40)

    def prepare(self, root: str) -> None:
        self.client.ensure_path(root)

    def watch(self, root: str) -> list[str]:
        """Set a watch on each ephemeral; returns their paths."""
        self.client.sync(root)
        paths = [f"{root}/{name}" for name in self.client.get_children(root)]
        for path in paths:
            if self.client.exists(path, watch=self._changed) is None:
                raise PeerError(f"{path} is gone before its client was killed")
        return paths

    def _changed(self, event: Any) -> None:
        self.gone[event.path] = CLOCK.monotonic()


async def measure(plan: ExpiryPlan, hosts: str) -> dict[float, list[float]]:
    """Lives of all ephemerals in seconds, by timeout.

    Raises:
        PeerError: a client could not be started, or an ephemeral has outlived it for too long.
    """
    watcher, found = _Watcher(hosts), {timeout: list[float]() for timeout in plan.timeouts}
    try:
        await trio.to_thread.run_sync(partial(watcher.client.start, timeout=CONNECT_SECONDS))
        for number in range(plan.rounds):
            async with trio.open_nursery() as nursery:
                for timeout in plan.timeouts:
                    root = f"{ROOT}/{number}-{timeout:g}"
                    nursery.start_soon(_measure_once, plan, watcher, timeout, root, found[timeout])
            tell(f"round {number + 1} of {plan.rounds} is done")
    finally:
        watcher.client.stop()
        watcher.client.close()
    return found


async def _measure_once(plan: ExpiryPlan, watcher: _Watcher, timeout: float, root: str, lives: list[float]) -> None:
    await trio.to_thread.run_sync(watcher.prepare, root)
    arguments = (watcher.hosts, f"{timeout}", f"{plan.sessions}", f"{plan.ephemerals}", root)
    async with _victim(arguments) as victim:
        paths = await trio.to_thread.run_sync(watcher.watch, root)
        await trio.sleep(timeout)  # noqa: TID251 -- a real process; every client has pinged by then
        killed = CLOCK.monotonic()
        victim.kill()
        with trio.move_on_after(timeout * GONE_TIMEOUTS):  # noqa: TID251 -- a real process
            while any(path not in watcher.gone for path in paths):
                await trio.sleep(0.1)  # noqa: TID251 -- a real process
    left = sum(path not in watcher.gone for path in paths)
    if left or len(paths) != plan.sessions * plan.ephemerals:
        raise PeerError(f"timeout {timeout:g} s: {left} of {len(paths)} ephemerals are still there")
    lives.extend(watcher.gone[path] - killed for path in paths)


@asynccontextmanager
async def _victim(arguments: Sequence[str]) -> AsyncIterator[trio.Process]:
    """A process of clients that have their ephemerals. It is killed when the block ends."""
    command = [sys.executable, "-c", _VICTIM, *arguments]
    async with trio.open_nursery() as nursery:
        process: trio.Process = await nursery.start(partial(trio.run_process, command, stdout=-1, check=False))
        try:
            assert process.stdout is not None
            if not await process.stdout.receive_some():
                raise PeerError("a client process has failed")
            yield process
        finally:
            process.kill()


def report(machine: Machine, plan: ExpiryPlan, lives: dict[float, list[float]]) -> Report:
    """The figures as a table."""
    rows = []
    for timeout, found in lives.items():
        figures = min(found), median(found), max(found)
        seconds, ratios = (", ".join(f"{each / by:.2f}" for each in figures) for by in (1, timeout))
        rows.append((f"{timeout:g} s", str(plan.sessions * plan.rounds), seconds, ratios))
    columns = ("timeout", "sessions", "seconds: shortest, median, longest", "share of the timeout")
    return Report(
        title="From the death of a client to the end of its ephemerals",
        machine=machine,
        tables=[Table("From kill -9 to the deletion, as another session sees it", columns, rows)],
        plain={"lives": {f"{timeout:g}": found for timeout, found in lives.items()}},
        verdict="all ephemerals have gone",
    )


async def _run(plan: ExpiryPlan, servers: str | None) -> dict[float, list[float]]:
    if servers is not None:
        return await measure(plan, servers)
    async with open_database_cluster("native", "", None) as (_, addresses):
        return await measure(plan, ",".join(addresses.values()))


@click.command()
@click.option("--timeouts", default="4,10,20", show_default=True, metavar="SECONDS,...", help="Session timeouts.")
@click.option("--sessions", default=8, show_default=True, type=click.IntRange(min=1), help="Of each timeout.")
@click.option("--ephemerals", default=8, show_default=True, type=click.IntRange(min=1), help="Of each session.")
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(min=1))
@click.option("--servers", metavar="HOST:PORT,...", help="Servers that run already, of any kind.")
@form_options
def main(*, timeouts: str, sessions: int, ephemerals: int, rounds: int, servers: str | None, form: Form) -> None:
    """Kill clients, and wait for the end of their ephemerals."""
    log_output.configure("warning")
    machine = Machine.look()
    wanted = [float(each) for each in timeouts.split(",")]
    plan = ExpiryPlan(timeouts=wanted, sessions=sessions, ephemerals=ephemerals, rounds=rounds)
    report(machine, plan, run_to_end(_run, plan, servers)).publish(form)


if __name__ == "__main__":
    main()
