"""Clients of a bare MetaStore: they race for versions, change its members, come late, and die in
between.

Cases 19 to 25 of our notes on Delos, section 11. A client is a process of some lives; each put draws from a source of its
own, so a run that is narrowed to fewer of them leaves those that remain as they were.
"""

from __future__ import annotations

import random
from typing import Final

import attrs
import trio

from virtuallog.contract.errors import ChainConflictError, RetryableError, UnavailableError
from virtuallog.contract.ports import Environment
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.recorders import RecordedMetaStore
from virtuallog_metastore import PaxosProvider
from virtuallog_simulation.workload.required_shapes import count
from virtuallog_simulation.world.machine import Machine
from virtuallog_simulation.world.world import World

NODES: Final = tuple(NodeId(number) for number in range(1, 6))
FIRST_CLIENT: Final = 1000
LIVES_MAX: Final = 100
TRIES: Final = 5
"""Retries of a put with an unknown outcome."""
EQUAL: Final = b"equal"
"""Equal value that several clients put at the same time: bytes do not show whose put has won."""


@attrs.frozen(kw_only=True)
class RegisterPlan:
    """Amounts of a register workload."""

    members: tuple[NodeId, ...]
    """The first ones."""
    clients: int
    puts: int
    """Puts of each client."""
    pause_seconds: float
    """Mean time between two puts of a client; 0 makes proposers duel."""
    moves: float
    """Share of the puts that change the members."""
    retires: float
    """Share of those after which the former members are killed, for a while."""
    equals: float
    """Share of the puts of equal bytes."""
    newcomers: float
    """Share of the puts by a client that knows only the first members."""
    prepares: float
    """Share of the puts with a first phase of its own, before each try."""
    lifetime_seconds: float | None
    """Mean life of a client."""

    @classmethod
    def draw(cls, source: random.Random) -> RegisterPlan:
        return cls(
            members=NODES[: source.choice((1, 3, 5))],
            clients=source.randint(2, 5),
            puts=source.randint(6, 16),
            pause_seconds=source.choice((0.0, 0.05, 0.3)),
            moves=source.choice((0.0, 0.3, 1.0)),
            retires=source.choice((0.0, 0.5)),
            equals=source.choice((0.0, 0.5)),
            newcomers=source.choice((0.0, 0.3)),
            lifetime_seconds=source.choice((None, 0.5, 3.0)),
            prepares=source.choice((0.0, 0.5)),
        )


@attrs.define(eq=False)
class Register:
    """State shared by the clients of a run."""

    world: World
    plan: RegisterPlan
    machines: dict[NodeId, Machine]
    nursery: trio.Nursery
    """Outlives the clients: killed members come back here."""
    _members: list[NodeId] = attrs.field(init=False)
    """Members as last put, as far as the clients have heard."""

    def __attrs_post_init__(self) -> None:
        self._members = list(self.plan.members)

    def did(self, shape: str) -> None:
        count(self.world.counts, shape)

    async def run(self) -> None:
        """Return when every client has made its puts."""
        limit = self.world.options.operations
        puts = self.plan.puts if limit is None else min(limit, self.plan.puts)
        async with trio.open_nursery() as clients:
            for number in range(1, self.plan.clients + 1):
                clients.start_soon(self._client, number, puts)

    async def _client(self, number: int, puts: int) -> None:
        done, life, mean = 0, 0, self.plan.lifetime_seconds
        while done < puts:
            life += 1
            assert life < LIVES_MAX
            source = self.world.random(f"life {life} of client {number}")
            lifetime = None if mean is None else source.expovariate(1.0 / mean)
            node = NodeId(FIRST_CLIENT + LIVES_MAX * number + life)
            async with self.world.client(node, lifetime) as environment:
                metastore = self.open(environment, f"client {node}")
                while done < puts:
                    done += 1
                    put = _Put(self, self.world.random(f"put {done} of client {number}"), f"{number}.{done}")
                    metastore = await put.make(environment, metastore)

    def open(self, environment: Environment, name: str) -> RecordedMetaStore:
        """A client that knows the first members."""
        return RecordedMetaStore(PaxosProvider().open(self.plan.members, environment), self.world.history, name)

    def moved(self, members: list[NodeId], *, retires: bool) -> None:
        """There are other members. With `retires`, kill those who were it: the new ones must go on without them."""
        self.did("put with other members")
        former, self._members = self._members, members
        for machine in [self.machines[node] for node in former if node not in members]:
            if retires and machine.running:
                machine.crash(power=False)
                self.did("retire former members")
                self.nursery.start_soon(_come_back, machine, self.world.random(f"rest of {machine.node}"))


async def _come_back(machine: Machine, source: random.Random) -> None:
    await trio.sleep(source.expovariate(1.0))
    if not machine.running:
        machine.start()


@attrs.define(eq=False)
class _Put:
    """Read the register and put the next version."""

    register: Register
    random: random.Random
    name: str

    async def make(self, environment: Environment, metastore: RecordedMetaStore) -> RecordedMetaStore:
        """Returns the client object that was used, for the next put."""
        plan, source = self.register.plan, self.random
        await trio.sleep(source.expovariate(1.0 / plan.pause_seconds) if plan.pause_seconds else 0.0)
        equal, newcomer, moves = (source.random() < share for share in (plan.equals, plan.newcomers, plan.moves))
        members = source.sample(NODES, source.choice((1, 3, 5))) if moves else None
        retires = source.random() < plan.retires
        if newcomer:
            metastore = self.register.open(environment, f"newcomer {self.name}")
        try:
            version, _ = await metastore.get()
        except UnavailableError:
            return metastore
        if newcomer and version > 1 and plan.moves:
            self.register.did("walk forward from the first members")
        value = EQUAL if equal else self.name.encode()
        if await self.put(metastore, value, version, members) and members is not None:
            self.register.moved(members, retires=retires)
        return metastore

    async def put(self, metastore: RecordedMetaStore, value: bytes, version: int, members: list[NodeId] | None) -> bool:
        """An unknown outcome is settled by putting the same attempt again."""
        attempt, unknown, won = self.random.getrandbits(63), False, False
        prepares = self.random.random() < self.register.plan.prepares
        for _ in range(TRIES):
            try:
                if prepares:
                    await metastore.prepare_put(version)
                    self.register.did("prepare a put")
                await metastore.put(value, version, attempt, members)
            except ChainConflictError:
                await self._lost(metastore, value, version)
            except RetryableError:
                unknown = True
                continue
            else:
                won = True
            if unknown:
                self.register.did("settle an unknown put")
            break
        return won

    async def _lost(self, metastore: RecordedMetaStore, value: bytes, version: int) -> None:
        if version == 0:
            self.register.did("lose the first version")
        try:
            found, winner = await metastore.get()
        except UnavailableError:
            return
        if (found, winner) == (version + 1, value):
            self.register.did("lose to equal bytes")
