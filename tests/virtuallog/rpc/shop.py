"""Messages and handlers of the made-up service in shop.capnp."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import attrs
import capnp

from virtuallog.contract.capnp_interface import Interface, Method
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import OverloadedError, SealedError, TrimmedError
from virtuallog.contract.ports import Done, Handlers, Request
from virtuallog.contract.types import NodeId
from virtuallog.rpc.protocol.node import Identity

SCHEMA_PATH = Path(__file__).with_name("shop.capnp")


@cache
def schema() -> Any:
    return capnp.load(str(SCHEMA_PATH))


class Kind(enum.Enum):
    PLAIN = 1
    NOT_FOR_SALE = 2


@attrs.frozen
class Box:
    length: int
    label: str


@attrs.frozen
class Bag:
    pass


@attrs.frozen(kw_only=True)
class Everything(Request["Everything"]):
    count: int = 0
    small: int = 0
    ratio: float = 0.0
    is_open: bool = False
    raw_bytes: bytes = b""
    name: str = ""
    kind: Kind = Kind.PLAIN
    segment: SegmentId = attrs.field(factory=lambda: SegmentId(0, 0))
    numbers: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    blobs: tuple[bytes, ...] = ()
    boxes: tuple[Box, ...] = ()
    roles: frozenset[str] = frozenset()
    maybe_name: str | None = None
    maybe_bytes: bytes | None = None
    maybe_box: Box | None = None
    maybe_numbers: tuple[int, ...] | None = None
    item: Box | Bag = attrs.field(factory=Bag)
    items: tuple[Box | Bag, ...] = ()
    maybe_item: Box | Bag | None = None


@attrs.frozen
class Stored:
    tail: int


@attrs.frozen(kw_only=True)
class Store(Request[Stored]):
    segment: SegmentId
    batch: bytes
    position: int


@attrs.frozen
class Waited:
    token: int


@attrs.frozen
class Wait(Request[Waited]):
    """A call that stays open until `Shop.release`."""

    token: int


@attrs.frozen
class Nothing:
    pass


@attrs.frozen
class NotServed(Request[Nothing]):
    pass


@attrs.frozen
class Visit(Request[Nothing]):
    pass


def interfaces() -> tuple[Interface, ...]:
    methods = (
        Method(name="store", request=Store, reply=Stored),
        Method(name="echo", request=Everything, reply=Everything),
        Method(name="wait", request=Wait, reply=Waited),
        Method(name="notServed", request=NotServed, reply=Nothing),
    )
    return (Interface(schema=schema().Shop, methods=methods),)


def annex() -> tuple[Interface, ...]:
    return (Interface(schema=schema().Annex, methods=(Method(name="visit", request=Visit, reply=Nothing),)),)


IDENTITY = Identity(cluster=b"c" * 16, node=NodeId(1), store_id=b"s" * 16, boot=4, software="shop 1")


@attrs.define
class Shop:
    """Serves the interface. Positions below 10 ask for one kind of trouble each."""

    stored: list[Store] = attrs.field(factory=list)
    waiting: dict[int, Done] = attrs.field(factory=dict)

    def handlers(self) -> Handlers:
        return {Store: self._store, Everything: self._echo, Wait: self._wait}

    def _store(self, request: Store, done: Done) -> None:
        self.stored.append(request)
        match request.position:
            case 1:
                done(SealedError())
            case 2:
                done(TrimmedError(first=77))
            case 3:
                raise OverloadedError("no room in the shop")
            case 4:
                raise ZeroDivisionError("a bug in a handler")
            case 5:
                done(Stored(-1))  # does not fit the schema
            case position:
                done(Stored(position + 1))

    def _echo(self, request: Everything, done: Done) -> None:
        done(attrs.evolve(request, raw_bytes=bytes(8 << 20)) if request.name == "inflate" else request)

    def _wait(self, request: Wait, done: Done) -> None:
        self.waiting[request.token] = done

    def release(self, tokens: Iterable[int]) -> None:
        for token in tokens:
            self.waiting.pop(token)(Waited(token))
