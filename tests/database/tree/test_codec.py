"""Commands as bytes."""

from __future__ import annotations

from contextlib import suppress

import hypothesis.strategies as st
import pytest
from hypothesis import given

from virtuallog.contract.errors import MalformedError, TooLargeError
from virtuallog_database.testing.memory_store import MemoryDisk
from virtuallog_database.transaction import StoreTransaction
from virtuallog_database.tree import command_codec
from virtuallog_database.tree.acl_codec import encode_acl
from virtuallog_database.tree.apply import apply
from virtuallog_database.tree.commands import (  # fmt: skip
    OPEN_ACL,
    Acl,
    Attach,
    Check,
    CloseSession,
    Command,
    Create,
    CreateSession,
    Delete,
    ExpireSessions,
    Identity,
    Multi,
    Operation,
    Origin,
    Reap,
    SetAcl,
    SetData,
    Touch,
)

TEXTS = st.text(st.characters(), max_size=6)
IDS = st.integers(-(1 << 63), (1 << 63) - 1)
DATA = st.none() | st.binary(max_size=9)
INTS = st.integers(-(1 << 31), (1 << 31) - 1)
ACLS = st.just(OPEN_ACL) | st.lists(st.builds(Acl, INTS, TEXTS, TEXTS), max_size=3).map(tuple)
PARTS = (
    st.builds(Create, TEXTS, DATA, ACLS, INTS, IDS)
    | st.builds(Delete, TEXTS, INTS)
    | st.builds(SetData, TEXTS, DATA, INTS)
    | st.builds(Check, TEXTS, INTS)
)
SESSION_ARGUMENTS = (IDS, st.binary(max_size=16), st.integers(0, (1 << 32) - 1))
OPERATIONS: st.SearchStrategy[Operation] = (
    PARTS
    | st.builds(SetAcl, TEXTS, ACLS, INTS)
    | st.lists(PARTS, max_size=4).map(lambda parts: Multi(tuple(parts)))
    | st.builds(CreateSession, *SESSION_ARGUMENTS)
    | st.builds(Attach, *SESSION_ARGUMENTS)
    | st.builds(CloseSession, IDS)
    | st.lists(IDS, max_size=4).map(lambda ids: Touch(tuple(ids)))
    | st.lists(st.tuples(IDS, st.integers(0, (1 << 64) - 1)), max_size=4).map(
        lambda pairs: ExpireSessions(tuple(pairs))
    )
    | st.lists(TEXTS, max_size=4).map(lambda paths: Reap(tuple(paths)))
)
IDENTITIES = st.lists(st.builds(Identity, TEXTS, TEXTS), max_size=3).map(tuple)
COMMANDS = st.builds(Command, OPERATIONS, st.builds(Origin, IDS, st.integers(0, (1 << 32) - 1), IDENTITIES), IDS)


@given(COMMANDS)
def test_what_is_read_is_what_was_written(command: Command) -> None:
    """Any command, with any text that a client can send."""
    assert command_codec.parse_untrusted(command_codec.encode(command)) == command


@given(COMMANDS, st.data())
def test_damaged_commands_are_refused_or_are_others(command: Command, data: st.DataObject) -> None:
    """Never anything else than MalformedError, neither when they are read nor when what was read is applied."""
    blob = bytearray(command_codec.encode(command))
    for _ in range(data.draw(st.integers(1, 3))):
        blob[data.draw(st.integers(0, len(blob) - 1))] = data.draw(st.integers(0, 255))
    del blob[data.draw(st.integers(0, len(blob))) :]
    with suppress(MalformedError):
        found = command_codec.parse_untrusted(bytes(blob))
        apply(StoreTransaction(MemoryDisk().open()), found)


def test_the_format_does_not_change() -> None:
    """It is durable: these bytes are in logs."""
    origin = Origin(0x0102, 3, (Identity("ip", "::1"),))
    operation = Multi((Create("/a", b"x", mode=2), SetData("/a", None, 7), Check("/", 1)))
    expected = (
        "010e400d030000000000150002010000000000000300000002000300"
        "69703a3a31"
        "01180000000200000000000000000000000102000000000000002f6178"
        "050b000000070000000002000000"
        "2f610d05000000010000002f"
    )
    assert command_codec.encode(Command(operation, origin, 200_000)).hex() == expected
    assert (
        command_codec.encode(Command(SetData("/a", b"1"), Origin(), 1)).hex()
        == "0105010000000000000000" + "00ffffffff01020000002f6131"
    )


@pytest.mark.parametrize(
    "blob", [b"", b"\x02" + bytes(11), b"\x01\x63" + bytes(10), b"\x01\x05" + bytes(8) + b"\xff\xff"]
)
def test_strange_bytes_are_no_commands(blob: bytes) -> None:
    """Other versions and operations are refused by name."""
    with pytest.raises(MalformedError):
        command_codec.parse_untrusted(blob)


def test_a_name_that_is_too_long_is_refused_where_it_is_offered() -> None:
    """65,535 bytes; nothing reaches the log."""
    with pytest.raises(TooLargeError):
        command_codec.encode(Command(Create("/a", b"", (Acl(1, "digest", "x" * 70_000),)), Origin(), 0))
    with pytest.raises(TooLargeError):
        command_codec.encode(Command(Delete("/a"), Origin(identities=(Identity("digest", "x" * 70_000),)), 0))


def test_only_what_is_short_is_remembered() -> None:
    """Nearly all lists and origins are short and come again. A client that sends long ones, each another, fills no memory with
    them, also with commands that are refused."""
    for size, is_remembered in ((1, True), (2000, False)):
        acl = tuple(Acl(1, "digest", f"{number}:hash") for number in range(size))
        origin = Origin(7, 1, tuple(Identity("digest", f"{number}:hash") for number in range(size)))
        first, again = (
            command_codec.parse_untrusted(command_codec.encode(Command(Create("/a", b"", acl), origin, 0)))
            for _ in "12"
        )
        assert first == again
        assert isinstance(first.operation, Create)
        assert isinstance(again.operation, Create)
        assert (first.operation.acl is again.operation.acl) is is_remembered
        assert (first.origin is again.origin) is is_remembered
        assert (encode_acl(acl) is encode_acl(acl)) is is_remembered
