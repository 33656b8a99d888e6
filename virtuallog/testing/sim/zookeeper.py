"""A simulated ZooKeeper: lagging servers, connections that break with unknown outcome, late requests.

    zookeeper = SimulatedZooKeeper(timeline, random)        lives as long as the world
    znodes = zookeeper.connect(clock)                       one client, of the process that calls

Transactions are decided one after the other, each by a majority of `servers`. Every server applies
them in that order, each with a lag of its own; so all trees become the same. A client is connected
to one server, which answers its reads. Its requests arrive in order. When the connection breaks,
all of them end with an unknown outcome. The first ones of them have arrived, and happen all the
same, perhaps seconds later. Then it connects to a server that is not behind what it has seen.

`counts` proves which faults have taken effect.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import attrs
import trio

from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.ports import Clock
from virtuallog.contract.types import NodeId
from virtuallog.contract.znodes import REQUEST_BYTES_MAX, Create, Operation, RefusedError, Result, Set, Stat, Znode
from virtuallog.testing.sim.process import Process, executing
from virtuallog.testing.sim.timeline import Timeline
from virtuallog.testing.sim.znode_tree import ZnodeTree

ANSWER_SECONDS: Final = 5.0
"""Timeout of a client's request, on its own clock."""
INTERRUPTED_SHARE: Final = 0.1
"""Share of the reads of several requests with other transactions in between."""
_Apply = Callable[[ZnodeTree], Any]
ResultT = TypeVar("ResultT")


@attrs.define(kw_only=True)
class ZooKeeperFaults:
    """Faults that may happen, from now on. Probabilities are per request."""

    delay_seconds: float = 0.0005
    """Least delay of a request, or an answer; each draws up to twice that."""
    commit_seconds: float = 0.001
    """Time until a majority has a transaction; draws up to twice that."""
    lag_seconds: float = 0.0
    """Longest lag of a server behind the first that applies a transaction."""
    breaks: float = 0.0
    """Probability that the connection breaks while this request is in flight."""
    late: float = 0.0
    """Probability that a request that had arrived when the connection broke happens long after
    (else within the usual times)."""
    late_seconds: float = 3.0
    """Longest time until such a late request."""
    reachable: bool = True
    """False if nothing happens, and no request is answered."""


@attrs.define(eq=False)
class _Server:
    number: int
    tree: ZnodeTree = attrs.field(factory=ZnodeTree)
    applied: int = 0
    """Number of decided transactions that it has applied."""


@attrs.define(eq=False)
class SimulatedZooKeeper:
    """All servers, and their decided transactions."""

    timeline: Timeline
    random: random.Random
    servers: int = 3
    wall: Callable[[], float] | None = None
    """Returns the leader's wall clock in seconds since the epoch; None for the time of the
    timeline. It may jump."""
    faults: ZooKeeperFaults = attrs.field(factory=ZooKeeperFaults)
    counts: Counter[str] = attrs.field(factory=Counter, init=False)
    watch: Callable[[str, Sequence[Operation]], None] | None = None
    """Called for every transaction, with 'done' or the reason why it was refused; None for no calls."""
    _servers: list[_Server] = attrs.field(init=False)
    _decided: list[_Apply] = attrs.field(factory=list, init=False)
    _newest_ms: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self._servers = [_Server(number) for number in range(self.servers)]

    def connect(self, clock: Clock, process: Process | None = None) -> SimulatedZnodes:
        """Return a client of the given process; None for the calling one."""
        return SimulatedZnodes(self, clock, process or executing() or Process(NodeId(0)))

    @property
    def tree(self) -> ZnodeTree:
        """Return the tree of all decided transactions, for observers."""
        return self._catch_up(self._servers[0], len(self._decided)).tree

    def wipe(self) -> None:
        """Lose the disks of all servers.

        Clients notice by what they find. A real server does not even talk to a client that has seen
        more than itself.
        """
        for server in self._servers:
            server.tree, server.applied = ZnodeTree(), 0
        self._decided.clear()

    # -- for clients --------------------------------------------------------------------------------------------------

    def travel_seconds(self) -> float:
        return self.faults.delay_seconds * (1.0 + self.random.random())

    def fires(self, probability: float, what: str) -> bool:
        """Draw a fault; draws nothing if it cannot happen."""
        if probability > 0.0 and self.random.random() < probability:
            self.counts[what] += 1
            return True
        return False

    def choose_server(self, seen: int) -> _Server:
        """Return any server; it will not be behind what the client has seen before."""
        return self._catch_up(self.random.choice(self._servers), min(seen, len(self._decided)))

    def decide(self, operations: Sequence[Operation]) -> tuple[int, list[Result] | RefusedError]:
        """Decide one more transaction; return the number of transactions, and the outcome."""
        self._newest_ms = max(self._newest_ms, int(1000 * (self.wall or self.timeline.now)()))
        time_ms = self._newest_ms

        def apply(tree: ZnodeTree) -> list[Result] | RefusedError:
            try:
                return tree.apply(operations, time_ms)
            except RefusedError as error:
                return error

        leader = self._catch_up(self._servers[0], len(self._decided))
        self._decided.append(apply)
        leader.applied += 1
        outcome = apply(leader.tree)
        if self.watch is not None:
            self.watch(str(outcome) if isinstance(outcome, RefusedError) else "done", operations)
        for server in self._servers[1:]:
            self._spread(server, len(self._decided))
        return len(self._decided), outcome

    def see(self, server: _Server, decided: int) -> _Server:
        """Return the server after it has applied so many transactions."""
        return self._catch_up(server, min(decided, len(self._decided)))

    def _spread(self, server: _Server, decided: int) -> None:
        lag = self.faults.lag_seconds * self.random.random() if self.faults.lag_seconds else 0.0
        if lag:
            self.counts["zookeeper lag"] += 1

            def later() -> None:
                self._catch_up(server, min(decided, len(self._decided)))

            self.timeline.schedule(lag, later)
        else:
            self._catch_up(server, decided)

    def _catch_up(self, server: _Server, decided: int) -> _Server:
        while server.applied < decided:
            self._decided[server.applied](server.tree)
            server.applied += 1
        return server


@attrs.define(eq=False)
class _Asked:
    """A request in flight; settled once."""

    settle: Callable[[Any], None]
    execute: Callable[[], None]
    arrived: bool = False
    executed: bool = False


@attrs.define(eq=False)
class SimulatedZnodes:
    """`virtuallog.contract.znodes.Znodes` of one process."""

    _zookeeper: SimulatedZooKeeper
    _clock: Clock
    _process: Process
    _server: _Server | None = attrs.field(default=None, init=False)
    _seen: int = attrs.field(default=0, init=False)
    """Number of transactions that an answer has shown."""
    _under_way: list[_Asked] = attrs.field(factory=list, init=False)
    _arrives_at: float = attrs.field(default=0.0, init=False)
    _decides_at: float = attrs.field(default=0.0, init=False)
    _answers_at: float = attrs.field(default=0.0, init=False)
    """Time of the last answer. Messages of a connection keep their order, at each of these stages."""

    async def multi(self, operations: Sequence[Operation]) -> Sequence[Result]:
        size = sum(len(one.path) + len(one.data if isinstance(one, Create | Set) else b"") + 64 for one in operations)
        if size > REQUEST_BYTES_MAX + 48_576:
            self._break()  # as ZooKeeper does with a client that sends too much
            raise UnavailableError(f"ZooKeeper: connection lost: a request of {size} bytes")

        def decide(answer: Callable[[int, Any], None]) -> None:
            zookeeper = self._zookeeper
            commit = zookeeper.faults.commit_seconds * (1.0 + zookeeper.random.random())
            self._decides_at = max(self._decides_at, zookeeper.timeline.now() + commit)
            zookeeper.timeline.schedule_at(self._decides_at, lambda: answer(*zookeeper.decide(list(operations))))

        outcome = await self._ask(decide)
        if isinstance(outcome, RefusedError):
            raise type(outcome)(outcome.index, outcome.operation)
        results: list[Result] = outcome
        return results

    async def stats(self, paths: Sequence[str], *, fresh: bool = False) -> Sequence[Stat | None]:
        return [None if znode is None else znode.stat for znode in await self.read(paths, fresh=fresh)]

    async def read(self, paths: Sequence[str], *, fresh: bool = False) -> Sequence[Znode | None]:
        return [*await self._look([partial(ZnodeTree.find, path=path) for path in paths], fresh=fresh)]

    async def children(self, path: str, *, fresh: bool = False) -> Sequence[str] | None:
        (found,) = await self._look([lambda tree: tree.children(path)], fresh=fresh)
        names: Sequence[str] | None = found
        return names

    async def _look(self, looks: Sequence[Callable[[ZnodeTree], Any]], *, fresh: bool) -> list[Any]:
        if fresh:
            await self.multi([])
        found: list[Any] = await self._ask(lambda answer: self._look_at_each(looks, [], answer))
        return found

    def _look_at_each(
        self, looks: Sequence[Callable[[ZnodeTree], Any]], found: list[Any], answer: Callable[[int, Any], None]
    ) -> None:
        """Perform reads one after the other: they are requests of their own, with possible
        transactions in between."""
        server, zookeeper = self._serving(), self._zookeeper
        pause = zookeeper.random.randint(1, len(looks)) if zookeeper.random.random() < INTERRUPTED_SHARE else len(looks)
        found += [look(server.tree) for look in looks[len(found) : max(pause, len(found) + 1)]]
        if len(found) == len(looks):
            answer(server.applied, found)
        else:
            after = zookeeper.random.random() * zookeeper.faults.commit_seconds * 2
            zookeeper.timeline.schedule(after, lambda: self._look_at_each(looks, found, answer))

    # -- the connection -----------------------------------------------------------------------------------------------

    async def _ask(self, execute: Callable[[Callable[[int, Any], None]], None]) -> Any:
        await trio.lowlevel.checkpoint()
        await self._process.wait_running()
        answered, outcomes = trio.Event(), list[Any]()

        def settle(outcome: Any) -> None:
            outcomes.append(outcome)
            answered.set()

        asked = _Asked(settle, lambda: execute(lambda seen, outcome: self._executed(asked, seen, outcome)))
        self._send(asked)
        with self._clock.timeout(ANSWER_SECONDS):
            await answered.wait()
        await self._process.wait_running()
        if not outcomes:
            if asked in self._under_way:
                self._break()
            raise UnavailableError(f"ZooKeeper has not answered within {ANSWER_SECONDS:g} s")
        if isinstance(outcomes[0], UnavailableError):
            raise UnavailableError(str(outcomes[0]))
        return outcomes[0]

    def _send(self, asked: _Asked) -> None:
        zookeeper = self._zookeeper
        self._under_way.append(asked)
        self._arrives_at = max(self._arrives_at, zookeeper.timeline.now() + zookeeper.travel_seconds())
        zookeeper.timeline.schedule_at(self._arrives_at, lambda: self._arrive(asked))
        if zookeeper.fires(zookeeper.faults.breaks, "zookeeper connection lost"):
            usual = 2 * zookeeper.faults.delay_seconds + zookeeper.faults.commit_seconds
            zookeeper.timeline.schedule(zookeeper.random.random() * 2 * usual, self._break)

    def _arrive(self, asked: _Asked) -> None:
        """Arrive at a server, also if the sender has died since.

        Not if the connection broke before, or the server cannot be reached.
        """
        if asked.arrived or asked not in self._under_way:
            return
        if not self._zookeeper.faults.reachable:
            self._zookeeper.counts["zookeeper unreachable"] += 1
            return
        asked.arrived = True
        asked.execute()

    def _executed(self, asked: _Asked, seen: int, outcome: Any) -> None:
        """Answer from the server; answers of a connection keep their order."""
        asked.executed = True
        zookeeper = self._zookeeper
        self._answers_at = max(self._answers_at, zookeeper.timeline.now() + zookeeper.travel_seconds())
        zookeeper.timeline.schedule_at(
            self._answers_at, lambda: self._process.run(lambda: self._answer(asked, seen, outcome))
        )

    def _answer(self, asked: _Asked, seen: int, outcome: Any) -> None:
        if asked in self._under_way and self._zookeeper.faults.reachable:
            self._under_way.remove(asked)
            self._seen = max(self._seen, seen)
            asked.settle(outcome)

    def _serving(self) -> _Server:
        if self._server is None:
            self._server = self._zookeeper.choose_server(self._seen)
        return self._zookeeper.see(self._server, self._seen)

    def _break(self) -> None:
        """Lose the connection: every request in flight is unknown, and the first ones happen, now
        or later."""
        under_way, self._under_way, self._server = self._under_way, [], None
        zookeeper = self._zookeeper
        waiting = [asked for asked in under_way if not asked.arrived]
        for asked in waiting[: zookeeper.random.randint(0, len(waiting))] if zookeeper.faults.reachable else []:
            asked.arrived = True
            is_late = zookeeper.fires(zookeeper.faults.late, "zookeeper late request")
            after = zookeeper.random.random() * (zookeeper.faults.late_seconds if is_late else 0.01)
            zookeeper.timeline.schedule(after, asked.execute)
        for asked in under_way:
            self._process.run(lambda settle=asked.settle: settle(UnavailableError("ZooKeeper: connection lost")))  # type: ignore[misc]
