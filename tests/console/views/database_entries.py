"""Entries as a server of a database proposes them."""

from __future__ import annotations

from virtuallog.contract.batch import pack_ends
from virtuallog_database.engines import batching
from virtuallog_database.engines.core.entry import PROPOSER, TOKEN_BYTES, Entry
from virtuallog_database.tree import command_codec
from virtuallog_database.tree.commands import Command, Identity, Operation, Origin

ORIGIN = Origin(0x0100_0000_0000_00AB, 1, (Identity("digest", "user:hash"),))


def entry_of(*commands: bytes, grouped: bool = True) -> bytes:
    """An entry with these commands."""
    headers = {PROPOSER: b"t" * TOKEN_BYTES}
    if grouped:
        headers[batching.NAME] = pack_ends(commands)
    return Entry(b"".join(commands), headers).encode()


def command(operation: Operation, time_ms: int = 5) -> bytes:
    return command_codec.encode(Command(operation, ORIGIN, time_ms, 0))
