"""A loglet whose seal bit and whose entries live in different places: the smallest one in which order matters.

One server holds entries, another one holds the bit; neither survives anything. It exists to show, and to test checkers
with, the ordering rule (specs: Delos, section 3.4 and its erratum; "weak sealing" in the words of the LogDrive paper):

    append        write the entry, then look at the bit
    check_tail    read the tail, then look at the bit; if it is set, read the tail again

Each of the two, done the other way round, looks right, passes every test without concurrency, and loses data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs

from virtuallog.api import Placed
from virtuallog.batch import Batch
from virtuallog.errors import SealedError, VirtualLogError
from virtuallog.ports import Done, Environment, Handlers, Request
from virtuallog.testing.model import LogModel
from virtuallog.types import LogletOffset, NodeId, Open, Sealed, Tail

CALL_SECONDS: Final = 1.0
POLL_SECONDS: Final = 0.05


@attrs.frozen
class Written:
    start: int
    stop: int


@attrs.frozen
class Write(Request[Written]):
    batch: Batch
    opens: bool
    expected_tail: int | None


@attrs.frozen
class Found:
    placed: tuple[Placed, ...]


@attrs.frozen
class Fetch(Request[Found]):
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


@attrs.define(eq=False)
class EntriesServer:
    """Orders whatever it is given; knows nothing of seals."""

    model: LogModel = attrs.field(factory=LogModel)

    @property
    def handlers(self) -> Handlers:
        return {Write: self._write, Fetch: self._fetch, GetTail: self._get_tail, TrimBelow: self._trim}

    def _write(self, request: Write, done: Done) -> None:
        try:
            places = self.model.append(request.batch, opens=request.opens, expected_tail=request.expected_tail)
        except VirtualLogError as error:
            done(error)
        else:
            done(Written(places.start, places.stop))

    def _fetch(self, request: Fetch, done: Done) -> None:
        try:
            done(Found(tuple(self.model.read(request.start, request.stop, request.max_bytes))))
        except VirtualLogError as error:
            done(error)

    def _get_tail(self, _: GetTail, done: Done) -> None:
        done(Number(self.model.tail))

    def _trim(self, request: TrimBelow, done: Done) -> None:
        done(Number(self.model.prefix_trim(request.offset)))


@attrs.define(eq=False)
class SealServer:
    """Holds one bit."""

    is_set: bool = False

    @property
    def handlers(self) -> Handlers:
        return {GetBit: self._get, SetBit: self._set}

    def _get(self, _: GetBit, done: Done) -> None:
        done(Bit(self.is_set))

    def _set(self, _: SetBit, done: Done) -> None:
        self.is_set = True
        done(Bit(self.is_set))


@attrs.define(eq=False)
class WeakSealLoglet:
    """A client. Implements `virtuallog.api.Loglet`."""

    _environment: Environment
    _entries: NodeId
    """Where the `EntriesServer` is."""
    _seal: NodeId
    """Where the `SealServer` is."""

    async def append(self, batch: Batch, *, opens: bool, expected_tail: LogletOffset | None = None) -> range:
        written = await self._call(self._entries, Write(batch, opens, expected_tail))
        # Only now: a seal that this check does not see completes after the write, so its tail covers the entry.
        if await self._is_sealed():
            raise SealedError
        return range(written.start, written.stop)

    async def check_tail(self) -> Tail:
        tail = await self._tail()
        # Only now: with the bit read first, a seal could complete in between, and what a zombie writes afterwards
        # would be part of a tail that is called open.
        if not await self._is_sealed():
            return Open(tail)
        # The first tail may be older than the seal, and appends may have been acknowledged in between.
        return Sealed(await self._tail())

    async def wait_tail(self, past: LogletOffset) -> Tail:
        for _ in range(20):
            tail = await self.check_tail()
            if isinstance(tail, Sealed) or tail.tail > past:
                break
            await self._environment.clock.sleep(POLL_SECONDS)
        return tail

    async def read(self, start: LogletOffset, stop: LogletOffset, max_bytes: int) -> Sequence[Placed]:
        found = await self._call(self._entries, Fetch(start, stop, max_bytes))
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
        return await self._environment.services.call(node, request, CALL_SECONDS)
