"""Rows that `virtuallog raft-log` prints: of entries, of records in a directory, of stores."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import click

from virtuallog_loglets.raft.core.records import RaftRecord
from virtuallog_loglets.raft.messages import NO_NODE, LogMembership
from virtuallog_loglets.raft.standalone.inspection import open_stored
from virtuallog_loglets.raft.standalone.member_status import REMOVED, MemberStatus, kind_name
from virtuallog_server.cli.common.options import echo_json

STOPPED: Final = "stopped"
"""Role of a store that no process uses."""
HIDDEN: Final = frozenset({"leader", "vote"})
"""Columns of the JSON that people need not read."""


def show(row: Mapping[str, Any], as_json: bool) -> None:
    """Print one row on one line."""
    if as_json:
        echo_json(row)
    else:
        click.echo("  ".join(str(value) for value in row.values()))


def data(payload: bytes) -> dict[str, str]:
    """An entry as text, or else in base 64."""
    try:
        return {"data": payload.decode()}
    except UnicodeDecodeError:
        return {"data_base64": base64.b64encode(payload).decode()}


# -- directories ------------------------------------------------------------------------------------------------------


async def show_directory(path: Path, first: int, last: int | None, as_json: bool) -> None:
    """Print the records in a directory, and of their entries those from `first` to `last` (None: the end)."""
    async with open_stored(path) as stored:
        async for record in stored.records():
            state = "committed" if record.index <= stored.state.commit else "pending"
            for row in _rows_of(record, first, last):
                head = {"index": record.index, "term": record.term, "state": state, "kind": record.kind.name}
                show({**head, **row}, as_json)


def _rows_of(record: RaftRecord, first: int, last: int | None) -> Iterator[dict[str, Any]]:
    if not record.count:
        if record.first >= first and (last is None or record.first <= last):
            yield {}
        return
    for placed in record.placed():
        for entry in placed.records():
            if entry.position >= first and (last is None or entry.position <= last):
                yield {"offset": int(entry.position), **data(entry.payload)}


async def row_of_directory(path: Path) -> dict[str, Any]:
    """The row of a stopped store."""
    async with open_stored(path) as stored:
        state, identity = stored.state, stored.identity
        members = state.log.configuration
        kind = members.members.get(identity.store)
        return {
            "store": identity.store,
            "address": identity.address,
            "kind": REMOVED if state.is_removed else "" if kind is None else kind.kind.name,
            "role": STOPPED,
            "term": state.term,
            "vote": None if state.vote == NO_NODE else state.vote,
            "commit": state.commit,
            "last": state.log.last_index,
            "tail": state.tail,
            "trim": state.trim,
            "members": members.index,
        }


# -- stores -----------------------------------------------------------------------------------------------------------


def row_of(status: MemberStatus) -> dict[str, Any]:
    """The row of a store; without its standing if it does not answer."""
    row = attrs.asdict(status)
    if status.problem is None:
        del row["problem"]
        return row
    return {name: row[name] for name in ("store", "address", "kind", "role", "problem")}


def member_rows(view: LogMembership) -> list[dict[str, Any]]:
    """A row for each member."""
    return [
        {"store": member.store, "kind": kind_name(member.kind), "address": member.address} for member in view.members
    ]


def show_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print two lines for each store: who it is, and how far it is."""
    for row in rows:
        shown = {name: value for name, value in row.items() if value is not None and name not in HIDDEN}
        head = [str(shown.pop(name)) for name in ("store", "address", "kind", "role", "state") if shown.get(name)]
        click.echo("  ".join(head))
        click.echo(
            "    " + "  ".join(f"{name} {value}" for name, value in shown.items() if value != "" and value is not False)
        )
