"""Answers about the past of a database as JSON, and as text for terminals."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import click

from virtuallog_database.tree import acl
from virtuallog_database.tree.commands import OPEN_ACL, Acl
from virtuallog_database.tree.records import ZnodeKind
from virtuallog_database.tree.results import Stat
from virtuallog_server.cli.common.options import printable
from virtuallog_server.history.core.answers import (
    PastChange,
    PastChanges,
    PastChildren,
    PastDifference,
    PastDifferences,
    PastState,
    PastValue,
    PastZnode,
)
from virtuallog_server.history.past_log import time_text

_SHOWN_BYTES = 60
"""Bytes of a value in a line."""


# -- JSON -------------------------------------------------------------------------------------------------------------


def plain_znode(found: PastZnode) -> dict[str, Any]:
    return {
        "path": found.path, "position": found.position, "zxid": found.zxid, **_plain_value(found.value),
        "acl": _acl_texts(found.acl), "stat": _plain_stat(found.stat),
    }  # fmt: skip


def plain_children(found: PastChildren) -> dict[str, Any]:
    return {
        "path": found.path, "position": found.position, "zxid": found.zxid, "total": found.total,
        "children": [{"name": each.name, "stat": _plain_stat(each.stat)} for each in found.children],
        "more_after": found.more_after,
    }  # fmt: skip


def plain_differences(found: PastDifferences) -> dict[str, Any]:
    return {
        "path": found.path, "from": found.start, "to": found.stop, "compared": found.compared,
        "differences": [
            {
                "path": each.path, "kind": each.kind, "fields": list(each.fields),
                "before": _plain_state(each.before), "after": _plain_state(each.after),
            }
            for each in found.differences
        ],
        "more_after": found.more_after,
    }  # fmt: skip


def plain_changes(found: PastChanges) -> dict[str, Any]:
    return {
        "path": found.path, "from": found.start, "to": found.stop, "dropped": found.dropped,
        "changes": [
            {
                "position": each.position, "time_ms": each.time_ms, "path": each.path, "effect": each.effect,
                "cause": each.cause, "zxid": each.zxid, "session": _hex(each.session), "client": list(each.client),
                "state": _plain_state(each.state),
            }
            for each in found.changes
        ],
        "more_from": found.more_from, "state": _plain_state(found.state),
    }  # fmt: skip


def _plain_state(state: PastState | None) -> dict[str, Any] | None:
    if state is None:
        return None
    return {
        "kind": state.kind.name.lower(), "owner": _owner(state), "czxid": state.czxid, "mzxid": state.mzxid,
        "mtime_ms": state.mtime_ms, "version": state.version, "aversion": state.aversion, **_plain_value(state.value),
        "acl": _acl_texts(state.acl),
    }  # fmt: skip


def _plain_value(value: PastValue) -> dict[str, Any]:
    """The data as text if they are UTF-8, and have not been cut within a character; else in base 64."""
    plain: dict[str, Any] = {"data_bytes": value.size, "is_cut": value.is_cut}
    if value.data is None:
        return {**plain, "data": None}
    try:
        return {**plain, "data": value.data.decode()}
    except UnicodeDecodeError:
        return {**plain, "data_base64": base64.b64encode(value.data).decode()}


def _plain_stat(stat: Stat) -> dict[str, Any]:
    return {**stat._asdict(), "ephemeral_owner": _hex(stat.ephemeral_owner)}


def _owner(state: PastState) -> str:
    """Session of an ephemeral, in hexadecimal digits; time to live of a TTL znode; empty for others."""
    if state.kind is ZnodeKind.TTL:
        return f"{state.owner} ms"
    return _hex(state.owner)


def _hex(session: int) -> str:
    """A session as ZooKeeper's tools show it. Empty for none."""
    return f"{session & (1 << 64) - 1:#x}" if session else ""


def _acl_texts(rights: Sequence[Acl]) -> list[str]:
    return [f"{each.scheme}:{each.id}: {acl.permission_letters(each.permissions)}" for each in rights]


# -- text -------------------------------------------------------------------------------------------------------------


def show_znode(found: PastZnode) -> None:
    """Print the stat, the ACL and the value."""
    stat = found.stat
    click.echo(f"{printable(found.path)} at position {found.position}, after zxid {found.zxid}")
    click.echo(f"version {stat.version}, {stat.data_length} bytes, {stat.children} children")
    click.echo(f"created by zxid {stat.czxid} at {time_text(stat.ctime)}")
    click.echo(f"changed by zxid {stat.mzxid} at {time_text(stat.mtime)}")
    if stat.ephemeral_owner:
        click.echo(f"ephemeral of session {_hex(stat.ephemeral_owner)}")
    for each in _acl_texts(found.acl):
        click.echo(f"acl {printable(each)}")
    click.echo(_value_text(found.value, len(found.value.data or b"")))


def show_children(found: PastChildren) -> None:
    """Print a line for each child."""
    for each in found.children:
        stat = each.stat
        owner = f", ephemeral of {_hex(stat.ephemeral_owner)}" if stat.ephemeral_owner else ""
        numbers = f"version {stat.version}, {stat.data_length} bytes, {stat.children} children"
        click.echo(f"{printable(each.name)}  {numbers}{owner}")
    _say(f"{len(found.children)} of {found.total} children at position {found.position}")
    if found.more_after is not None:
        _say(f"more: --at {found.position} --after {printable(found.more_after)}")


def show_differences(found: PastDifferences) -> None:
    """Print a line for each znode: + added, - removed, ~ changed, = replaced by another one."""
    for each in found.differences:
        click.echo(_difference_text(each))
    _say(
        f"{len(found.differences)} differences from position {found.start} to {found.stop}; {found.compared} znodes compared"
    )
    if found.more_after is not None:
        _say(f"more: --from {found.start} --to {found.stop} --after {printable(found.more_after)}")


def _difference_text(each: PastDifference) -> str:
    sign, path = {"added": "+", "removed": "-", "changed": "~", "replaced": "="}[each.kind], printable(each.path)
    if each.before is None or each.after is None:
        state = each.after or each.before
        return f"{sign} {path}  {_state_text(state)}" if state is not None else f"{sign} {path}"
    parts = list[str]()
    if each.before.version != each.after.version or "data" in each.fields or each.kind == "replaced":
        parts.append(f"{_version_text(each.before)} -> {_version_text(each.after)}")
    if "acl" in each.fields:
        parts.append(
            f"acl {printable(', '.join(_acl_texts(each.before.acl)))} -> {printable(', '.join(_acl_texts(each.after.acl)))}"
        )
    return f"{sign} {path}  {'; '.join(parts) or ', '.join(each.fields)}"


def show_changes(found: PastChanges) -> None:
    """Print a line for each change."""
    for each in found.changes:
        click.echo(_change_text(each))
    _say(f"{len(found.changes)} changes from position {found.start} to {found.stop}")
    if found.dropped:
        _say(f"{found.dropped} earlier changes of this range are not shown")
    if found.more_from is not None:
        _say(f"more: --from {found.more_from} --to {found.stop}")


def _change_text(each: PastChange) -> str:
    who = f"session {_hex(each.session)}" if each.session else ""
    by = " ".join(part for part in (who, *map(printable, each.client)) if part) or "a server"
    state = "" if each.effect == "deleted" else f"  {_state_text(each.state)}"
    return f"{each.position}  {time_text(each.time_ms)}  {each.effect:8}{printable(each.path)}{state}  ({each.cause}, {by})"


def _state_text(state: PastState) -> str:
    kind = "" if state.kind is ZnodeKind.PERSISTENT else f"{state.kind.name.lower()} {_owner(state)}".rstrip() + ", "
    rights = "" if state.acl == OPEN_ACL else f", acl {printable(', '.join(_acl_texts(state.acl)))}"
    return f"{kind}{_version_text(state)}{rights}"


def _version_text(state: PastState) -> str:
    return f"version {state.version}: {_value_text(state.value, _SHOWN_BYTES)}"


def _value_text(value: PastValue, most: int) -> str:
    """A value as text if it is printable, else in hexadecimal digits."""
    if value.data is None:
        return "no data"
    shown = value.data[:most]
    try:
        text = shown.decode()
    except UnicodeDecodeError:
        text = f"0x{shown.hex()}"
    cut = f".. ({value.size} bytes)" if len(shown) < value.size else ""
    return f"{printable(text)}{cut}"


def _say(text: str) -> None:
    """Print a line beside the output."""
    click.echo(text, err=True)
