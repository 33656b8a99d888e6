"""A complete loglet in one file: one node orders the entries and keeps them. No replication, so little to get wrong.

It survives everything that its node comes back from with its disk: a crash, a pause, a cut cable. While the node is
away no client can seal, so the chain waits for it. `virtuallog conformance single_copy_loglet:SingleCopyProvider` (run in
this directory) says whether it keeps the contract; docs/howto/write-a-loglet.md walks through the report.

    client  SingleCopyLoglet      one call for each operation
    node    SingleCopyServer      one request at a time: change the model, write, answer
    both    SingleCopyProvider    named by the entry point `single-copy` in pyproject.toml beside this file
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import trio

from virtuallog.contract.batch import Batch
from virtuallog.contract.capnp_interface import Interface, Method
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.diagnosis import ANSWER_SECONDS, COMBINED, Evidence
from virtuallog.contract.errors import (
    CorruptionError,
    InvalidSettingError,
    MalformedError,
    SealedError,
    StorageError,
    UnavailableError,
    UnsupportedError,
    VirtualLogError,
    WrongRecipientError,
)
from virtuallog.contract.loglet import Loglet, Placed
from virtuallog.contract.placement import Cluster
from virtuallog.contract.ports import Clock, Done, DurableMap, Environment, Handlers, NodeEnvironment, ReplyT, Request
from virtuallog.contract.schema import load_file
from virtuallog.contract.types import Gap, GapKind, LogletOffset, NodeId, Open, PlacedBatch, Sealed, Tail
from virtuallog.testing.model import LogModel

CALL_SECONDS = 2.0
WAIT_SECONDS, POLL_SECONDS = 5.0, 0.05
REQUESTS_MAX = 256
"""Requests that wait at the server; a client does not have many in flight."""


# -- messages: small attrs classes, paired by name with the structs of single_copy_loglet.capnp --------------------------


@attrs.frozen
class State:
    tail: int
    trim_point: int
    sealed: bool


@attrs.frozen
class Item:
    """A batch, clipped to the range that was asked for; an empty blob stands for places that are trimmed."""

    start: int
    stop: int
    first: int
    time_ms: int
    blob: bytes


@attrs.frozen
class Items:
    items: tuple[Item, ...]


@attrs.frozen
class Append(Request[State]):
    """Answered with a state whose tail is the end of the batch."""

    segment: SegmentId
    batch: bytes
    opens: bool


@attrs.frozen
class Look(Request[State]):
    segment: SegmentId


@attrs.frozen
class Seal(Request[State]):
    segment: SegmentId


@attrs.frozen
class Trim(Request[State]):
    segment: SegmentId
    offset: int


@attrs.frozen
class Read(Request[Items]):
    segment: SegmentId
    start: int
    stop: int
    max_bytes: int


_METHODS = {"append": Append, "look": Look, "seal": Seal, "trim": Trim, "read": Read}
WIRE = Interface(
    schema=load_file(Path(__file__).with_name("single_copy_loglet.capnp")).SingleCopy,
    methods=tuple(
        Method(name=name, request=request, reply=Items if request is Read else State)
        for name, request in _METHODS.items()
    ),
)


# -- the server ----------------------------------------------------------------------------------------------------------


@attrs.define(eq=False)
class SingleCopyServer:
    """Every loglet whose config names this node, in memory as `LogModel`s and on disk as pairs:

        "3.5eed batch 17" -> time, batch      "3.5eed seal" -> nothing      "3.5eed trim" -> trim point

    One request after the other. So a seal finds no write in flight, and a client that reads a tail reads what is durable. A
    change is made in memory first and it is not reported before it is on disk: the next request waits, and if the disk
    fails the server stops.
    """

    environment: NodeEnvironment
    disk: DurableMap
    lowest_live_version: int = 0
    _models: dict[SegmentId, LogModel] = attrs.field(factory=dict, init=False)
    _turn: trio.Lock = attrs.field(factory=trio.Lock, init=False)

    async def run(self, requests: trio.MemoryReceiveChannel[tuple[Any, Done]]) -> None:
        async for request, done in requests:
            try:
                async with self._turn:
                    outcome: Any = await self._serve(request, await self._model(request.segment))
            except StorageError as error:  # unknown, and memory may be ahead of the disk
                self.environment.fail(error)
                return
            except VirtualLogError as error:
                outcome = error
            done(outcome)

    async def forget(self, lowest_live_version: int) -> None:
        """Drop the loglets below, durably, and never make one again."""
        async with self._turn:
            old = [key for key, _ in await self.disk.scan(b"") if int(key.partition(b".")[0]) < lowest_live_version]
            await self.disk.write(dict.fromkeys(old))
            self.lowest_live_version = max(self.lowest_live_version, lowest_live_version)
            self._models = {segment: model for segment, model in self._models.items() if not self._dropped(segment)}

    async def keep_batch(self, segment: SegmentId, place: int, time_ms: int, batch: Batch) -> None:
        await self.disk.write({_key(segment, f"batch {place:020}"): time_ms.to_bytes(8, "big") + batch.blob})

    async def keep_seal(self, segment: SegmentId) -> None:
        await self.disk.write({_key(segment, "seal"): b""})

    async def keep_trim_point(self, segment: SegmentId, trim_point: int) -> None:
        """The batches stay until the chain drops the segment: they say which sessions were here."""
        await self.disk.write({_key(segment, "trim"): b"%d" % trim_point})

    async def _serve(self, request: Any, model: LogModel) -> Any:
        match request:
            case Append(segment, blob, opens):
                return await self._append(segment, model, Batch.parse_untrusted(blob), opens=opens)
            case Read(_, start, stop, max_bytes):
                return Items(tuple(_item(placed) for placed in model.read(start, stop, max_bytes)))
            case Seal(segment) if not model.sealed:
                model.seal()
                await self.keep_seal(segment)
            case Trim(segment, offset):
                await self.keep_trim_point(segment, model.prefix_trim(offset))
        return State(model.tail, model.trim_point, model.sealed)

    async def _append(self, segment: SegmentId, model: LogModel, batch: Batch, *, opens: bool) -> State:
        tail, time_ms = model.tail, int(self.environment.clock.wall() * 1000)
        try:
            places = model.append(batch, opens=opens, time_ms=time_ms)
        except SealedError:  # not "refused": the network may have doubled the request, and the twin may be in the log
            raise SealedError from None
        if places.start >= tail:  # else it is here already, and durable
            await self.keep_batch(segment, places.start, model.time_ms, batch)
        return State(places.stop, model.trim_point, model.sealed)

    async def _model(self, segment: SegmentId) -> LogModel:
        """The loglet as it was left, or a new one if the chain has it."""
        if self._dropped(segment):
            raise SealedError("the chain no longer holds this segment")
        if segment not in self._models:
            await self.environment.segment_config(segment)
            self._models[segment] = await self._replay(segment)
        return self._models[segment]

    async def _replay(self, segment: SegmentId) -> LogModel:
        model = LogModel()
        for key, value in await self.disk.scan(_key(segment, "batch")):
            place, time_ms = int(key.rpartition(b" ")[2]), int.from_bytes(value[:8], "big")
            try:
                batch = Batch.parse_untrusted(value[8:])
            except (MalformedError, CorruptionError) as error:
                raise StorageError(f"place {place} of loglet {segment}: {error}") from error
            model.land(batch, range(place, place + batch.count), time_ms)
        model.sealed = await self.disk.get(_key(segment, "seal")) is not None
        model.prefix_trim(int(await self.disk.get(_key(segment, "trim")) or 0))
        return model

    def _dropped(self, segment: SegmentId) -> bool:
        return segment.version < self.lowest_live_version


def _key(segment: SegmentId, what: str) -> bytes:
    return f"{segment} {what}".encode()


def _item(placed: Placed) -> Item:
    if isinstance(placed, Gap):  # places without holes: only a trim leaves gaps
        return Item(placed.start, placed.stop, 0, 0, b"")
    return Item(placed.start, placed.stop, placed.first, placed.time_ms, placed.batch.blob)


# -- the client ----------------------------------------------------------------------------------------------------------


@attrs.frozen
class SingleCopyLoglet:
    """Implements `virtuallog.contract.loglet.Loglet`. All of it is at the server, so cancelling a call breaks nothing here."""

    segment: SegmentId
    server: NodeId
    environment: Environment

    @property
    def clock(self) -> Clock:
        return self.environment.clock

    async def append(self, batch: Batch, *, opens: bool, expected_tail: LogletOffset | None = None) -> range:
        if expected_tail is not None:
            raise UnsupportedError("a single-copy loglet has no conditional appends")
        stop = (await self._ask(Append(self.segment, batch.blob, opens))).tail
        return range(stop - batch.count, stop)

    async def check_tail(self) -> Tail:
        state = await self._ask(Look(self.segment))
        return Sealed(state.tail) if state.sealed else Open(state.tail)

    async def wait_tail(self, past: LogletOffset) -> Tail:
        deadline = self.clock.monotonic() + WAIT_SECONDS
        while isinstance(tail := await self.check_tail(), Open) and tail.tail <= past:
            if self.clock.monotonic() >= deadline:
                break
            await self.clock.sleep(POLL_SECONDS)
        return tail

    async def read(self, start: LogletOffset, stop: LogletOffset, max_bytes: int) -> Sequence[Placed]:
        found = await self._ask(Read(self.segment, start, stop, max_bytes))
        return [_placed_untrusted(item) for item in found.items]

    async def seal(self) -> None:
        await self._ask(Seal(self.segment))

    async def prefix_trim(self, offset: LogletOffset) -> LogletOffset:
        return LogletOffset((await self._ask(Trim(self.segment, offset))).trim_point)

    async def _ask(self, request: Request[ReplyT]) -> ReplyT:
        try:
            return await self.environment.services.call(self.server, request, CALL_SECONDS)
        except (StorageError, WrongRecipientError) as error:  # its disk fails; it starts and does not know who it is
            raise UnavailableError(f"node {self.server}: {error}") from error


def _placed_untrusted(item: Item) -> Placed:
    if not item.blob:
        return Gap(item.start, item.stop, GapKind.TRIMMED)
    return PlacedBatch(range(item.start, item.stop), Batch.parse_untrusted(item.blob), item.time_ms, item.first)


# -- the provider --------------------------------------------------------------------------------------------------------


@attrs.define(eq=False)
class SingleCopyProvider:
    """Implements `virtuallog.contract.provider.LogletProvider`. The config of a loglet is the number of its node, as text."""

    kind: str = "single-copy"
    contiguous: bool = True
    interfaces: Sequence[Interface] = (WIRE,)
    color: str = "red"
    trials: Mapping[str, Mapping[str, str]] = {"single-copy": {"server": "2"}}
    crash_area: str = ""
    server_class: type[SingleCopyServer] = SingleCopyServer
    _server: SingleCopyServer | None = attrs.field(default=None, init=False)

    def plan(self, cluster: Cluster, settings: Mapping[str, str], previous: bytes | None) -> bytes:
        for name in settings.keys() - {"server"}:
            raise InvalidSettingError(name, "unknown; a single-copy loglet has only a server")
        living = [str(member.node) for member in cluster.members if member.alive]
        wanted = settings.get("server") or (previous or b"").decode()
        chosen = [node for node in living if node == wanted] or ([] if "server" in settings else living)
        if not chosen:
            raise InvalidSettingError("server", f"node {wanted} does not answer")
        return chosen[0].encode()

    def describe(self, config: bytes) -> Mapping[str, Any]:
        return {"server": _node_untrusted(config)}

    def open(self, segment: SegmentId, config: bytes, environment: Environment) -> Loglet:
        return SingleCopyLoglet(segment, _node_untrusted(config), environment)

    async def serve(self, environment: NodeEnvironment) -> Handlers:
        self._server = self.server_class(environment, await environment.key_values(self.kind))
        send, receive = trio.open_memory_channel[tuple[Any, Done]](REQUESTS_MAX)
        environment.nursery.start_soon(self._server.run, receive)

        def handle(request: Any, done: Done) -> None:
            try:
                send.send_nowait((request, done))
            except trio.WouldBlock:  # unknown, not "overloaded": a twin of the request may be in the queue
                done(UnavailableError("too many requests wait here"))

        return dict.fromkeys(_METHODS.values(), handle)

    async def forget(self, lowest_live_version: int) -> None:
        if self._server is not None:
            await self._server.forget(lowest_live_version)

    async def explain(self, segment: SegmentId, config: bytes, environment: Environment) -> Sequence[Evidence]:
        """Optional (`SupportsDiagnosis`): what `virtuallog explain` is shown."""
        node = _node_untrusted(config)
        source = f"node {node}"
        try:
            state = await environment.services.call(node, Look(segment), ANSWER_SECONDS)
        except VirtualLogError as error:
            return [Evidence(source, {"node": node}, str(error)), Evidence(COMBINED, {"tail": None, "spare": -1})]
        facts = {"node": node, "tail": state.tail, "sealed": state.sealed, "trim": state.trim_point}
        whole = {"tail": state.tail, "by": [source], "sealed": state.sealed, "trim": state.trim_point, "spare": 0}
        return [Evidence(source, facts), Evidence(COMBINED, whole)]


def _node_untrusted(config: bytes) -> NodeId:
    if not config.isdigit():
        raise MalformedError(f"not the config of a single-copy loglet: {config[:100]!r}")
    return NodeId(int(config))
