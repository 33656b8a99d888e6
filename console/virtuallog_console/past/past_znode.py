"""A znode at an earlier moment and its last changes before, as a viewer may see them.

The ACL of each moment is known, so a caller with the role CLIENT sees what ZooKeeper's `world` could read then. A value below a masked path is
masked in the past, too, and is not asked for.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

import attrs

from virtuallog.contract.errors import VirtualLogError
from virtuallog_console.past.past_reader import PastReader
from virtuallog_console.views.tree import REFUSED
from virtuallog_console.views.values import Decoder, Value, decode, readable, withhold
from virtuallog_console.views.viewer import MASKED, Viewer
from virtuallog_database.tree import paths

CHANGES: Final = 50
"""Changes of a page."""
VALUE_BYTES: Final = 1024
"""Bytes of each value."""
_WORLD: Final = "world:anyone: "


@attrs.frozen(kw_only=True)
class PastStateRow:
    """State of the znode."""

    version: int
    mtime_ms: int
    owner: str
    value: Value
    acl: tuple[str, ...]
    """Empty if the viewer may not see it."""


@attrs.frozen(kw_only=True)
class PastChangeRow:
    """One change."""

    position: int
    time_ms: int
    effect: str
    cause: str
    session: str
    """Session of the client, in hexadecimal. Empty for work of servers."""
    client: tuple[str, ...]
    state: PastStateRow
    """State after it; of a deleted znode, the one before."""


@attrs.frozen(kw_only=True)
class PastZnodeView:
    """The znode and its changes."""

    path: str
    start: int = 0
    """Position from which changes are known."""
    stop: int = 0
    """Position of the state."""
    state: PastStateRow | None = None
    """None if there was no such znode."""
    changes: tuple[PastChangeRow, ...] = ()
    """The last ones before, the newest first."""
    dropped: int = 0
    """Earlier ones that are not shown."""
    is_answered: bool = False
    problem: str = ""
    """Reason why there is no answer. Empty if there is."""


async def read_past(
    reader: PastReader | None, viewer: Viewer, path: str, at: str, decoder: Decoder = Decoder.AUTO
) -> PastZnodeView:
    """Ask for a znode at a moment: a position, a time, or the tail if `at` is empty."""
    if reader is None:
        return PastZnodeView(path=path, problem="this console answers no questions about the past")
    if not paths.is_valid(path):
        return PastZnodeView(path=path, problem="this is no path of a znode")
    value_bytes = 0 if viewer.masks.covers(path) else VALUE_BYTES
    try:
        answer = await reader.history(path, at, CHANGES, value_bytes)
    except VirtualLogError as error:
        return PastZnodeView(path=path, problem=str(error))
    return past_view(answer, viewer, decoder)


def past_view(answer: Mapping[str, Any], viewer: Viewer, decoder: Decoder = Decoder.AUTO) -> PastZnodeView:
    """The answer as this viewer may see it."""

    def row(state: Mapping[str, Any]) -> PastStateRow:
        is_readable = viewer.is_admin or any(
            each.startswith(_WORLD) and "r" in each.removeprefix(_WORLD) for each in state["acl"]
        )
        return PastStateRow(
            version=state["version"], mtime_ms=state["mtime_ms"], owner=state["owner"],
            value=_value(state, viewer.masks.covers(answer["path"]), is_readable, decoder),
            acl=tuple(map(readable, state["acl"])) if is_readable else (),
        )  # fmt: skip

    changes = [
        PastChangeRow(
            position=each["position"], time_ms=each["time_ms"], effect=each["effect"], cause=each["cause"],
            session=each["session"], client=tuple(map(readable, each["client"])), state=row(each["state"]),
        )
        for each in reversed(answer["changes"])
    ]  # fmt: skip
    return PastZnodeView(
        path=answer["path"], start=answer["from"], stop=answer["to"], changes=tuple(changes), dropped=answer["dropped"],
        state=row(answer["state"]) if answer["state"] is not None else None, is_answered=True,
    )  # fmt: skip


def _value(state: Mapping[str, Any], is_masked: bool, is_readable: bool, decoder: Decoder) -> Value:
    size = state["data_bytes"]
    if is_masked or not is_readable:
        return withhold(size, MASKED if is_masked else REFUSED)
    data = base64.b64decode(state["data_base64"]) if "data_base64" in state else (state["data"] or "").encode()
    return attrs.evolve(decode(data, decoder, len(data)), size=size, is_cut=len(data) < size)
