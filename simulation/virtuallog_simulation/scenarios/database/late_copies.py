"""Copies of entries that come late to a log, while the table of SessionOrderEngine is small and many programs come and go.

The engines of some replicas play one list of entries. Their proposals are put into the list soon,
late, never, or several times, and they hear of it or not, as the story draws: a server of the log
may hold a copy for as long as it stands still. Residents crash, and fall back to an older state;
visitors write a little, each under a new name, so that the records of silent ones are dropped. In a
share of the seeds the log begins with entries of the former version.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any, Final, TypeAlias, cast

import attrs
import trio

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import UnavailableError, VirtualLogError
from virtuallog.contract.ports import Done, Environment
from virtuallog.contract.types import LogPosition, NodeId
from virtuallog.testing.checker.violation import Violation
from virtuallog_database.engines import session_order
from virtuallog_database.engines.core import view
from virtuallog_database.engines.core.enabled_engines import FLOOR, NAME
from virtuallog_database.engines.core.entry import Entry
from virtuallog_database.engines.core.keys import CURSOR, read_cursor, section, section_span
from virtuallog_database.engines.core.view import Member
from virtuallog_database.engines.layers.layer import LayerContext
from virtuallog_database.engines.session_order import SKIPPED, SessionOrderEngine, SessionOrderSettings
from virtuallog_database.identity import ReplicaIdentity
from virtuallog_database.testing.memory_store import MemoryDisk, MemoryStore
from virtuallog_database.transaction import StoreTransaction
from virtuallog_simulation.world.planted_bug import planted
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World

ONCE: Final = "commands once"
ORDER: Final = "commands in the order of their proposer"
ALIKE: Final = "replicas apply the same"
PROGRESS: Final = "progress"
TABLE: Final = (1, 2, 2, 3)
RESIDENTS: Final = (1, 2, 3)
VISITORS: Final = (3, 12)
FORMER: Final = 0.3
"""Share of the seeds whose log begins before the switch."""
LOAD_SECONDS: Final = 20.0
LATE_SECONDS: Final = (0.2, 12.0)
FIRST_COPIES: Final = (2, 8)
"""Late ones, of the first entry of an incarnation: the others are passed over without it."""
SETTINGS: Final = SessionOrderSettings(propose_again_pause=0.1, give_up=3.0)
GIVE_UP: Final = (1.0, 3.0, 3.0)
PEACE_SECONDS: Final = 30.0
TURNS: Final = 3
ANSWER_SECONDS: Final = 2.0
"""Within this time each who writes is answered, once copies come as they are sent: before it gives up."""

PREFIX: Final = "belated "
LATE: Final = PREFIX + "copies"
DROPPED: Final = PREFIX + "records dropped"
FORGOTTEN: Final = PREFIX + "copies without a record"
FORMER_ENTRIES: Final = PREFIX + "entries of the former version"
LOOKED: Final = (LATE, DROPPED, FORGOTTEN, FORMER_ENTRIES)

Item: TypeAlias = Entry | Callable[[StoreTransaction, LogPosition], None]
"""Item of the log: a proposal, or an act that all replicas do to their state there."""


@attrs.define(eq=False)
class Command:
    """One proposal of a replica."""

    payload: bytes
    replica: str
    number: int
    """Among those of its replica."""
    outcome: object = None


@attrs.frozen
class Propose:
    """A replica writes a command."""

    number: int


@attrs.frozen
class Apply:
    """The first replica comes to a position."""

    position: int
    payload: bytes


@attrs.define(eq=False)
class Log:
    """A list of entries, and the copies that are still to come."""

    world: World
    source: random.Random
    items: list[Item] = attrs.field(factory=list)
    commands: dict[bytes, Command] = attrs.field(factory=dict)
    is_calm: bool = False
    is_former: bool = False
    """True while entries are of the former version, whose copies come late when it is gone: to it
    they would be its own fault."""
    grown: trio.Event = attrs.field(factory=trio.Event)
    switched: int = 0
    """Position where the rule about dropped records begins. A double apply before it is a fault of
    the former version."""
    held: list[Entry] = attrs.field(factory=list)
    """Copies that come when the former version is gone."""
    applied: dict[int, tuple[bytes, ...]] = attrs.field(factory=dict)
    """Payloads that were let up, by the position: by the first replica that played it."""
    states: dict[int, dict[bytes, bytes]] = attrs.field(factory=dict)

    def append(self, item: Item) -> int:
        self.items.append(item)
        self.grown.set()
        self.grown = trio.Event()
        return len(self.items) - 1

    def append_late(self, entry: Entry) -> None:
        """A copy comes out of a server that stood still."""
        self.world.counts[LATE] += 1
        self.world.history.fault(f"late copy of {entry.payload!r}")
        self.append(entry)

    def object(self, check: str, message: str) -> None:
        self.world.violations.append(Violation(check, message))


@attrs.define(eq=False)
class ReplicaRun:
    """One life of a replica: the engine under test between a list of entries and an application."""

    log: Log
    store: MemoryStore
    identity: ReplicaIdentity
    environment: Environment
    settings: SessionOrderSettings
    order: SessionOrderEngine = attrs.field(init=False)
    waiting: dict[int, Done] = attrs.field(factory=dict)
    """Callbacks to inform of an entry, by its position."""
    is_over: bool = False

    def __attrs_post_init__(self) -> None:
        log = cast(VirtualLog, self.log)  # this engine does not ask it
        self.order = SessionOrderEngine(
            LayerContext(identity=self.identity, environment=self.environment, log=log, store=self.store),
            settings=self.settings,
        )
        self.order.below, self.order.above = cast(Any, self), self

    # -- as the base below ------------------------------------------------------------------------------------------

    def propose(self, entry: Entry, done: Done) -> None:
        log, source = self.log, self.log.source
        if log.is_former:
            log.world.counts[FORMER_ENTRIES] += 1
            entry = Entry(entry.payload, {name: value for name, value in entry.headers.items() if name != FLOOR})
        schedule = log.world.timeline.schedule
        fate = 1.0 if log.is_calm or log.is_former else source.random()
        if fate > 0.2:
            soon = source.uniform(0.001, 0.1) if fate > 0.3 else source.uniform(0.3, 2.0)
            schedule(soon, partial(self._land, entry, done if fate > 0.4 else None))
        if fate <= 0.4:
            schedule(source.uniform(0.05, 1.0), partial(self._tell, done, UnavailableError("drawn")))
        if log.is_calm:
            return
        is_first = not session_order.Stamp.parse_untrusted(entry.headers[SessionOrderEngine.name]).sequence
        for _ in range(source.randint(*FIRST_COPIES) if is_first else source.choice((0, 0, 1))):
            if log.is_former:
                log.held.append(entry)
            else:
                schedule(source.uniform(*LATE_SECONDS), partial(log.append_late, entry))

    def _land(self, entry: Entry, done: Done | None) -> None:
        position = self.log.append(entry)
        if done is not None:
            self.waiting[position] = done

    def _tell(self, done: Done, outcome: Any) -> None:
        if not self.is_over:
            done(outcome)

    # -- as the application above -------------------------------------------------------------------------------------

    def apply(self, transaction: StoreTransaction, entry: Entry, position: LogPosition) -> Any:
        return int(position)

    def post_apply(self, entry: Entry, position: LogPosition, result: Any) -> None:
        pass

    # -- playing --------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.order.run)
            while True:
                grown = self.log.grown
                if read_cursor(self.store) < len(self.log.items):
                    self.play(self.log.source.choice((1, 2, 8)))
                    await trio.sleep(self.log.source.choice((0.0, 0.01, 0.05)))
                else:
                    await grown.wait()

    def play(self, entries: int) -> None:
        """One transaction."""
        transaction, cursor = StoreTransaction(self.store), read_cursor(self.store)
        played: list[tuple[LogPosition, Entry, Any]] = []
        for at in range(cursor, min(cursor + entries, len(self.log.items))):
            position, item = LogPosition(at), self.log.items[at]
            if isinstance(item, Entry):
                played.append((position, item, self._applied(transaction, item, position)))
            else:
                item(transaction, position)
            cursor = LogPosition(at + 1)
        transaction.put(CURSOR, cursor.to_bytes(8, "big"))
        transaction.commit()
        self._compare(int(cursor))
        for position, entry, result in played:
            self.order.post_apply(entry, position, result)
            done = self.waiting.pop(position, None)
            if done is not None:
                self.order.context.completions.add(done, result)
        self.order.context.completions.run()

    def _applied(self, transaction: StoreTransaction, entry: Entry, position: LogPosition) -> Any:
        records = dict(transaction.scan(section_span(SessionOrderEngine.name), 100))
        result = self.order.apply(transaction, entry, position)
        let_up = () if result is SKIPPED else (entry.payload,)
        known = self.log.applied.get(position)
        if known is None:
            self.log.applied[position] = let_up
            self.log.world.history.observed("log", Apply(int(position), entry.payload), bool(let_up))
            gone = records.keys() - dict(transaction.scan(section_span(SessionOrderEngine.name), 100)).keys()
            stamp = session_order.Stamp.parse_untrusted(entry.headers[SessionOrderEngine.name])
            self.log.world.counts[DROPPED] += len(gone)
            self.log.world.counts[FORGOTTEN] += (
                section(SessionOrderEngine.name) + stamp.replica not in records and not let_up
            )
        elif known != let_up:
            self.log.object(ALIKE, f"{self.identity.name} lets up {let_up} at {position}, and another one {known}")
        return result

    def _compare(self, cursor: int) -> None:
        state = dict(self.store.scan((b"", b"\xff"), 1000))
        if self.log.states.setdefault(cursor, state) != state:
            self.log.object(ALIKE, f"{self.identity.name} has another state at {cursor}")


@attrs.define(eq=False)
class Run:
    """All replicas of a run."""

    log: Log
    environment: Environment
    nursery: trio.Nursery
    boots: Iterator[int] = attrs.field(factory=lambda: count(1))
    numbers: Iterator[int] = attrs.field(factory=lambda: count(1))
    disks: dict[str, MemoryDisk] = attrs.field(factory=dict)

    def write(self, life: ReplicaRun) -> Command:
        number = next(self.numbers)
        command = Command(b"%d" % number, life.identity.name, number)
        self.log.commands[command.payload] = command
        recorded = self.log.world.history.begin(life.identity.name, Propose(number))

        def done(outcome: Any) -> None:
            command.outcome = outcome
            recorded(outcome)

        life.order.propose(Entry(command.payload), done)
        return command

    async def live(self, node: int, disk: MemoryDisk, seconds: float, mean: float) -> None:
        """One life: it writes now and then, and ends abruptly."""
        source = self.log.source
        identity = ReplicaIdentity(node=NodeId(node), store=b"%016d" % node, boot=next(self.boots))
        settings = attrs.evolve(SETTINGS, give_up=source.choice(GIVE_UP))
        life = ReplicaRun(self.log, disk.open(), identity, self.environment, settings)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(life.run)
            with trio.move_on_after(seconds):
                while True:
                    await trio.sleep(source.expovariate(1 / mean))
                    for _ in range(source.choice((1, 1, 3))):
                        self.write(life)
            life.is_over = True
            nursery.cancel_scope.cancel()

    async def reside(self, node: int) -> None:
        """A replica that is started again whenever it has ended."""
        source, disk = self.log.source, MemoryDisk()
        while True:
            await self.live(node, disk, source.uniform(0.5, 6.0), source.choice((0.2, 0.5, 2.0)))
            disk.crash(source)
            await trio.sleep(source.choice((0.0, 1.0, 5.0)))

    async def visit(self, node: int) -> None:
        """A program that writes a little, under a new name, and is gone."""
        source = self.log.source
        await trio.sleep(source.uniform(0.0, LOAD_SECONDS))
        await self.live(node, MemoryDisk(), source.choice((0.3, 1.0, 3.0)), 0.2)

    async def flip(self, node: int) -> None:
        """A replica enters the view, and leaves it."""
        source = self.log.source
        name = ReplicaIdentity(node=NodeId(node), store=b"%016d" % node, boot=0).name
        while True:
            self.log.append(partial(_put_member, name=name, is_member=True))
            await trio.sleep(source.uniform(1.0, 6.0))
            self.log.append(partial(_put_member, name=name, is_member=False))
            await trio.sleep(source.uniform(0.5, 4.0))

    async def demand_progress(self) -> None:
        """Once copies come as they are sent, each replica that writes is answered, though its record is dropped between two writes."""
        self.log.is_calm = True
        lives = [self._calm(200 + number) for number in range(session_order.REPLICAS_MAX + 1)]
        for life in lives:
            self.nursery.start_soon(life.run)
        with trio.move_on_after(PEACE_SECONDS):
            while any(read_cursor(life.store) < len(self.log.items) for life in lives):
                await trio.sleep(0.1)
        for _ in range(TURNS):
            for life in lives:
                command = self.write(life)
                with trio.move_on_after(ANSWER_SECONDS):
                    while command.outcome is None:
                        await trio.sleep(0.05)
                if not isinstance(command.outcome, int):
                    told = "in time" if command.outcome is None else f"but {command.outcome}"
                    self.log.object(PROGRESS, f"{life.identity.name} has no answer to {command.payload!r} {told}")

    def _calm(self, node: int) -> ReplicaRun:
        identity = ReplicaIdentity(node=NodeId(node), store=b"%016d" % node, boot=next(self.boots))
        return ReplicaRun(self.log, MemoryDisk().open(), identity, self.environment, SETTINGS)


def _put_member(transaction: StoreTransaction, position: LogPosition, *, name: str, is_member: bool) -> None:
    member = Member(LogPosition(0), position, (FLOOR,)) if is_member else None
    view.change_member(transaction, name, member)


def _put_switch(transaction: StoreTransaction, position: LogPosition) -> None:
    transaction.put(section(NAME) + FLOOR.encode(), b"\1" + position.to_bytes(8, "big"))


async def _story(world: World) -> None:
    source = world.random("belated")
    with planted({"virtuallog_database.engines.session_order:REPLICAS_MAX": source.choice(TABLE)}):
        log = Log(world, source)
        async with world.client(NodeId(1)) as environment, trio.open_nursery() as nursery:
            run = Run(log, environment, nursery)
            async with trio.open_nursery() as load:
                if source.random() < FORMER:
                    log.is_former = True
                else:
                    log.append(_put_switch)
                for node in range(1, 1 + source.choice(RESIDENTS)):
                    load.start_soon(run.reside, node)
                    load.start_soon(run.flip, node)
                for node in range(100, 100 + source.randint(*VISITORS)):
                    load.start_soon(run.visit, node)
                if log.is_former:
                    await trio.sleep(LOAD_SECONDS / 2)
                    log.is_former = False
                    log.switched = log.append(_put_switch)
                    for entry in log.held:
                        world.timeline.schedule(source.uniform(*LATE_SECONDS), partial(log.append_late, entry))
                await trio.sleep(LOAD_SECONDS)
                load.cancel_scope.cancel()
            await trio.sleep(LATE_SECONDS[1])  # all copies have come
            await run.demand_progress()
            nursery.cancel_scope.cancel()
    _judge(log)


def _judge(log: Log) -> None:
    """Compare what was let up, in the order of the log, with what was proposed and answered."""
    let_up = [(position, payload) for position, payloads in sorted(log.applied.items()) for payload in payloads]
    newest: dict[str, int] = {}
    first: dict[bytes, int] = {}
    for position, payload in let_up:
        command = log.commands[payload]
        former, newest[command.replica] = (
            newest.get(command.replica, 0),
            max(command.number, newest.get(command.replica, 0)),
        )
        if position < log.switched:
            first.setdefault(payload, position)
        elif first.setdefault(payload, position) != position:
            log.object(
                ONCE, f"command {payload!r} of {command.replica} is applied at {first[payload]} and at {position}"
            )
        elif command.number < former:
            log.object(ORDER, f"command {payload!r} of {command.replica} is applied at {position}, behind {former}")
    for command in log.commands.values():
        if isinstance(command.outcome, int) and log.applied.get(command.outcome) != (command.payload,):
            log.object(ONCE, f"command {command.payload!r} was answered, and is not applied at {command.outcome}")
        if isinstance(command.outcome, VirtualLogError) and not isinstance(command.outcome, UnavailableError):
            log.object("no unexpected error", f"command {command.payload!r}: {command.outcome}")


BELATED: Final = Scenario(
    name="belated",
    about="copies of entries that come late to a log, while many programs come and go, and the records of replicas are few",
    story=_story,
    limit_seconds=300.0,
    draws_bounds=False,
)
