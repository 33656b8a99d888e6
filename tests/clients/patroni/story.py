"""Three members of Patroni on one ensemble, under a writer, while servers and primaries are killed and the log is swapped.

Nothing waits for a time: after each event the story goes on once the leader's Patroni has looked at its cluster three times more,
and rows are acknowledged again. After the death of a primary the standby must have taken over first.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import attrs
import psycopg
import trio

from tests.clients.connections import servers_of
from tests.clients.ensembles import Ensemble
from tests.clients.observer import observing
from tests.clients.patroni.leader_key import LeaderKey
from tests.clients.patroni.member import Member, open_members
from tests.clients.patroni.primaries import PrimaryWatch
from tests.clients.patroni.writer import Writer, rows_of
from tests.clients.spans import Span, in_order
from virtuallog_lab.workload.latencies import longest_pause

PATIENCE_SECONDS: Final = 150.0
"""Timeout of each step. A failover takes some 20 s."""
LOOKS: Final = 3
POLL_SECONDS: Final = 0.1
REPLICAS: Final = (
    "SELECT count(*), count(*) FILTER (WHERE sync_state = 'sync') FROM pg_stat_replication WHERE state = 'streaming'"
)
TIMELINE: Final = "SELECT ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int"


@attrs.frozen
class Event:
    """Something that was done."""

    what: str
    gap: float
    """Longest time without an acknowledged row until the next event, in seconds."""


@attrs.define(eq=False)
class Story:
    """The cast, and what has been done to it."""

    ensemble: Ensemble
    members: Sequence[Member]
    key: LeaderKey
    writer: Writer
    watches: Sequence[PrimaryWatch]
    _begun: list[tuple[float, str]] = attrs.field(factory=list)

    async def rest(self) -> None:
        """Let nothing happen: the other events are compared with it."""
        self._begin("nothing")
        await self._settle()

    async def swap(self, kind: str) -> None:
        """Swap the loglet underneath."""
        self._begin(f"swap to {kind}")
        await self.ensemble.swap(kind)
        await self._settle()

    async def kill_server(self, server: int, what: str) -> None:
        """Kill a server of the ensemble, and start it again."""
        self._begin(f"kill -9 of {what}")
        await self.ensemble.kill(server)
        await self._settle()
        self._begin("its start")
        await self.ensemble.start(server)
        await self._settle()

    async def kill_primary(self, swap_to: str = "") -> None:
        """Kill the primary and its Patroni; start them again once another member leads.

        Args:
            swap_to: kind of loglet to swap to while there is no primary. If empty, no swap.
        """
        former = self.primary
        self._begin("kill -9 of the primary and its Patroni" + (f", and a swap to {swap_to}" if swap_to else ""))
        await trio.to_thread.run_sync(former.kill)
        if swap_to:
            await self.ensemble.swap(swap_to)
        await self._until_led_by_another(former)
        await self._bring_back(former)

    async def kill_machine_of_primary(self) -> None:
        """The same, together with the server that its Patroni is connected to, which is started again first."""
        former, server = self.primary, self.primary_server
        self._begin("kill -9 of the primary, its Patroni and their server at once")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.ensemble.kill, server)
            nursery.start_soon(trio.to_thread.run_sync, former.kill)
        await self._until_led_by_another(former)
        await self.ensemble.start(server)
        await self._bring_back(former)

    @property
    def primary(self) -> Member:
        """The member that holds the leader key."""
        return next(member for member in self.members if member.name == self.key.terms[-1].member)

    @property
    def primary_server(self) -> int:
        """The server that the primary's Patroni is connected to."""
        (server,) = servers_of(self.ensemble, self.primary.pid)
        return server

    @property
    def spans(self) -> list[Span]:
        """When members could be written to."""
        return in_order([watch.record for watch in self.watches])

    def finish(self) -> Sequence[Event]:
        """Let the writer and the watches stop; all that happened."""
        events = self._events
        self.writer.stop()
        for watch in self.watches:
            watch.stop()
        return events

    async def rows(self) -> list[set[int]]:
        """Numbers of the rows that each member has, once they are equal."""
        async with _patience():
            while True:
                found = [await trio.to_thread.run_sync(rows_of, member) for member in self.members]
                if all(each == found[0] for each in found):
                    return found
                await trio.sleep(POLL_SECONDS)

    async def timeline(self) -> int:
        """Number of promotions since the database was made, and one."""
        return int((await self._ask(self.primary, TIMELINE))[0])

    async def until_replicated(self) -> None:
        """Wait until the primary streams to all others, to one of them synchronously."""
        async with _patience():
            while await self._replicas() != (len(self.members) - 1, 1):
                await trio.sleep(POLL_SECONDS)

    @property
    def _events(self) -> list[Event]:
        times = [at for at, _ in self.writer.acknowledged]
        ends = [*(since for since, _ in self._begun[1:]), time.monotonic()]
        return [
            Event(what, longest_pause(times, since, until, cut=True).seconds)
            for (since, what), until in zip(self._begun, ends, strict=True)
        ]

    async def _until_led_by_another(self, former: Member) -> None:
        await self._until(lambda: self.primary is not former)
        await self._settle()

    async def _bring_back(self, former: Member) -> None:
        self._begin("its start, as a replica")
        former.start()
        await self.until_replicated()
        await self._settle()

    async def _replicas(self) -> Sequence[int]:
        try:
            return await self._ask(self.primary, REPLICAS)
        except psycopg.OperationalError:
            return ()

    async def _ask(self, member: Member, question: str) -> Sequence[int]:
        def ask() -> Sequence[int]:
            with psycopg.connect(member.conninfo) as connection:
                row = connection.execute(question).fetchone()
                assert row is not None
                return tuple(row)

        return await trio.to_thread.run_sync(ask)

    def _begin(self, what: str) -> None:
        self._begun.append((time.monotonic(), what))

    async def _settle(self) -> None:
        looks, rows = await self.key.looks(), len(self.writer.acknowledged)
        async with _patience():
            while await self.key.looks() < looks + LOOKS or len(self.writer.acknowledged) == rows:
                await trio.sleep(POLL_SECONDS)

    async def _until(self, condition: Callable[[], bool]) -> None:
        async with _patience():
            while not condition():
                await trio.sleep(POLL_SECONDS)


@asynccontextmanager
async def _patience() -> AsyncIterator[None]:
    with trio.fail_after(PATIENCE_SECONDS):
        yield


@asynccontextmanager
async def open_story(ensemble: Ensemble, logs: Path) -> AsyncIterator[Story]:
    """Members that replicate, watched and written to for the length of the block; their logs go to this folder."""
    async with observing(ensemble.hosts) as observer:
        with open_members(ensemble.addresses, logs) as members:
            key = LeaderKey(observer)
            story = Story(ensemble, members, key, Writer(members), [PrimaryWatch(member) for member in members])
            await key.follow()
            members[0].start()
            await story._until(lambda: bool(key.terms))
            for member in members[1:]:
                member.start()
            await story.until_replicated()
            await trio.to_thread.run_sync(story.writer.create_table)
            async with trio.open_nursery() as nursery:
                # Abandoned if the story fails: the threads end with the members that they talk to.
                for run in (story.writer.run, *(watch.run for watch in story.watches)):
                    nursery.start_soon(partial(trio.to_thread.run_sync, run, abandon_on_cancel=True))
                yield story
                nursery.cancel_scope.cancel()
