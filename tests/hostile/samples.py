"""A message of every class that a node may receive: plausible ones, and ones with the oddest values that fit the schema.

Made from the classes themselves, so that a method added tomorrow is attacked tomorrow.
"""

from __future__ import annotations

import random
import types
import typing
from collections.abc import Sequence
from enum import Enum
from typing import Any, Final

import attrs

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.capnp_interface import Interface
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.ports import Request
from virtuallog.plugins import all_interfaces, loglet_providers, metastore_provider
from virtuallog.rpc.protocol.methods import BoundMethod, bind
from virtuallog_database.control.wire import INTERFACES
from virtuallog_loglets.native.core import wave as waves

MADE_UP: Final = tuple(SegmentId(1, 0xBAD0_0000 + number) for number in range(64))
"""Segments that no chain has: entries stored there belong to no log."""
_NUMBERS: Final = (0, 1, 2, 3, 100, 4096, (1 << 16) - 1, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 62),
                   (1 << 63) - 1, 1 << 63, (1 << 64) - 1, -1, -(1 << 63))  # fmt: skip
_TEXTS: Final = ("", "native", "sequencer", "1", "x" * 300, "\0", "ä\u2028\U0001f600", "../../etc/passwd")
_TRIES: Final = 50


def interfaces() -> Sequence[Interface]:
    """All interfaces of a node."""
    return [*all_interfaces(loglet_providers(), metastore_provider()), *INTERFACES]


def methods() -> Sequence[tuple[type[Request[Any]], BoundMethod]]:
    """Every method of a node, Open and Hello included."""
    return tuple(bind(interfaces()).by_request.items())


def batch(chooser: random.Random) -> bytes:
    """A sound batch of a few small entries."""
    entries = [chooser.randbytes(chooser.randrange(20)) for _ in range(chooser.randint(1, 4))]
    return Batch.build(SessionId(chooser.randbytes(16)), chooser.choice((0, 0, 1, 7, 1 << 40)), entries).blob


def wave(chooser: random.Random) -> bytes:
    """A wave with a right checksum, at an offset that may be impossible."""
    first = chooser.choice((0, 0, 0, 1, 5, 1 << 31, (1 << 63) - 1, (1 << 64) - 2))
    built = waves.build(
        segment=chooser.choice(MADE_UP), first=first, known_tail=0, time_ms=0,
        batches=[Batch.parse_untrusted(batch(chooser)) for _ in range(chooser.randint(1, 3))],
    )  # fmt: skip
    return built.blob


def damaged(chooser: random.Random, blob: bytes) -> bytes:
    """Most of the time unchanged; else a few bytes changed, lost or doubled."""
    match chooser.randrange(8):
        case 0:
            at = chooser.randrange(len(blob))
            return blob[:at] + bytes([chooser.randrange(256)]) + blob[at + 1 :]
        case 1:
            return blob[: chooser.randrange(len(blob))]
        case 2:
            return blob + blob[chooser.randrange(len(blob)) :]
    return blob


def sample(form: Any, chooser: random.Random) -> Any:
    """A value of a type as messages have them."""
    while hasattr(form, "__supertype__"):
        form = form.__supertype__
    options = typing.get_args(form)
    if typing.get_origin(form) in {types.UnionType, typing.Union}:
        chosen = chooser.choice(options)
        return None if chosen is types.NoneType else sample(chosen, chooser)
    if typing.get_origin(form) in {tuple, frozenset}:
        return typing.get_origin(form)(sample(options[0], chooser) for _ in range(chooser.randrange(4)))
    if form is SegmentId:
        return chooser.choice(MADE_UP)
    if isinstance(form, type) and attrs.has(form):
        return message(form, chooser)
    if isinstance(form, type) and issubclass(form, Enum):
        return chooser.choice(list(form))
    if form is bytes:
        return damaged(chooser, chooser.choice((batch, wave))(chooser))
    return chooser.choice({int: _NUMBERS, bool: (False, True), float: (0.0, -1.0, float("inf")), str: _TEXTS}[form])


def message(message_class: Any, chooser: random.Random) -> Any:
    """One instance; its validators may refuse a few."""
    hints = typing.get_type_hints(message_class)
    for _ in range(_TRIES):
        fields = {
            field.alias: sample(hints[field.name], chooser) for field in attrs.fields(message_class) if field.init
        }
        try:
            return message_class(**fields)
        except (ValueError, TypeError, AssertionError):
            continue
    raise AssertionError(f"no sample of {message_class.__qualname__} is valid")
