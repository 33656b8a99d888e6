"""The registrar's own record beside those of its user: the owner, and what a program must know to own the registry."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

import attrs

from virtuallog.contract.errors import MalformedError
from virtuallog_database.errors import BinaryTooOldError
from virtuallog_database.registrar.core.tables import RecordTable

FORMAT: Final = 1
"""Version of the format of all records."""
OWNER_BYTES_MAX: Final = 1024
"""Longest record of an owner without capabilities, so nearly the longest name."""
KEY: Final = "ownership"


@attrs.frozen
class Ownership:
    """The record, written by each recovery. A registry without it has never been initialised."""

    owner: str
    """Name of the last owner, for operators: the version of the registry is what fences."""
    epoch: int
    """Number of recoveries."""
    capabilities: tuple[str, ...] = ()
    """Capabilities that a program needs to own the registry."""


def encode(record: Ownership) -> bytes:
    """Durable format: UTF-8 JSON, an array of the format, the owner, the epoch and the capabilities."""
    return json.dumps([FORMAT, record.owner, record.epoch, list(record.capabilities)]).encode()


def decode_untrusted(blob: bytes) -> Ownership:
    """Decode the record.

    Raises:
        MalformedError: it is no such record.
        BinaryTooOldError: a registry of a later format.
    """
    try:
        number, *fields = json.loads(blob)
    except (ValueError, TypeError, RecursionError) as error:
        raise MalformedError(f"no record of an owner: {bytes(blob[:40])!r}") from error
    if isinstance(number, int) and number > FORMAT:
        raise BinaryTooOldError(f"a registry of format {number}, where {FORMAT} is the last one known")
    match fields:
        case [str() as owner, int() as epoch, list() as capabilities] if number == FORMAT and _is_text(capabilities):
            return Ownership(owner, epoch, tuple(capabilities))
    raise MalformedError(f"no record of an owner: {bytes(blob[:40])!r}")


def _is_text(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)


OWNERSHIP: Final = RecordTable("registrar", encode, decode_untrusted)
