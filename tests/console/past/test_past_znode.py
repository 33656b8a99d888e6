"""The past of a znode as callers with each role see it, below masks and with the ACLs of each moment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from virtuallog.contract.caller_roles import Role
from virtuallog_console.past.past_znode import PastZnodeView, past_view, read_past
from virtuallog_console.views.masks import Masks
from virtuallog_console.views.viewer import MASKED, Viewer
from virtuallog_database.history.core.changes import Cause, Effect, ZnodeChange
from virtuallog_database.history.core.znode_state import ZnodeState
from virtuallog_database.tree.commands import OPEN_ACL, Acl, Identity, Origin
from virtuallog_server.cli.history.history_output import plain_changes
from virtuallog_server.history.core.answers import PastChange, PastChanges, PastState

CLIENT, ADMIN = Viewer(role=Role.CLIENT), Viewer(role=Role.ADMIN)
SECRET = (Acl(31, "digest", "user:hash"),)


def state(version: int, data: bytes, acl: tuple[Acl, ...] = OPEN_ACL) -> ZnodeState:
    return ZnodeState(
        kind=0, owner=0, czxid=1, version=version, aversion=0, data=data, acl=acl, mzxid=version + 1, mtime_ms=5
    )  # fmt: skip


def answer(*states: ZnodeState, bytes_max: int = 100) -> Mapping[str, Any]:
    """The answer of the command about a znode that has had these states, one after the other."""
    origin = Origin(7, 1, (Identity("digest", "user:hash"),))
    changes = [
        ZnodeChange(
            position=place, time_ms=5, path="/app/key", effect=Effect.DATA, cause=Cause.SET, zxid=place, origin=origin,
            before=None, after=each,
        )
        for place, each in enumerate(states)
    ]  # fmt: skip
    return plain_changes(
        PastChanges(
            path="/app/key", start=0, stop=9, dropped=3, more_from=None, state=PastState.of(states[-1], bytes_max),
            changes=tuple(PastChange.of(each, bytes_max) for each in changes),
        )
    )  # fmt: skip


def values(view: PastZnodeView) -> list[str]:
    """Texts of all values, the newest first; in brackets the reason of one that is not shown."""
    assert view.state is not None
    rows = [view.state, *(each.state for each in view.changes)]
    return [f"[{row.value.withheld}]" if row.value.withheld else row.value.text for row in rows]


def test_a_client_sees_what_world_could_read_at_that_moment() -> None:
    """A value that was open once is shown as of then, and one behind an ACL is not, though it is open now; admins see both."""
    found = answer(state(0, b"open"), state(1, b"secret", SECRET), state(2, b"open again"))

    seen = values(past_view(found, CLIENT))
    assert [each.startswith("[its ACL") for each in seen] == [False, False, True, False]
    assert "secret" not in str(past_view(found, CLIENT)) and seen[-1] == "open"
    assert values(past_view(found, ADMIN)) == ["open again", "open again", "secret", "open"]


def test_masked_values_are_masked_in_the_past() -> None:
    """For admins, too; and hashes of passwords are in neither view."""
    found = answer(state(0, b"secret"), state(1, b"secret", SECRET))
    masked = Viewer(role=Role.ADMIN, masks=Masks(("/app/*",)))

    assert values(past_view(found, masked)) == [f"[{MASKED}]"] * 3
    assert "secret" not in str(past_view(found, masked)) and "hash" not in str(past_view(found, ADMIN))
    assert past_view(found, ADMIN).changes[0].client == ("digest:user:x",)


def test_values_that_are_cut_or_no_text_are_shown_so() -> None:
    """The size is that of the whole value."""
    view = past_view(answer(state(0, b"\xff\xfe"), state(1, b"x" * 200)), ADMIN)

    assert view.state is not None
    assert (view.state.value.size, view.state.value.is_cut, view.state.value.text) == (200, True, "x" * 100)
    assert view.changes[1].state.value.text == "fffe"


async def test_without_a_reader_and_for_a_wrong_path_there_is_a_reason() -> None:
    """No process is started."""
    assert "no questions" in (await read_past(None, CLIENT, "/app", "")).problem
    assert not (await read_past(None, CLIENT, "/app", "")).is_answered
