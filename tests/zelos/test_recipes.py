"""kazoo's recipes, in use while the consensus below is swapped and one of three servers is killed: nobody who uses them notices.

Lock, Election, Queue, Barrier, DoubleBarrier and Party are in the middle of what they do when the trouble begins. Sessions live on, so
whoever holds something holds it afterwards; whoever waits is served when it is his turn. Watches are counted at the recipes for
it, DataWatch and ChildrenWatch, against what was written, and a bare one across the swap.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import attrs
import pytest
import trio
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, SessionExpiredError
from kazoo.protocol.states import KazooState
from kazoo.recipe.watchers import ChildrenWatch, DataWatch

from server import layout
from server.cluster import LocalCluster, open_local_cluster
from server.database.wire import INTERFACES
from tests.free_ports import free_ports
from virtuallog.connect import connect, open_services_to
from virtuallog.types import NodeId
from virtuallog.virtual_log import VirtualLog

PATIENCE_SECONDS: Final = 60.0
"""For what takes a second or two: machines stall."""
SESSION_SECONDS: Final = 20.0
"""Longer than a machine stalls, as it is not expiry that is looked at here."""
KILLED: Final = NodeId(2)
VALUES: Final = 20
"""Written in each part of the story."""


@attrs.define(eq=False)
class User:
    """A client, and what became of its session."""

    client: Any
    states: list[str] = attrs.field(factory=list)
    session: int = 0

    def start(self) -> None:
        self.client.add_listener(self.states.append)
        self.client.start(timeout=PATIENCE_SECONDS)
        self.session = self.client.client_id[0]

    def stop(self) -> None:
        self.client.stop()
        self.client.close()

    @property
    def kept_its_session(self) -> bool:
        return KazooState.LOST not in self.states and self.client.client_id[0] == self.session


@attrs.define(eq=False)
class Holder:
    """A thread that does something once it holds something, and says so."""

    work: Callable[[Holder], object]
    holds: threading.Event = attrs.field(factory=threading.Event)
    release: threading.Event = attrs.field(factory=threading.Event)
    thread: threading.Thread = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.thread = threading.Thread(target=self.work, args=(self,), daemon=True)
        self.thread.start()

    def hold(self) -> None:
        """What it does when it is its turn."""
        self.holds.set()
        assert self.release.wait(PATIENCE_SECONDS)

    def end(self) -> None:
        self.release.set()
        self.thread.join(PATIENCE_SECONDS)
        assert not self.thread.is_alive()

    def has_come(self) -> bool:
        return self.holds.wait(PATIENCE_SECONDS)


@attrs.define(eq=False)
class Story:
    """What happens in the thread of kazoo's users."""

    first: User
    second: User
    swap: Callable[[str], None]
    kill: Callable[[], None]
    revive: Callable[[], None]
    values: list[int] = attrs.field(factory=list)
    """Those that the second one's DataWatch was shown."""
    children: list[list[str]] = attrs.field(factory=list)
    """The same of its ChildrenWatch."""
    acknowledged: set[bytes] = attrs.field(factory=set)
    """Entries of the queue."""
    offered: set[bytes] = attrs.field(factory=set)
    _written: int = 0

    def tell(self) -> None:
        for path in ("/value", "/children", "/once"):
            self.first.client.create(path, b"0")
        self.second.client.sync("/once")  # kazoo's ChildrenWatch gives up where there is no such znode, and servers may lag
        DataWatch(self.second.client, "/value", self._saw_value)
        ChildrenWatch(self.second.client, "/children", lambda names: self.children.append(sorted(names)))
        with self._holding() as after:
            self._write()
            with self._half_entered():
                self._swap_under_a_bare_watch()
            self._write()
            self.kill()
            self._write()
            self.revive()
            self.swap("native")
            self._write()
            assert self.first.kept_its_session and self.second.kept_its_session
            after()
        self._compare()

    # -- recipes --------------------------------------------------------------------------------------------------

    @contextmanager
    def _holding(self) -> Iterator[Callable[[], None]]:
        """Everything is in the middle of something; then it is brought to its end."""
        one, other = self.first.client, self.second.client
        held = [Holder(partial(_in_lock, one)), Holder(partial(_elected, one))]
        assert all(holder.has_come() for holder in held)
        waiting = [Holder(partial(_in_lock, other)), Holder(partial(_elected, other))]
        one.Barrier("/barrier").create()
        other.sync("/barrier")  # a server that has not heard of it yet may say that there is none
        waiting.append(Holder(partial(_behind_barrier, other)))
        parties = [client.Party("/party", name) for client, name in ((one, "one"), (other, "other"))]
        for party in parties:
            party.join()

        def after() -> None:
            assert not any(holder.holds.is_set() for holder in waiting), "somebody came in too early"
            assert sorted(parties[0]) == ["one", "other"]
            one.Barrier("/barrier").remove()
            for holder in held:
                holder.end()
            assert all(holder.has_come() for holder in waiting)
            for holder in waiting:
                holder.end()

        yield after

    @contextmanager
    def _half_entered(self) -> Iterator[None]:
        """One of two stands before a DoubleBarrier. Across a swap only: when its connection breaks, kazoo's takes the news of that,
        which every watcher gets, for the one that it waits for, with any server."""
        first = Holder(partial(_in_double_barrier, self.first.client))
        yield
        assert not first.holds.is_set(), "entered alone"
        second = Holder(partial(_in_double_barrier, self.second.client))
        assert first.has_come() and second.has_come()
        first.release.set()
        second.end()
        first.end()

    # -- writing --------------------------------------------------------------------------------------------------

    def _write(self) -> None:
        """Values, children and entries of the queue, each offered once: what is lost on its way may have come or not. The last ones
        are acknowledged."""
        goal = self._written + VALUES
        while self._written < goal:
            self._written += 1
            if not self._write_one(self._written) and self._written == goal:
                goal += 1

    def _write_one(self, number: int) -> bool:
        """Whether the value was acknowledged."""
        client, name = self.first.client, b"%06d" % number
        acknowledged = _done(lambda: client.set("/value", b"%d" % number))
        _done(lambda: client.create(f"/children/{name.decode()}"))
        self.offered.add(name)
        if _done(lambda: client.Queue("/queue").put(name)):
            self.acknowledged.add(name)
        return acknowledged

    def _swap_under_a_bare_watch(self) -> None:
        """No connection breaks in a swap, so the watch is still there."""
        events: list[str] = []
        came = threading.Event()

        def saw(event: Any) -> None:
            events.append(event.type)
            came.set()

        self.second.client.get("/once", watch=saw)
        self.swap("paxos")
        self.first.client.set("/once", b"1")
        self.first.client.set("/once", b"2")
        assert came.wait(PATIENCE_SECONDS)
        self.second.client.sync("/once")
        assert events == ["CHANGED"]

    def _saw_value(self, data: bytes, stat: Any) -> None:
        self.values.append(int(data))

    def _compare(self) -> None:
        """What was seen with what was written."""
        self.second.client.sync("/value")
        assert _until(lambda: self.values[-1] == self._written)
        assert self.values == sorted(set(self.values)), "a value was told twice, or out of order"
        final = sorted(self.second.client.get_children("/children"))
        assert _until(lambda: self.children[-1] == final)
        assert all(set(a) < set(b) for a, b in zip(self.children, self.children[1:], strict=False))
        queue = self.second.client.Queue("/queue")
        taken = list(iter(queue.get, None))
        assert taken == sorted(set(taken)), "an entry was taken twice, or out of order"
        assert self.acknowledged <= set(taken) <= self.offered


def _in_lock(client: Any, holder: Holder) -> None:
    with client.Lock("/lock", "user"):
        holder.hold()


def _elected(client: Any, holder: Holder) -> None:
    client.Election("/election", "user").run(holder.hold)


def _behind_barrier(client: Any, holder: Holder) -> None:
    if client.Barrier("/barrier").wait(PATIENCE_SECONDS * 3):
        holder.holds.set()


def _in_double_barrier(client: Any, holder: Holder) -> None:
    barrier = client.DoubleBarrier("/double", 2)
    barrier.enter()
    holder.hold()
    barrier.leave()


def _done(work: Callable[[], object]) -> bool:
    """Whether it was acknowledged; a connection that breaks leaves that open."""
    try:
        work()
    except ConnectionLoss:
        return False
    except SessionExpiredError:
        raise AssertionError("a session was lost") from None
    return True


def _until(condition: Callable[[], bool]) -> bool:
    tick = threading.Event()
    for _ in range(int(PATIENCE_SECONDS * 10)):
        if condition():
            return True
        tick.wait(0.1)
    return condition()


@attrs.define(eq=False)
class Trouble:
    """What is done to the cluster, in trio's own thread."""

    cluster: LocalCluster
    log: VirtualLog

    async def swap(self, kind: str) -> None:
        with trio.fail_after(PATIENCE_SECONDS):
            await self.log.reconfig_extend(kind, {})

    async def kill(self) -> None:
        await self.cluster.kill(KILLED)

    async def revive(self) -> None:
        await self.cluster.start(KILLED)


@pytest.mark.processes
@pytest.mark.slow
async def test_recipes_across_a_swap_and_a_killed_server(tmp_path: Path) -> None:
    """No session is lost, no watch is lost or doubled, nobody gets in where somebody else is."""
    first = free_ports(3)
    hosts = ",".join(f"{layout.HOST}:{first + number}" for number in range(3))
    users = [User(KazooClient(hosts, timeout=SESSION_SECONDS)) for _ in range(2)]
    async with open_local_cluster(tmp_path, 3, base_port=0, zookeeper_port=first) as cluster:
        async with open_services_to(cluster.file, INTERFACES) as services:
            await cluster.wait_ready(services)
        async with connect(cluster.file) as log:
            trouble = Trouble(cluster, log)
            story = Story(
                users[0],
                users[1],
                swap=lambda kind: trio.from_thread.run(trouble.swap, kind),
                kill=lambda: trio.from_thread.run(trouble.kill),
                revive=lambda: trio.from_thread.run(trouble.revive),
            )
            try:
                for user in users:
                    await trio.to_thread.run_sync(user.start)
                await trio.to_thread.run_sync(story.tell)
            finally:
                with trio.CancelScope(shield=True), suppress(Exception):
                    for user in users:
                        await trio.to_thread.run_sync(user.stop)
