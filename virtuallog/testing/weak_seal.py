"""A loglet with seal bit and entries in different places: the smallest one in which order matters.

One server holds entries, another one holds the bit, of any number of logs; neither survives a
restart. It exists to show, and to test checkers with, the ordering rule (specs: Delos, section 3.4
and its erratum; "weak sealing" in the words of the LogDrive paper):

    append        write the entry, then look at the bit
    check_tail    read the tail, then look at the bit; if it is set, read the tail again

Each of the two in the other order looks right, passes every test without concurrency, and loses
data. `weak_seal_provider.py` makes it a kind for chains: a loglet on an external service.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs

from virtuallog.contract.batch import Batch
from virtuallog.contract.errors import SealedError, TailMismatchError, UnsupportedError, VirtualLogError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.ports import Done, Environment, Handlers, Request
from virtuallog.contract.types import GapKind, LogletOffset, NodeId, Open, PlacedBatch, Sealed, Tail
from virtuallog.testing.model import LogModel

CALL_SECONDS: Final = 1.0
POLL_SECONDS: Final = (0.05, 0.15, 0.45, 1.35)
"""Pauses between two checks of `wait_tail`: soon at first, for a log in use; then rarely, as idle
checks cost calls."""


@attrs.frozen
class WeakSealWritten:
    start: int
    stop: int


@attrs.frozen
class WeakSealWrite(Request[WeakSealWritten]):
    batch: Batch
    opens: bool
    expected_tail: int | None


@attrs.frozen
class WeakSealFetched:
    placed: tuple[Placed, ...]


@attrs.frozen
class WeakSealFetch(Request[WeakSealFetched]):
    start: int
    stop: int
    max_bytes: int


@attrs.frozen
class Number:
    value: int


@attrs.frozen
class GetTail(Request[Number]):
    pass


@attrs.frozen
class TrimBelow(Request[Number]):
    offset: int


@attrs.frozen
class Bit:
    is_set: bool


@attrs.frozen
class GetBit(Request[Bit]):
    pass


@attrs.frozen
class SetBit(Request[Bit]):
    pass


@attrs.frozen
class WeakSealImport(Request[Number]):
    """Make a log with the content of another one, at the same places, gaps included. The answer is
    its tail."""

    placed: tuple[Placed, ...]


@attrs.frozen
class RequestInLog(Request[Any]):
    """A request about one of the logs of a server."""

    log: str
    request: Request[Any]


@attrs.define(eq=False)
class EntriesServer:
    """Orders all entries that it gets; knows nothing of seals."""

    logs: dict[str, LogModel] = attrs.field(factory=dict)

    @property
    def handlers(self) -> Handlers:
        return {RequestInLog: self._serve}

    def _serve(self, request: RequestInLog, done: Done) -> None:
        try:
            done(self._answer(request.log, request.request))
        except VirtualLogError as error:
            done(error)

    def _answer(self, log: str, request: Request[Any]) -> WeakSealWritten | WeakSealFetched | Number:
        model = self.logs.setdefault(log, LogModel())
        match request:
            case WeakSealWrite(batch, opens, expected_tail):
                places = model.append(batch, opens=opens, expected_tail=expected_tail)
                return WeakSealWritten(places.start, places.stop)
            case WeakSealFetch(start, stop, max_bytes):
                return WeakSealFetched(tuple(model.read(start, stop, max_bytes)))
            case GetTail():
                return Number(model.tail)
            case TrimBelow(offset):
                return Number(model.prefix_trim(offset))
            case WeakSealImport(placed):
                if model.tail == 0:  # else a copy of an earlier call, which must not undo later trims
                    self.logs[log] = model = _model_of(placed)
                return Number(model.tail)
        raise UnsupportedError(f"an entries server does not serve {type(request).__name__}")


def _model_of(placed: Sequence[Placed]) -> LogModel:
    model = LogModel(tail=placed[-1].stop if placed else 0)
    for item in placed:
        if isinstance(item, PlacedBatch):
            model.batches.append(item)
        elif item.kind is GapKind.TRIMMED:
            model.trim_point = item.stop
    return model


@attrs.define(eq=False)
class SealServer:
    """Holds one bit of each log."""

    sealed: set[str] = attrs.field(factory=set)

    @property
    def handlers(self) -> Handlers:
        return {RequestInLog: self._serve}

    def _serve(self, request: RequestInLog, done: Done) -> None:
        if isinstance(request.request, SetBit):
            self.sealed.add(request.log)
        done(Bit(request.log in self.sealed))


@attrs.define(eq=False)
class WeakSealLoglet:
    """A client. Implements `virtuallog.contract.loglet.Loglet`."""

    _environment: Environment
    _entries: NodeId
    """Node of the `EntriesServer`."""
    _seal: NodeId
    """Node of the `SealServer`."""
    _log: str = ""
    """Name of the log on these servers."""

    async def append(self, batch: Batch, *, opens: bool, expected_tail: LogletOffset | None = None) -> range:
        try:
            written = await self._call(self._entries, WeakSealWrite(batch, opens, expected_tail))
        except TailMismatchError:
            if await self._is_sealed():  # the refused tail may lie beyond the sealed tail, where it is in no log
                raise SealedError from None
            raise
        # Only now: a seal that this check does not see completes after the write, so its tail
        # covers the entry.
        if await self._is_sealed():
            raise SealedError
        return range(written.start, written.stop)

    async def check_tail(self) -> Tail:
        tail = await self._tail()
        # Only now: with the bit read first, a seal could complete in between, and later writes of a
        # zombie would be part of a tail that is called open.
        if not await self._is_sealed():
            return Open(tail)
        # The first tail may be older than the seal, and appends may have been acknowledged in between.
        return Sealed(await self._tail())

    async def wait_tail(self, past: LogletOffset) -> Tail:
        for pause in POLL_SECONDS:
            tail = await self.check_tail()
            if isinstance(tail, Sealed) or tail.tail > past:
                return tail
            await self._environment.clock.sleep(pause)
        return await self.check_tail()

    async def read(self, start: LogletOffset, stop: LogletOffset, max_bytes: int) -> Sequence[Placed]:
        found = await self._call(self._entries, WeakSealFetch(start, stop, max_bytes))
        return list(found.placed)

    async def seal(self) -> None:
        await self._call(self._seal, SetBit())

    async def prefix_trim(self, offset: LogletOffset) -> LogletOffset:
        return LogletOffset((await self._call(self._entries, TrimBelow(offset))).value)

    async def _tail(self) -> int:
        return int((await self._call(self._entries, GetTail())).value)

    async def _is_sealed(self) -> bool:
        return bool((await self._call(self._seal, GetBit())).is_set)

    async def _call(self, node: NodeId, request: Request[Any]) -> Any:
        return await self._environment.services.call(node, RequestInLog(self._log, request), CALL_SECONDS)
