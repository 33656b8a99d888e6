"""Entries of a database as a viewer sees them: paths for all, values for admins, passwords for none."""

from __future__ import annotations

from tests.console.views.database_entries import command, entry_of
from virtuallog.contract.caller_roles import Role
from virtuallog_console.views.database_commands import (
    COMMANDS_MAX,
    LISTED_MAX,
    decode_entry,
    is_database_entry,
    visible_parts,
)
from virtuallog_console.views.masks import Masks
from virtuallog_console.views.plain import plain
from virtuallog_console.views.viewer import MASKED, NEEDS_ADMIN, Viewer
from virtuallog_database.engines.core.entry import Entry
from virtuallog_database.state.core import variable_commands
from virtuallog_database.table.core import commands as table_commands
from virtuallog_database.tree.commands import (
    Acl,
    Attach,
    Check,
    CloseSession,
    Create,
    CreateSession,
    Delete,
    ExpireSessions,
    Mode,
    Multi,
    Reap,
    SetAcl,
    SetData,
    Touch,
)

ADMIN = Viewer(role=Role.ADMIN)
CLIENT = Viewer(role=Role.CLIENT)
MASKING = Viewer(role=Role.ADMIN, masks=Masks(("/app/*/password", "/secret-0000000003")))
SECRET = b"hunter2"


def test_commands_are_shown_one_by_one() -> None:
    """Operation, path, time, session and other fields, in the order in which they are applied."""
    entry = entry_of(
        command(Create("/a", b"1", mode=Mode.EPHEMERAL)),
        command(SetData("/a", b"22", 3)),
        command(Delete("/a")),
        command(Touch((1, 2))),
        command(ExpireSessions(((3, 1),))),
        command(Reap(("/c",))),
        command(CloseSession(7)),
    )
    found = decode_entry(entry, ADMIN)
    assert found is not None
    assert found.engines == ("base", "batching")
    assert [(row.operation, row.path, row.session) for row in found.commands] == [
        ("create", "/a", "0x1000000000000ab"),
        ("set data", "/a", "0x1000000000000ab"),
        ("delete", "/a", "0x1000000000000ab"),
        ("touch sessions", "", "0x1000000000000ab"),
        ("expire sessions", "", "0x1000000000000ab"),
        ("reap", "", "0x1000000000000ab"),
        ("close session", "", "0x7"),
    ]
    assert [row.value.text for row in found.commands if row.value] == ["1", "22"]
    assert found.commands[0].details == {"mode": "ephemeral"}
    assert found.commands[3].details == {"count": 2, "sessions": ("0x1", "0x2")}
    assert {row.time_ms for row in found.commands} == {5}


def test_housekeeping_is_what_no_client_has_asked_for() -> None:
    """An entry of signs of life, of expired sessions or of engines alone. One command of a client makes it an entry of clients."""
    housekeeping = [
        entry_of(command(Touch((1,))), command(Reap(("/c",)))),
        entry_of(command(ExpireSessions(((3, 1),)))),
    ]
    mixed = entry_of(command(Touch((1,))), command(Delete("/a")))
    many = entry_of(*[command(Touch((1,)))] * (LISTED_MAX + 1))

    found = [decode_entry(entry, CLIENT) for entry in (*housekeeping, entry_of(), mixed, many)]
    assert [each is not None and each.is_housekeeping for each in found] == [True, True, True, False, False]


def test_operations_of_a_multi_follow_it() -> None:
    """Each has a row, marked as a part."""
    found = decode_entry(entry_of(command(Multi((Check("/a", 1), SetData("/b", b"x")))), grouped=False), ADMIN)
    assert found is not None
    assert [(row.operation, row.in_multi) for row in found.commands] == [
        ("multi", False), ("check", True), ("set data", True)
    ]  # fmt: skip


def test_a_client_sees_paths_and_no_values() -> None:
    """The ACL at the time of the write is not known here, so the value is for admins."""
    entry = entry_of(command(Create("/a", SECRET)), command(Multi((SetData("/b", SECRET),))))
    found = decode_entry(entry, CLIENT)
    assert found is not None
    assert [row.path for row in found.commands] == ["/a", "", "/b"]
    assert [row.value.withheld for row in found.commands if row.value] == [NEEDS_ADMIN, NEEDS_ADMIN]
    assert SECRET.decode() not in str(plain(found))


def test_a_masked_value_is_shown_to_none() -> None:
    """Not to an admin, not in a multi, not by a path with a slip, and not if its number is still to come."""
    hidden: list[Create | SetData] = [
        Create("/app/x/password", SECRET),
        SetData("/app/x/password/old", SECRET),
        SetData("/app/x//password", SECRET),
        SetData("/app/x/../x/password", SECRET),
        Create("/secret-", SECRET, mode=Mode.PERSISTENT_SEQUENTIAL),
        Create("/app/x/", SECRET, mode=Mode.EPHEMERAL_SEQUENTIAL),
    ]
    for operation in hidden:
        for entry in (entry_of(command(operation)), entry_of(command(Multi((operation,))))):
            found = decode_entry(entry, MASKING)
            assert found is not None
            assert [row.value.withheld for row in found.commands if row.value] == [MASKED]
            assert SECRET.decode() not in str(plain(found))
            assert not any(SECRET in part for part in visible_parts(entry, MASKING) or ())
    shown = decode_entry(entry_of(command(Create("/other/x-", b"1", mode=Mode.EPHEMERAL_SEQUENTIAL))), MASKING)
    assert shown is not None
    assert [row.value.text for row in shown.commands if row.value] == ["1"]


def test_passwords_of_sessions_and_acls_are_not_shown() -> None:
    """They would open the session, or the ACL, to each viewer."""
    password = b"p" * 16
    acl = (Acl(31, "digest", "user:c2VjcmV0"), Acl(1, "world", "anyone"))
    entry = entry_of(
        command(CreateSession(9, password, 4000)), command(Attach(9, password, 4000)), command(SetAcl("/a", acl))
    )
    found = decode_entry(entry, ADMIN)
    assert found is not None
    text = str(plain(found))
    assert "pppp" not in text
    assert password.hex() not in text
    assert "c2VjcmV0" not in text
    assert found.commands[2].details["acl"] == ("digest:user:x: rwcda", "world:anyone: r")
    assert not any(password in part for part in visible_parts(entry, ADMIN) or ())


def test_variables_and_tables_are_named() -> None:
    """Names, keys and counts; their content is that of programs."""
    update = variable_commands.Update(name=b"v", expected=b"", version=b"1", puts=((b"k", SECRET),))
    commit = table_commands.Commit(
        tables=(table_commands.TableUse(name=b"t", version=1, key_layout=0, index_layout=0),)
    )
    found = decode_entry(entry_of(variable_commands.encode(update), table_commands.encode(commit)), ADMIN)
    assert found is not None
    assert [(row.operation, row.path) for row in found.commands] == [("update variable", "v"), ("commit to tables", "")]
    assert found.commands[0].details["keys"] == ("k",)
    assert found.commands[1].details["tables"] == ("t",)
    assert SECRET.decode() not in str(plain(found))


def test_what_cannot_be_decoded_says_so() -> None:
    """A broken command, a broken group, and an entry without commands; the bytes themselves are never shown."""
    broken = decode_entry(entry_of(command(Delete("/a")), b"\1\xff"), ADMIN)
    assert broken is not None
    assert [row.operation for row in broken.commands] == ["delete"]
    assert "command 2 of 2" in broken.problem
    torn = decode_entry(Entry(b"abc", {"base": b"t" * 16, "batching": b"\1"}).encode(), ADMIN)
    assert torn is not None
    assert torn.problem
    bare = decode_entry(Entry(b"", {"base": b"t" * 16, "view": b"x"}).encode(), ADMIN)
    assert bare is not None
    assert (bare.engines, bare.commands, bare.problem) == (("base", "view"), (), "")


def test_other_entries_are_none_of_a_database() -> None:
    """Plain ones, those that only begin alike, and those that no engine has proposed: replicas skip them."""
    for payload in (b"", b"hello", b"VERSION 1", b"VE\1\0x", Entry(b"x", {"base": b"short"}).encode()):
        assert not is_database_entry(payload)
        assert decode_entry(payload, ADMIN) is None
        assert visible_parts(payload, ADMIN) is None


def test_an_entry_of_many_commands_is_cut() -> None:
    """The rest is counted."""
    found = decode_entry(entry_of(*[command(Delete(f"/{number}")) for number in range(100)]), ADMIN)
    assert found is not None
    assert (len(found.commands), found.more) == (LISTED_MAX, 100 - LISTED_MAX)
    multi = decode_entry(entry_of(command(Multi(tuple(Check(f"/{number}") for number in range(100))))), ADMIN)
    assert multi is not None
    assert (len(multi.commands), multi.more) == (LISTED_MAX, 101 - LISTED_MAX)
    alone = decode_entry(entry_of(*[command(Delete("/a"))] * 2000), ADMIN, commands_max=1 << 30)
    assert alone is not None
    assert (len(alone.commands), alone.more) == (COMMANDS_MAX, 2000 - COMMANDS_MAX)


def test_a_viewer_searches_what_it_sees() -> None:
    """Paths for all; values for admins."""
    entry = entry_of(command(Create("/a/b", SECRET)))
    assert visible_parts(entry, ADMIN) == [b"/a/b", SECRET]
    assert visible_parts(entry, CLIENT) == [b"/a/b"]
