"""Two masters, a worker and an application of Spark on one ensemble, while servers and masters are killed and the log is swapped.

Nothing waits for a time: after each event the story goes on once the master that leads then has the worker and the application,
the other one, if it runs, stands by, and more jobs have been done.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from tests.clients.connections import servers_of
from tests.clients.ensembles import SIZE, Ensemble
from tests.clients.observer import Observer, observing
from tests.clients.spans import Span, SpanRecord, in_order
from tests.clients.spark_masters.daemons import Daemons, Master, open_daemons
from tests.clients.spark_masters.latch import leading_session, server_of
from virtuallog_lab.workload.latencies import longest_pause

PATIENCE_SECONDS: Final = 240.0
"""Timeout of each step. Sessions of masters end after 40 s, and Java machines start slowly on busy ones."""
JOBS: Final = 5
"""Jobs that are awaited after each event."""
POLL_SECONDS: Final = 0.2


@attrs.frozen
class Event:
    """Something that was done."""

    what: str
    leaderless: float
    """Seconds until a master led that had the worker and the application; 0 if the same one did all the time."""
    job_gap: float
    """Longest time without the end of a job until the next event, in seconds."""


@attrs.define(eq=False)
class Story:
    """The cast, and what has been done to it."""

    ensemble: Ensemble
    observer: Observer
    daemons: Daemons
    active: Master
    """The master that should lead now."""
    records: dict[Master, SpanRecord]
    pages: dict[Master, dict[str, Any]]
    """The last page of each master."""
    worker: str = ""
    application: str = ""
    """Ids: another master must know them by the same ones."""
    _events: list[tuple[str, float, float]] = attrs.field(factory=list)
    """Each event with its begin, and how long no master led."""

    @property
    def standby(self) -> Master:
        """The master that does not lead."""
        return next(master for master in self.daemons.masters if master is not self.active)

    async def begin(self) -> None:
        """Start the worker and the application."""
        self.daemons.worker.start()
        await self._until(lambda: bool(_ids(self._page, "workers", "ALIVE")))
        self.daemons.application.start()
        await self._until(lambda: bool(_ids(self._page, "activeapps", "RUNNING")))
        (self.worker,) = _ids(self._page, "workers", "ALIVE")
        (self.application,) = _ids(self._page, "activeapps", "RUNNING")
        await self._until(lambda: len(self.daemons.job_ends) >= JOBS)  # the first ones wait for the executor
        await self._settle("nothing", time.monotonic())

    async def swap(self, kind: str) -> None:
        """Swap the loglet underneath. The same master leads on."""
        begun = time.monotonic()
        await self.ensemble.swap(kind)
        await self._settle(f"swap to {kind}", begun)

    async def kill_other_server(self) -> None:
        """Kill a server that the leading master is not connected to, and start it again. The same master leads on."""
        (server, *_), begun = set(range(1, SIZE + 1)) - servers_of(self.ensemble, self.active.pid), time.monotonic()
        await self.ensemble.kill(server)
        await self._settle("kill -9 of a server that the master is not connected to", begun)
        await self._start_server(server)

    async def kill_active(self, swap_to: str = "") -> None:
        """Kill the master that leads; start it again, as the standby, once the other one leads.

        Args:
            swap_to: kind of loglet to swap to while no master leads. If empty, no swap.
        """
        begun, former = time.monotonic(), self.active
        former.kill()
        self.active = self.standby
        if swap_to:
            await self.ensemble.swap(swap_to)
        await self._settle("kill -9 of the master" + (f", and a swap to {swap_to}" if swap_to else ""), begun)
        await self._start_standby()

    async def kill_server_of_active(self) -> None:
        """Kill the server on which the leading master was elected. That master ends itself, and the other one leads."""
        server = server_of(self.ensemble, self.active, await leading_session(self.observer))
        await self._disconnect_active(server, "kill -9 of the master's server")

    async def kill_leading_server(self) -> None:
        """Kill ZooKeeper's leader, which has all servers close their connections: the leading master ends itself, wherever it was."""
        await self._disconnect_active(await self.ensemble.leader(), "kill -9 of the leader of the servers")

    async def end(self) -> None:
        """Let the application end: the master that leads knows that it has finished."""
        self.daemons.stop.touch()
        await self._until(lambda: self.daemons.application.exit_code() is not None)
        await self._until(lambda: self.application in _ids(self._page, "completedapps", "FINISHED"))

    @property
    def spans(self) -> list[Span]:
        """When masters led."""
        return in_order(list(self.records.values()))

    @property
    def events(self) -> list[Event]:
        """The events so far."""
        begins = [begun for _, begun, _ in self._events]
        ends = [*begins[1:], time.monotonic()]
        jobs = self.daemons.job_ends
        return [
            Event(what, leaderless, longest_pause(jobs, begun, until, cut=True).seconds)
            for (what, begun, leaderless), until in zip(self._events, ends, strict=True)
        ]

    async def watch(self, master: Master) -> None:
        """Look at a master's page again and again."""
        while True:
            asked = time.monotonic()
            page = await trio.to_thread.run_sync(master.page)
            self.pages[master] = page
            if page:
                self.records[master].observe(asked, time.monotonic(), page["status"] == "ALIVE", str(master.starts))
            await trio.sleep(POLL_SECONDS)

    @property
    def _page(self) -> dict[str, Any]:
        return self.pages[self.active]

    @property
    def _leads(self) -> bool:
        """True if the active master has all that the former one had."""
        return (
            self._page.get("status") == "ALIVE"
            and _ids(self._page, "workers", "ALIVE") == [self.worker]
            and _ids(self._page, "activeapps", "RUNNING") == [self.application]
        )

    async def _disconnect_active(self, server: int, what: str) -> None:
        begun = time.monotonic()
        await self.ensemble.kill(server)
        self.active = self.standby
        await self._settle(what, begun)
        assert self.standby.exit_code() == 0
        await self._start_server(server)
        await self._start_standby()

    async def _start_server(self, server: int) -> None:
        begun = time.monotonic()
        await self.ensemble.start(server)
        await self._settle("its start", begun)

    async def _start_standby(self) -> None:
        begun = time.monotonic()
        self.standby.kill()
        self.standby.start()
        await self._until(lambda: self.pages[self.standby].get("status") == "STANDBY")
        await self._settle("start of the other master, as a standby", begun)

    async def _settle(self, what: str, begun: float) -> None:
        held = self._leads
        await self._until(lambda: self._leads)
        self._events.append((what, begun, 0.0 if held else time.monotonic() - begun))
        done = len(self.daemons.job_ends)
        await self._until(lambda: len(self.daemons.job_ends) >= done + JOBS and self._leads)

    async def _until(self, condition: Callable[[], bool]) -> None:
        with trio.fail_after(PATIENCE_SECONDS):
            while not condition():
                assert self.daemons.application.exit_code() in {None, 0}, self.daemons.application.log_file
                await trio.sleep(POLL_SECONDS)


def _ids(page: dict[str, Any], kind: str, state: str) -> list[str]:
    return [each["id"] for each in page.get(kind, ()) if each["state"] == state]


@asynccontextmanager
async def open_story(ensemble: Ensemble, folder: Path) -> AsyncIterator[Story]:
    """Masters of which the first one leads, with a worker and an application, for the length of the block."""
    async with observing(ensemble.hosts) as observer:
        with open_daemons(folder, ensemble.hosts) as daemons:
            first, second = daemons.masters
            records = {master: SpanRecord(master.name) for master in daemons.masters}
            story = Story(ensemble, observer, daemons, first, records, {first: {}, second: {}})
            async with trio.open_nursery() as nursery:
                nursery.start_soon(story.watch, first)
                nursery.start_soon(story.watch, second)
                first.start()
                await story._until(lambda: story.pages[first].get("status") == "ALIVE")
                second.start()
                await story._until(lambda: story.pages[second].get("status") == "STANDBY")
                await story.begin()
                yield story
                nursery.cancel_scope.cancel()
