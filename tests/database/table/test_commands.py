"""Commands of tables in the log."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtuallog.contract.errors import InvalidSettingError, MalformedError
from virtuallog_database.table.core.commands import (
    KEY_BYTES_MAX,
    ROWS,
    Commit,
    IndexEntry,
    IndexUse,
    RangeCheck,
    RowCheck,
    RowDelete,
    RowPut,
    TableUse,
    encode,
    is_table_command,
    parse_untrusted,
)

KEYS = st.binary(max_size=6)
NUMBERS = st.integers(0, (1 << 32) - 1)
USES = st.builds(
    TableUse,
    name=st.just(b"one"),
    version=st.integers(1, 9),
    key_layout=NUMBERS,
    index_layout=NUMBERS,
    indices=st.just((IndexUse(b"i", False), IndexUse(b"u", True))),
    raises=st.booleans(),
    completes=st.booleans(),
)
TABLES = st.integers(0, 1)
INDICES = st.integers(0, 1)
COMMANDS = st.builds(
    Commit,
    tables=USES.map(
        lambda use: (use, TableUse(name=b"two", version=1, key_layout=0, index_layout=0, indices=use.indices))
    ),
    checks=st.lists(st.builds(RowCheck, TABLES, KEYS, st.integers(0, (1 << 64) - 1)), max_size=3).map(tuple),
    ranges=st.lists(
        st.builds(RangeCheck, TABLES, INDICES | st.just(ROWS), KEYS, KEYS, st.lists(KEYS, max_size=3).map(tuple)),
        max_size=3,
    ).map(tuple),
    puts=st.lists(
        st.builds(RowPut, TABLES, KEYS, KEYS, st.lists(st.builds(IndexEntry, INDICES, KEYS), max_size=3).map(tuple)),
        max_size=3,
        unique_by=lambda put: (put.table, put.key),
    ).map(tuple),
)


@given(COMMANDS)
def test_a_command_comes_back(command: Commit) -> None:
    """With all its parts, and it is known as one of tables."""
    encoded = encode(command)
    assert parse_untrusted(encoded) == command
    assert is_table_command(encoded)


@given(COMMANDS, st.integers(0, 200), st.binary(max_size=3), st.integers(0, 4))
def test_other_bytes_are_malformed(command: Commit, at: int, patch: bytes, cut: int) -> None:
    """There is one error for all damage; what is read otherwise can be written again."""
    blob = encode(command)
    with suppress(MalformedError):
        found = parse_untrusted(blob[:at] + patch + blob[at + cut :])
        assert parse_untrusted(encode(found)) == found


@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_malformed(blob: bytes) -> None:
    """Also behind a good beginning."""
    for begin in (b"", b"T", b"T\1\1", b"T\1\1" + bytes(16)):
        with suppress(MalformedError):
            parse_untrusted(begin + blob)


def test_a_short_command_does_not_ask_for_much_memory() -> None:
    """Counts beyond the bytes are refused before anything is read."""
    for at in range(4):
        counts = [0, 0, 0, 0]
        counts[at] = 0xFFFFFFFF
        with pytest.raises(MalformedError):
            parse_untrusted(b"T\1\1" + b"".join(count.to_bytes(4, "little") for count in counts) + bytes(30))


USE = TableUse(name=b"t", version=1, key_layout=1, index_layout=1)


@pytest.mark.parametrize(
    "command",
    [
        Commit(tables=()),
        Commit(tables=(USE, USE)),
        Commit(tables=(TableUse(name=b"", version=1, key_layout=1, index_layout=1),)),
        Commit(tables=(TableUse(name=b"t" * 65, version=1, key_layout=1, index_layout=1),)),
        Commit(tables=(TableUse(name=b"t", version=0, key_layout=1, index_layout=1),)),
        Commit(tables=(USE,), checks=(RowCheck(1, b"k", 0),)),
        Commit(tables=(USE,), checks=(RowCheck(0, b"k", 1 << 64),)),
        Commit(tables=(USE,), ranges=(RangeCheck(0, 0, b"", b"", ()),)),
        Commit(tables=(USE,), puts=(RowPut(0, b"k", b"", (IndexEntry(0, b""),)),)),
        Commit(tables=(USE,), puts=(RowPut(0, b"k", b""), RowPut(0, b"k", b""))),
        Commit(tables=(USE,), puts=(RowPut(0, b"k", b""),), deletes=(RowDelete(0, b"k"),)),
        Commit(tables=(USE,), puts=(RowPut(0, bytes(KEY_BYTES_MAX + 1), b""),)),
        Commit(tables=(USE,), deletes=(RowDelete(0, bytes(1 << 16)),)),
    ],
)
def test_what_replicas_would_refuse_is_not_proposed(command: Commit) -> None:
    """The proposer reads what it has written."""
    with pytest.raises(InvalidSettingError):
        encode(command)
