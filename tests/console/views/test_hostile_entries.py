"""Entries of any bytes: each gives a row that can be written as JSON, and a decoder never fails."""

from __future__ import annotations

import json
import random
import struct

import pytest
from crc32c import crc32c

from tests.console.views.database_entries import command, entry_of
from virtuallog.contract.caller_roles import Role
from virtuallog_console.views.database_commands import decode_entry, is_database_entry, visible_parts
from virtuallog_console.views.masks import Masks
from virtuallog_console.views.plain import plain
from virtuallog_console.views.values import Decoder, decode
from virtuallog_console.views.viewer import Viewer
from virtuallog_database.state.core import variable_commands
from virtuallog_database.table.core import commands as table_commands
from virtuallog_database.tree.commands import (
    Acl,
    Attach,
    Create,
    CreateSession,
    ExpireSessions,
    Mode,
    Multi,
    Reap,
    SetAcl,
    SetData,
    Touch,
)

VIEWERS = (Viewer(role=Role.CLIENT), Viewer(role=Role.ADMIN, masks=Masks(("/a/**/b*",))))
SOUND = [
    entry_of(command(each))
    for each in (
        Create("/a/b", b'{"x": [1]}', (Acl(31, "digest", "u:h"), Acl(1, "ip", "10.0.0.0/8")), Mode.PERSISTENT_SEQUENTIAL, 7),
        SetData("/a", b"x" * 300), SetAcl("/a", (Acl(1, "world", "anyone"),)), Multi((Create("/b", None), SetData("/c", b"\xff"))),
        CreateSession(1, b"p" * 16, 1000), Attach(1, b"p" * 16, 1000), Touch((1, 2)), ExpireSessions(((1, 2),)), Reap(("/x", "/y")),
    )
] + [
    entry_of(variable_commands.encode(variable_commands.Update(name=b"v", expected=b"1", version=b"2", puts=((b"k", b"v"),)))),
    entry_of(table_commands.encode(
        table_commands.Commit(
            tables=(table_commands.TableUse(name=b"t", version=1, key_layout=0, index_layout=0),),
            puts=(table_commands.RowPut(0, b"k", b"{}"),),
        )
    )),
]  # fmt: skip


def damaged(chooser: random.Random, blob: bytes) -> bytes:
    """A few bytes changed, lost, doubled or moved."""
    found = bytearray(blob)
    for _ in range(chooser.randint(1, 4)):
        at = chooser.randrange(len(found) or 1)
        match chooser.randrange(4):
            case 0:
                found[at : at + 1] = chooser.randbytes(1)
            case 1:
                del found[at : at + chooser.randint(1, 8)]
            case 2:
                found[at:at] = found[at : at + chooser.randint(1, 8)]
            case _:
                found[at : at + 4] = struct.pack("<I", chooser.choice((0, 1, 255, 1 << 16, (1 << 32) - 1)))
    return bytes(found)


@pytest.mark.parametrize("seed", range(40))
def test_damaged_entries_give_rows(seed: int) -> None:
    """For each viewer and decoder; a search sees no more parts than there are."""
    chooser = random.Random(seed)
    for _ in range(50):
        payload = damaged(chooser, chooser.choice(SOUND))
        for viewer in VIEWERS:
            found = decode_entry(payload, viewer, chooser.choice(list(Decoder)), commands_max=1 << 20)
            assert (found is not None) == is_database_entry(payload)
            json.dumps(plain(found), ensure_ascii=False, allow_nan=False).encode()
            assert (visible_parts(payload, viewer) is None) == (found is None)
        for decoder in Decoder:
            json.dumps(plain(decode(payload, decoder, chooser.randrange(500))), ensure_ascii=False).encode()


def test_an_entry_of_a_later_version_is_withheld() -> None:
    """What it holds is not known here, so nothing of it is shown."""
    later = b"VE\2\0secret"
    later += struct.pack("<I", crc32c(later))
    found = decode_entry(later, VIEWERS[1])
    assert found is not None
    assert "version 2" in found.problem
    assert "secret" not in str(plain(found))
    assert is_database_entry(later)
    assert visible_parts(later, VIEWERS[1]) == ()
