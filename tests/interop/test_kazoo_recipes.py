"""kazoo's recipes, in use while the consensus below is swapped and one of three servers is killed: their users do not notice.

Lock, Election, Queue, Barrier, DoubleBarrier and Party are in the middle of their work when the trouble begins. Sessions live on, so a
holder holds afterwards, and a waiting client is served in its turn. Watches are counted at the recipes for them, DataWatch and
ChildrenWatch, against the writes, and at a bare one that is there from before the trouble until after it.

The connections are not left to luck: a client that holds and writes, and one that waits, lose their server; the bystander keeps its
own, so its watches must outlive everything. kazoo sets no watch again after a reconnect. It calls them all, with an event of type NONE,
and forgets them. Lock, Election, DataWatch and ChildrenWatch ask again then; Barrier and DoubleBarrier wait for ever, with any server
(`Barrier.wait` says so).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import attrs
import pytest
import trio
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, SessionExpiredError
from kazoo.protocol.states import KazooState
from kazoo.recipe.watchers import ChildrenWatch, DataWatch
from kazoo.retry import KazooRetry

from tests.free_ports import free_ports
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.connect import connect
from virtuallog.contract.types import NodeId
from virtuallog_server.local_cluster import layout
from virtuallog_server.local_cluster.supervisor import LocalCluster, open_local_cluster

PATIENCE_SECONDS: Final = 120.0
"""Timeout of steps that take a second or two: machines stall, and a client waits for a handshake as long as for a session."""
SESSION_SECONDS: Final = 40.0
"""Longer than a machine stalls, as this test is not about expiry; the longest that servers grant. kazoo breaks a connection
that has been silent for two thirds of it.
"""
KILLED: Final = NodeId(2)
OTHERS: Final = (NodeId(1), NodeId(3))
VALUES: Final = 20
"""Values written in each part of the story."""


@attrs.define(eq=False)
class User:
    """A client, the states of its session, and the values that its watches have shown."""

    client: Any
    states: list[str] = attrs.field(factory=list)
    session: int = 0
    values: list[int] = attrs.field(factory=list)
    children: list[list[str]] = attrs.field(factory=list)

    @classmethod
    def of(cls, nodes: Sequence[NodeId], first_port: int) -> User:
        """A client that connects to the first of these servers that accepts it."""
        hosts = ",".join(f"{layout.HOST}:{first_port + node - 1}" for node in nodes)
        # By default kazoo's ChildrenWatch tries once, and gives up if a second break follows right after the first one.
        patient = KazooRetry(max_tries=-1, max_delay=1.0, ignore_expire=False)
        return cls(KazooClient(hosts, timeout=SESSION_SECONDS, randomize_hosts=False, command_retry=patient))

    def start(self) -> None:
        self.client.add_listener(self.states.append)
        self.client.start(timeout=PATIENCE_SECONDS)
        self.session = self.client.client_id[0]

    def stop(self) -> None:
        self.client.stop()
        self.client.close()

    def watch(self) -> None:
        self.sync()  # kazoo's ChildrenWatch gives up without such a znode, and servers may lag
        DataWatch(self.client, "/value", lambda data, stat: self.values.append(int(data)))
        ChildrenWatch(self.client, "/children", lambda names: self.children.append(sorted(names)))

    def sync(self) -> None:
        self.client.retry(self.client.sync, "/")

    @property
    def kept_its_session(self) -> bool:
        return KazooState.LOST not in self.states and self.client.client_id[0] == self.session

    @property
    def breaks(self) -> int:
        """Number of breaks of its connection."""
        return self.states.count(KazooState.SUSPENDED)


@attrs.define(eq=False)
class Holder:
    """A thread that acts once it holds something, and reports that. It may wait for the whole story."""

    work: Callable[[Holder], object]
    holds: threading.Event = attrs.field(factory=threading.Event)
    release: threading.Event = attrs.field(factory=threading.Event)
    thread: threading.Thread = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.thread = threading.Thread(target=self.work, args=(self,), daemon=True)
        self.thread.start()

    def hold(self) -> None:
        """The action in its turn."""
        self.holds.set()
        self.release.wait()

    def end(self) -> None:
        self.release.set()
        self.thread.join(PATIENCE_SECONDS)
        assert not self.thread.is_alive()

    def has_come(self) -> bool:
        return self.holds.wait(PATIENCE_SECONDS)


@attrs.define(eq=False)
class Story:
    """The actions in the thread of kazoo's users."""

    writer: User
    """It holds, too."""
    waiter: User
    bystander: User
    swap: Callable[[str], None]
    kill: Callable[[], None]
    revive: Callable[[], None]
    acknowledged: set[bytes] = attrs.field(factory=set)
    """Entries of the queue."""
    offered: set[bytes] = attrs.field(factory=set)
    _written: int = 0

    def tell(self) -> None:
        for path in ("/value", "/children", "/once"):
            self.writer.client.create(path, b"0")
        for user in self.users:
            user.watch()
        with self._holding(), self._bare_watch():
            self._write()
            with self._half_entered():
                self.swap("paxos")
            self._write()
            self._wait_shown()  # kazoo's ChildrenWatch forgets to ask again if it is at work when its connection breaks
            self.kill()
            self._write()
            self.revive()
            self.swap("native")
            self._write()
            assert all(user.kept_its_session for user in self.users)
            assert self.writer.breaks and self.waiter.breaks and not self.bystander.breaks
        self._wait_shown()
        self._compare()

    @property
    def users(self) -> Sequence[User]:
        return self.writer, self.waiter, self.bystander

    # -- recipes --------------------------------------------------------------------------------------------------

    @contextmanager
    def _holding(self) -> Iterator[None]:
        """Put everything into the middle of its work; at the end of the block finish it."""
        one, other = self.writer.client, self.waiter.client
        held = [Holder(partial(_in_lock, one)), Holder(partial(_elected, one))]
        assert all(holder.has_come() for holder in held)
        waiting = [Holder(partial(_in_lock, other)), Holder(partial(_elected, other))]
        one.Barrier("/barrier").create()
        self.bystander.sync()  # a server that has not applied it yet may answer that there is none
        waiting.append(Holder(partial(_behind_barrier, self.bystander.client)))
        parties = [client.Party("/party", name) for client, name in ((one, "one"), (other, "other"))]
        for party in parties:
            party.join()
        yield
        assert not any(holder.holds.is_set() for holder in waiting), "somebody came in too early"
        assert sorted(parties[0]) == ["one", "other"]
        one.Barrier("/barrier").remove()
        for holder in held:
            holder.end()
        assert all(holder.has_come() for holder in waiting)
        for holder in waiting:
            holder.end()

    @contextmanager
    def _half_entered(self) -> Iterator[None]:
        """One of two clients stands before a DoubleBarrier."""
        first = Holder(partial(_in_double_barrier, self.bystander.client))
        yield
        assert not first.holds.is_set(), "entered alone"
        second = Holder(partial(_in_double_barrier, self.writer.client))
        assert first.has_come() and second.has_come()
        first.release.set()
        second.end()
        first.end()

    @contextmanager
    def _bare_watch(self) -> Iterator[None]:
        """Two changes after all the trouble: the first one is reported, and nothing else."""
        events: list[str] = []
        came = threading.Event()

        def saw(event: Any) -> None:
            events.append(event.type)
            came.set()

        self.bystander.client.get("/once", watch=saw)
        yield
        for data in (b"1", b"2"):
            self.writer.client.retry(self.writer.client.set, "/once", data)
        assert came.wait(PATIENCE_SECONDS)
        self.bystander.sync()
        assert events == ["CHANGED"]

    # -- writing --------------------------------------------------------------------------------------------------

    def _write(self) -> None:
        """Write values, children and entries of the queue, each once: one that is lost on its way may have arrived or not. The last ones
        are acknowledged.
        """
        goal = self._written + VALUES
        while self._written < goal:
            self._written += 1
            if not self._write_one(self._written) and self._written == goal:
                goal += 1

    def _write_one(self, number: int) -> bool:
        """Write one value. True if it was acknowledged."""
        client, name = self.writer.client, b"%06d" % number
        acknowledged = _done(lambda: client.set("/value", b"%d" % number))
        _done(lambda: client.create(f"/children/{name.decode()}"))
        self.offered.add(name)
        if _done(lambda: client.Queue("/queue").put(name)):
            self.acknowledged.add(name)
        return acknowledged

    def _wait_shown(self) -> None:
        """Wait until all watches have shown the newest value."""
        final = sorted(self.writer.client.retry(self.writer.client.get_children, "/children"))
        assert _until(lambda: all(user.values[-1] == self._written for user in self.users)), "a change was not told"
        assert _until(lambda: all(user.children[-1] == final for user in self.users)), "a child was not told"

    def _compare(self) -> None:
        """Compare the observations with the writes."""
        for user in self.users:
            assert user.values == sorted(set(user.values)), "a value was told twice, or out of order"
            assert all(set(before) <= set(after) for before, after in pairwise(user.children))
            repeated = sum(before == after for before, after in pairwise(user.children))
            # kazoo asks in two threads after a break, and does not compare the answers.
            assert repeated <= user.breaks, "the same children were told twice"
        queue = self.bystander.client.Queue("/queue")
        taken = list(iter(queue.get, None))
        assert taken == sorted(set(taken)), "an entry was taken twice, or out of order"
        assert self.acknowledged <= set(taken) <= self.offered


def _in_lock(client: Any, holder: Holder) -> None:
    with client.Lock("/lock", "user"):
        holder.hold()


def _elected(client: Any, holder: Holder) -> None:
    client.Election("/election", "user").run(holder.hold)


def _behind_barrier(client: Any, holder: Holder) -> None:
    client.Barrier("/barrier").wait()
    holder.holds.set()


def _in_double_barrier(client: Any, holder: Holder) -> None:
    barrier = client.DoubleBarrier("/double", 2)
    barrier.enter()
    holder.hold()
    barrier.leave()


def _done(work: Callable[[], object]) -> bool:
    """True if it was acknowledged; a broken connection leaves that open."""
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
    """The trouble of the cluster, in trio's own thread."""

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
@pytest.mark.long
async def test_recipes_across_a_swap_and_a_killed_server(tmp_path: Path) -> None:
    """No session is lost, no watch is lost or doubled, and no two clients hold the same lock."""
    first = free_ports(3)
    users = [User.of(nodes, first) for nodes in ((KILLED, *OTHERS), (KILLED, *reversed(OTHERS)), OTHERS)]
    async with open_local_cluster(tmp_path, 3, base_port=0, zookeeper_port=first) as cluster:
        await cluster.wait_ready()
        async with connect(cluster.file) as log:
            trouble = Trouble(cluster, log)
            writer, waiter, bystander = users
            story = Story(
                writer=writer,
                waiter=waiter,
                bystander=bystander,
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
