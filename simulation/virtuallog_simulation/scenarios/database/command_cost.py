"""Commands that might cost more than they say, through the engines of two replicas: what each costs is counted.

Parents with large data and long ACLs, multis of one kind, texts of quotas and new ones, many writes
of one znode in a group, recursive watches on paths of many lengths, multiReads of large znodes. In
most seeds the log begins with commands of the former version; then the switch of the bounds is in
it. The second replica replays all of it, from wherever a crash has left its store: both must be
alike at each entry. A third one finds each command in an entry of its own, and must come to the
same tree: some groups have an unreadable command.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any, Final

import attrs
import trio

from virtuallog.contract.batch import Batch, SessionId, pack_ends
from virtuallog.contract.types import LogPosition, NodeId, PlacedBatch
from virtuallog.testing.checker.violation import Violation
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.process import Process
from virtuallog_database.engines import brain_doctor
from virtuallog_database.engines.batching import NAME as BATCHING
from virtuallog_database.engines.batching import commands_of_untrusted
from virtuallog_database.engines.core.enabled_engines import BOUNDS, NAME
from virtuallog_database.engines.core.entry import PROPOSER, TOKEN_BYTES, Entry
from virtuallog_database.engines.core.keys import section
from virtuallog_database.engines.core.state_digests import state_digest_of
from virtuallog_database.engines.layers.contract import Engine
from virtuallog_database.ports import LocalStore
from virtuallog_database.replica.database import Database
from virtuallog_database.replica.replay import Replay
from virtuallog_database.testing.heavy_commands import NAMES, QUOTA, HeavyCommands
from virtuallog_database.testing.memory_store import MemoryDisk
from virtuallog_database.testing.metered_store import MeteredStore
from virtuallog_database.transaction import StoreTransaction
from virtuallog_database.tree import apply, command_codec, keys, quotas
from virtuallog_database.tree.commands import Acl, Command, Create, Delete, Identity, Multi, Origin, SetAcl, SetData
from virtuallog_database.tree.records import Znode, ZnodeKind, decode_meta
from virtuallog_database.tree.results import ChangeKind, Error, RefusedError, Result
from virtuallog_database.tree.tree import Tree
from virtuallog_database.tree.watches import WatchMode
from virtuallog_server.zookeeper.session import reads
from virtuallog_server.zookeeper.wire import replies, requests
from virtuallog_server.zookeeper.wire.opcodes import OpCode
from virtuallog_simulation.checks.database.command_cost import CHECK, CommandCost, cost_of, steps_of
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World

ALIKE: Final = "replicas are alike"
GROUPED: Final = "a group does what its commands do"
COUNTED: Final = "counters are those of the tree"
REFUSED: Final = "texts of quotas are refused"
LARGE: Final = (30_000, 120_000)
"""Bytes of what is long, at least and at most."""
COMMANDS: Final = (20, 60)
FORMER: Final = 0.7
"""Share of the seeds whose log begins before the switch."""
FORMER_PATH: Final = "/former"
"""A large znode that is not written any more once the switch is in the log."""
GROUP: Final = 12
"""Commands of an entry, at most."""
TORN: Final = 0.1
"""Share of the groups in which a command is cut short."""
LENGTHS: Final = (20, 400)
"""Recursive watches on paths of different lengths."""
STEPS_OF_A_CHANGE: Final = 400
STEPS_OF_A_CHARACTER: Final = 40
MULTI_READS: Final = 3
MULTI_READ_PARTS: Final = 150
LARGE_READ: Final = 150
"""Znodes with large data that multiReads look at, at most."""
READ_OF_A_PART: Final = 14 << 10
"""Bytes of a record, and of an ACL that is stored apart."""
STRANGER: Final = Origin(identities=(Identity("ip", "127.0.0.1"),))


@attrs.frozen
class Weigh:
    """A command is applied, and its work counted."""

    kind: str
    size: int
    """Bytes."""


@attrs.define(eq=False)
class CostObserver:
    """Counts the costs reported to it."""

    told: int = 0
    identities: tuple[Identity, ...] = ()

    def fire(self, kind: ChangeKind, path: str, zxid: int) -> None:
        self.told += 1


@attrs.define(eq=False)
class MeteredTree:
    """The tree, with a scale under it. Implements `virtuallog_database.engines.layers.contract.Application`."""

    database: Database
    store: MeteredStore
    burdens: list[CommandCost] = attrs.field(factory=list)

    def attach(self, engine: Engine, store: LocalStore) -> None:
        self.database.attach(engine, store)

    def load(self) -> None:
        self.database.load()

    def apply(self, transaction: StoreTransaction, entry: Entry, position: LogPosition) -> Result:
        command = command_codec.parse_untrusted(entry.payload)
        burden = cost_of(
            self.store, transaction, command,
            lambda metered: apply.apply(metered, command),  # type: ignore[arg-type]  # it has all that is asked for
        )  # fmt: skip
        self.burdens.append(burden)
        return burden.result

    def post_apply(self, entry: Entry, position: LogPosition, result: Any) -> None:
        self.database.post_apply(entry, position, result)


@attrs.define(eq=False)
class CostRun:
    """State of one seed."""

    world: World
    chance: random.Random
    watcher: CostObserver = attrs.field(factory=CostObserver)

    def database(self) -> Database:
        clock = SimulatedClock(Process(NodeId(1)), 1.0, 0.0)
        return Database(clock=clock, random=random.Random(0))

    def object(self, check: str, message: str) -> None:
        self.world.violations.append(Violation(check, message))

    # -- the log --------------------------------------------------------------------------------------------------------

    def entries(self) -> list[Entry]:
        """Entries of a database."""
        chance = self.chance
        heavy = HeavyCommands(chance, chance.randint(*LARGE))
        commands = heavy.commands(chance.randint(*COMMANDS) + 40)
        entries: list[Entry] = []
        if chance.random() < FORMER:
            entries += self._entries([next(commands) for _ in range(chance.randint(20, 36))], heavy)
            entries.append(_entry(list(self._left_behind(heavy))))
        entries.append(_switched())
        entries += self._entries(commands, heavy)
        return entries

    def _entries(self, commands: Iterator[Command] | Sequence[Command], heavy: HeavyCommands) -> Iterator[Entry]:
        """Groups, and among them some of one kind."""
        group: list[Command | bytes] = []
        for command in commands:
            group.append(command)
            if self.chance.random() < TORN / GROUP:
                group.append(command_codec.encode(command)[: self.chance.randint(0, 11)])
            if self.chance.random() < 2 / GROUP or len(group) >= GROUP:
                yield _entry(group)
                group = []
            if self.chance.random() < 0.1:
                yield _entry(list(self._alike(heavy)))
        if group:
            yield _entry(group)

    def _left_behind(self, heavy: HeavyCommands) -> Iterator[Command]:
        """Commands that only the former version accepted, or wrote like this."""
        name = self.chance.choice(NAMES)
        text = b"count=-1,bytes=-1=;countHardLimit=999;" + b";".join(
            b"n%c=%d" % (97 + n % 26, n) for n in range(heavy.size // 8)
        )
        for operation in (
            Create(FORMER_PATH, b"x" * heavy.size),
            Create(f"{QUOTA}/{name}/zookeeper_limits", text),
            Create(f"{QUOTA}/{name}/zookeeper_stats", text),
        ):
            yield Command(operation, Origin(), heavy.now_ms)

    def _alike(self, heavy: HeavyCommands) -> Iterator[Command]:
        """Commands on the same znode again and again: commands of one group, and one multi."""
        path, data = f"/{self.chance.choice(NAMES)}", b"x" * heavy.size
        at = f"{QUOTA}/{path[1:]}/zookeeper_stats"
        count = self.chance.randint(4, GROUP)
        kind = self.chance.randrange(7)
        if kind == 0:
            operations: list[Any] = [SetData(path, data + b"%d" % number) for number in range(count)]
        elif kind == 1:
            operations = [Create(f"{path}/g{self.chance.getrandbits(40):x}", b"") for _ in range(count)]
        elif kind == 2:
            operations = [
                Multi(tuple(Create(f"{path}/m{self.chance.getrandbits(40):x}", b"") for _ in range(4 * count)))
            ]
        elif kind == 3:
            operations = [Create(at, b"count=-1,bytes=-1"), Multi((SetData(path, b"1"),) * count)]
        elif kind == 4:
            pairs = tuple(part for _ in range(4 * count) for part in (Delete(at), Create(at, b"count=-1,bytes=-1")))
            operations = [Create(at, b"count=-1,bytes=-1"), Multi(pairs)]
        elif kind == 5:
            rights = (*(Acl(31, "digest", f"{number:040}:x") for number in range(180)), Acl(31, "world", "anyone"))
            operations = [
                SetAcl(path, rights),
                *(Create(f"{path}/r{self.chance.getrandbits(40):x}", b"") for _ in range(3)),
            ]
        else:
            operations = [Create(f"{path}/{'d/' * depth}d", b"", (Acl(31, "world", "anyone"),)) for depth in range(3)]
        origin = Origin(identities=(Identity("digest", "me:x"),))
        return (Command(operation, origin, heavy.now_ms) for operation in operations)

    # -- replicas -------------------------------------------------------------------------------------------------------

    def play(self, log: Sequence[PlacedBatch]) -> tuple[MeteredTree, list[Any]]:
        """One replica, weighed; and digests of its store after each entry."""
        store = MeteredStore(MemoryDisk(), None, None)
        weighed, digests = MeteredTree(self.database(), store), []
        replay = Replay(store, application=weighed)
        for placed in log:
            replay.apply([placed])
            digests.append(state_digest_of(store).finish())
        return weighed, digests

    def replay(self, log: Sequence[PlacedBatch], digests: Sequence[Any]) -> None:
        """Another one, which begins anew here and there with what is in its store."""
        disk = MemoryDisk()
        replay = Replay(disk.open(), application=self.database())
        for number, placed in enumerate(log):
            if self.chance.random() < 0.15:
                self.world.counts["burden restarts"] += 1
                replay = Replay(disk.open(), application=self.database())
            replay.apply([placed])
            if state_digest_of(disk.open()).finish() != digests[number]:
                self.object(ALIKE, f"a replay has come to another state at entry {number}")
                return

    def play_each(self, entries: Sequence[Entry], weighed: MeteredTree) -> None:
        """A replica of a log in which each command has an entry of its own."""
        apart = [each for entry in entries for each in _apart(entry)]
        self.world.counts["burden commands in groups"] += len(apart) - len(entries)
        store = MemoryDisk().open()
        replay = Replay(store, application=self.database())
        for placed in _placed_all(apart):
            replay.apply([placed])
        if any(left != right for left, right in zip_longest(_tree(store), _tree(weighed.store))):
            self.object(GROUPED, "commands have done something else in groups than by themselves")

    # -- judging --------------------------------------------------------------------------------------------------------

    def judge(self, weighed: MeteredTree) -> None:
        for number, burden in enumerate(weighed.burdens):
            operation = burden.command.operation
            self.world.counts[f"burden {type(operation).__name__.lower()} {burden.result.error.name.lower()}"] += 1
            self.world.counts["burden bounded" if burden.is_bounded else "burden former"] += 1
            weigh = Weigh(type(operation).__name__, burden.command.size)
            self.world.history.observed(
                "replica", weigh, f"{burden.result.error.name}: read {burden.read}, put {burden.put}"
            )
            for objection in burden.objections():
                about = f"{type(operation).__name__} of {burden.command.size} bytes ({burden.result.error.name})"
                self.object(CHECK, f"command {number}, {about}: {objection}")
            if burden.is_bounded and burden.result.error is Error.OK:
                self._judge_texts(operation)

        self._judge_counters(weighed.store)

    def _judge_counters(self, store: MeteredStore) -> None:
        meta, tree = decode_meta(store.get(keys.META) or b""), Tree(store)
        found = [keys.decoded(key[1:]) for key, _ in keys.scan_all(store, (b"n", b"o"))]
        size = sum(tree.exists(path).data_length for path in found)
        if (meta.znodes, meta.data_bytes) != (len(found), size):
            self.object(
                COUNTED, f"{meta.znodes} znodes of {meta.data_bytes} bytes, and there are {len(found)} of {size}"
            )

    def _judge_texts(self, operation: Any) -> None:
        for part in operation.operations if isinstance(operation, Multi) else (operation,):
            if isinstance(part, Create | SetData) and part.path.startswith(QUOTA):
                is_quota = part.path.endswith((f"/{quotas.LIMITS}", f"/{quotas.STATS}"))
                if is_quota and len(part.data or b"") > quotas.TEXT_BYTES_MAX:
                    self.object(REFUSED, f"a text of {len(part.data or b'')} bytes was accepted")

    def watch(self, weighed: MeteredTree) -> None:
        """Changes cost what their paths say, however many lengths are watched."""
        database = weighed.database
        for length in range(2, self.chance.randint(*LENGTHS)):
            database.watches.add("/" + "x" * (length - 1), self.watcher, WatchMode.PERSISTENT_RECURSIVE)
        database.watches.add(f"/{self.chance.choice(NAMES)}", self.watcher, WatchMode.PERSISTENT_RECURSIVE)
        for burden in weighed.burdens:
            for change, rights in zip(burden.result.changes[:3], burden.result.rights, strict=False):
                before = self.watcher.told
                steps, _ = steps_of(partial(database.watches.fire, change, burden.result.zxid, rights))
                told = self.watcher.told - before
                entries = sum(len(each) for each in rights)
                allowed = STEPS_OF_A_CHANGE + STEPS_OF_A_CHARACTER * len(change[1]) + 100 * told + 60 * entries
                if steps > allowed:
                    self.object(CHECK, f"a change of {change[1]} took {steps} steps to tell, {allowed} may be")
                self.world.counts["burden watches told"] += told

    def read_many(self, weighed: MeteredTree) -> None:
        """Reads of a multiRead."""
        database, store, chance = weighed.database, weighed.store, self.chance
        large = [f"/large{number}" for number in range(chance.randint(1, LARGE_READ))]
        for path in large:
            znode = Znode(ZnodeKind.PERSISTENT, 1, 1, 1, 1, 1, data=bytes(chance.randint(*LARGE)))
            store.write({keys.znode(path): znode.encode()})  # as the former version has left it
        database.tree.load()
        view, paths = reads.ReadContext(database, self.watcher), (*(f"/{name}" for name in NAMES), FORMER_PATH, *large)
        for _ in range(MULTI_READS):
            opcode = chance.choice((OpCode.GET_DATA, OpCode.GET_CHILDREN))
            count = chance.randint(1, MULTI_READ_PARTS)
            some = [chance.choice(paths)] if chance.random() < 0.3 else paths
            asked = requests.MultiRead(tuple((opcode, requests.Read(chance.choice(some), False)) for _ in range(count)))
            before = store.read + store.scanned
            try:
                answer = len(reads.READS[OpCode.MULTI_READ][1](view, 1, asked, STRANGER))
                self.world.counts["burden multiread answered"] += 1
            except RefusedError:
                answer = replies.MULTI_READ_BYTES_MAX
                self.world.counts["burden multiread refused"] += 1
            looked = store.read + store.scanned - before
            allowed = min(
                replies.MULTI_READ_LOOKED_MAX + 2 * LARGE[1], count * (READ_OF_A_PART + LARGE[1]) + 2 * answer
            )
            if looked > allowed:
                self.object(CHECK, f"a multiRead of {count} parts has looked at {looked} bytes, {allowed} may be")


def _switched() -> Entry:
    """All replicas obey the bounds from here on; as an operator would write it, for there is no view here that could be asked."""
    key = section(NAME) + BOUNDS.encode()
    return Entry(b"", {brain_doctor.BrainDoctorEngine.name: brain_doctor.encode({key: b"\1" + bytes(8)})})


def _entry(commands: Sequence[Command | bytes]) -> Entry:
    payloads = [command if isinstance(command, bytes) else command_codec.encode(command) for command in commands]
    return Entry(b"".join(payloads), {BATCHING: pack_ends(payloads)})


def _apart(entry: Entry) -> list[Entry]:
    """Its commands, each in a group of its own; or an engine's entry."""
    return [_entry([command]) for command in commands_of_untrusted(entry)] or [entry]


def _tree(store: LocalStore) -> Iterator[tuple[bytes, bytes]]:
    """Content of the store without records of engines."""
    return keys.scan_all(store, (b"\1", b"\xff"))


def _placed_all(entries: Sequence[Entry]) -> list[PlacedBatch]:
    """One entry in a batch."""
    return [_placed(position, entry) for position, entry in enumerate(entries)]


def _placed(position: int, entry: Entry) -> PlacedBatch:
    stamped = entry.with_header(PROPOSER, position.to_bytes(TOKEN_BYTES, "big"))
    batch = Batch.build(SessionId(bytes(16)), position, (stamped.encode(),))
    return PlacedBatch(range(position, position + 1), batch, 0)


async def _story(world: World) -> None:
    story = CostRun(world, world.random("burden"))
    entries = story.entries()
    log = _placed_all(entries)
    weighed, digests = story.play(log)
    story.judge(weighed)
    story.replay(log, digests)
    story.play_each(entries, weighed)
    story.watch(weighed)
    story.read_many(weighed)
    await trio.lowlevel.checkpoint()


BURDEN: Final = Scenario(
    name="burden",
    about="commands that might cost more than they say, at replicas whose work is counted",
    story=_story,
    limit_seconds=60.0,
)
