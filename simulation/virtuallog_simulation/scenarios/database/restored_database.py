"""A database that was restored into a new cluster: servers begin with its state at the position where their log begins.

In a share of the seeds there has been another cluster. A program has replayed its log up to a
position in its middle, without being a replica; the state that a new cluster inherits lies at a
place, as `virtuallog spark restore` leaves it. The acts of the former clients are in the history,
so the same model judges the new ones: their reads show what was written before, and former sessions
end, with their ephemerals, unless they come back.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final

import attrs

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.types import Gap, GapKind, LogPosition, PlacedBatch
from virtuallog.testing.sim.object_store import FilesServer, SimulatedFiles
from virtuallog.testing.sim.process import Process
from virtuallog_database.engines.core.entry import Entry
from virtuallog_database.engines.core.inherited_state import inherited
from virtuallog_database.engines.core.state_digests import StateDigest
from virtuallog_database.engines.layers.contract import FailedApply
from virtuallog_database.engines.layers.layer import Layer, LayerContext
from virtuallog_database.engines.stack import StackSettings, database_recipe
from virtuallog_database.ports import CheckpointFile
from virtuallog_database.replica.replay import Replay
from virtuallog_database.snapshots import compaction_manifest
from virtuallog_database.snapshots.compaction_manifest import Manifest, StoreFile, Table
from virtuallog_database.snapshots.compaction_store import CompactionStore, stored_name
from virtuallog_database.testing.memory_store import MemoryDisk
from virtuallog_database.transaction import StoreTransaction
from virtuallog_database.tree import command_codec
from virtuallog_database.tree.commands import Command, Create, CreateSession, Delete, Mode, Operation, Origin, SetData
from virtuallog_loglets.archive.config import join
from virtuallog_simulation.scenarios.database.witness import Witness
from virtuallog_simulation.workload.database.operations import INNER, PARENTS, PLAIN
from virtuallog_simulation.world.external_services import FILES
from virtuallog_simulation.world.store_disk import checkpoint_of
from virtuallog_simulation.world.world import EPOCH_SECONDS, World

URL: Final = "simulated://restored"
SESSIONS: Final = (1, 2, 3)
"""Sessions of the former clients; ids drawn by servers are far from these."""
COMMANDS: Final = (5, 60)
_TIMEOUT_MS: Final = 4000
_PASSWORD: Final = b"p" * 16
_FORMER: Final = "former cluster"
_MODES: Final = (Mode.PERSISTENT, Mode.PERSISTENT, Mode.EPHEMERAL)


def restore(
    world: World, witness: Witness, cluster: bytes, position: LogPosition
) -> tuple[CompactionStore, Mapping[bytes, bytes]]:
    """Play a log that has been cut at this position, and put what a new cluster inherits at a place; returns that, and what it is."""
    source = world.random("former log")
    disk = MemoryDisk()
    replay = Replay(disk.open(), recipe=partial(_recipe, witness))
    commands = list(_commands(source, min(position, source.randint(*COMMANDS))))
    first = LogPosition(position - len(commands))
    if first:
        replay.apply([Gap(LogPosition(0), first, GapKind.FILLER)])
    replay.apply([_placed(LogPosition(first + number), command) for number, command in enumerate(commands)])
    assert replay.cursor == position
    pairs = dict(inherited(disk.content))
    return _published(world, cluster, position, pairs), pairs


def _commands(source: random.Random, count: int) -> Sequence[Command]:
    """Commands of clients that use few znodes; many fail."""
    paths = (*PARENTS, *PLAIN, *INNER)
    operations: list[Operation] = [CreateSession(session, _PASSWORD, _TIMEOUT_MS) for session in SESSIONS]
    operations += [Create(parent, b"former") for parent in PARENTS]
    while len(operations) < count:
        path, data = source.choice(paths), b"former %d" % len(operations)
        made = Create(path, data, mode=source.choice(_MODES))
        operations.append(source.choice((made, made, SetData(path, data), Delete(path))))
    times = [int(EPOCH_SECONDS * 1000) - count + number for number in range(count)]
    return [Command(one, _origin(source, one), time) for one, time in zip(operations[:count], times, strict=True)]


def _origin(source: random.Random, operation: Operation) -> Origin:
    return Origin() if isinstance(operation, CreateSession) else Origin(source.choice(SESSIONS), 1)


def _placed(position: LogPosition, command: Command) -> PlacedBatch:
    payload = Entry(command_codec.encode(command), {}).encode()
    batch = Batch.build(SessionId(b"f" * 16), position, [payload])
    return PlacedBatch(range(position, position + 1), batch, command.time_ms, 0)


def _recipe(witness: Witness, context: LayerContext, settings: StackSettings) -> Sequence[Layer]:
    return [_Remembering(context, witness=witness), *database_recipe(context, settings)]


@attrs.define(eq=False)
class _Remembering(Layer):
    """Reports to the witness what is applied, as replicas do: a replay has no caller afterwards."""

    name: ClassVar[str] = "remembering"

    witness: Witness = attrs.field(kw_only=True)

    def apply(self, transaction: StoreTransaction, entry: Entry, position: LogPosition) -> Any:
        result = self.apply_above(transaction, entry, position)
        self.witness.applied(
            _FORMER, position, 0, entry.payload, result.error if isinstance(result, FailedApply) else result
        )
        return result


def _published(world: World, cluster: bytes, position: LogPosition, pairs: Mapping[bytes, bytes]) -> CompactionStore:
    """Publish the state as a compaction of the new cluster, on an external server."""
    server = FilesServer(world.network, world.random("restored files"))
    world.network.listen(Process(FILES), server.handlers)
    place = CompactionStore(URL, partial(SimulatedFiles, world.network, FILES))
    files = server.directories.setdefault(place.location(cluster, position), {})
    described, fold = list[StoreFile](), StateDigest()
    for name, (content, checksum) in checkpoint_of(pairs).items():
        stored = stored_name(name.removesuffix(".sst"), content, ".sst")
        files[stored] = content
        described.append(StoreFile(CheckpointFile(name, len(content), checksum), stored))
    fold.add(sorted(pairs.items()))
    table = Table("none.parquet", 0, 0, len(pairs), min(pairs), max(pairs))  # no server looks at it
    manifest = Manifest(
        cluster=cluster, position=position, time_ms=0, engines=(), pairs=len(pairs), digests=fold.finish(),
        store=tuple(described), tables=(table,), writer="the simulator",
    )  # fmt: skip
    published = server.directories.setdefault(join(URL, compaction_manifest.DIRECTORY), {})
    published[compaction_manifest.manifest_name(cluster, position)] = manifest.encode()
    return place
