"""Entries of a database, decoded: each command with its paths, and its values as far as the viewer may see them.

The log keeps every value that was ever written, and an ACL says who may read a znode now. So values are for admins only, as the log has no
right that could be checked for each; paths are for all, as in ZooKeeper, where `exists` needs no right. Passwords of sessions, and of ACLs,
are never shown, and the bytes of such an entry are not shown as they are: they contain all of that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

from virtuallog.contract.errors import MalformedError, VirtualLogError
from virtuallog_console.views.values import Decoder, Value, decode, readable, withhold
from virtuallog_console.views.viewer import MASKED, NEEDS_ADMIN, Viewer
from virtuallog_database.engines.batching import commands_of_untrusted
from virtuallog_database.engines.core.audit_entry import record_in
from virtuallog_database.engines.core.entry import MAGIC, Entry, is_proposed, parse_untrusted
from virtuallog_database.errors import BinaryTooOldError
from virtuallog_database.state.core import variable_commands
from virtuallog_database.state.core.variable_commands import Stage, Update, is_variable_command
from virtuallog_database.table.core import commands as table_commands
from virtuallog_database.table.core.commands import Commit, is_table_command
from virtuallog_database.tree import acl, command_codec, commands, paths
from virtuallog_database.tree.commands import Acl, Mode, Operation

COMMANDS_MAX: Final = 1024
"""Most commands that are shown of an entry that is shown alone: as many as a group has, some 10 ms."""
LISTED_MAX: Final = 8
"""Most commands that are shown of each entry in a list."""
VALUE_BYTES: Final = 256
"""Bytes that are shown of each value in a list."""
HOUSEKEEPING: Final = frozenset({"touch sessions", "expire sessions", "reap"})
"""Operations that no client has asked for."""
NAMED_MAX: Final = 16
"""Most sessions, paths, keys or entries of an ACL that one row names."""

_SEQUENTIAL: Final = frozenset({Mode.PERSISTENT_SEQUENTIAL, Mode.EPHEMERAL_SEQUENTIAL, Mode.TTL_SEQUENTIAL})


@attrs.frozen(kw_only=True)
class CommandRow:
    """One command, or one operation of a multi."""

    operation: str
    """`create`, `set data`, `touch`, `update variable`, ..."""
    path: str = ""
    """Path of the znode, or name of the variable. Empty if it concerns none, or several."""
    time_ms: int = 0
    """Time at the server that proposed it. 0 if the command has none."""
    session: str = ""
    """Session on whose behalf it is executed, or that it is about, in hexadecimal. Empty if there is none."""
    details: Mapping[str, object] = attrs.field(factory=dict)
    """Other fields, by their names."""
    value: Value | None = None
    """Data that it writes. None if it writes none."""
    in_multi: bool = False
    """True for an operation of the multi before it."""


@attrs.frozen(kw_only=True)
class DatabaseEntry:
    """An entry that a server of the database has proposed."""

    engines: tuple[str, ...] = ()
    """Names of the engines that have a header in it."""
    commands: tuple[CommandRow, ...] = ()
    more: int = 0
    """Commands that are not shown."""
    problem: str = ""
    """Reason why it is not decoded, or not as a whole. Empty if it is."""

    @property
    def is_housekeeping(self) -> bool:
        """True if servers have proposed it by themselves: signs of life, expired sessions and znodes, and entries of engines alone."""
        names = {command.operation for command in self.commands}
        return not self.problem and not self.more and names <= HOUSEKEEPING


def decode_entry(
    payload: bytes,
    viewer: Viewer,
    decoder: Decoder = Decoder.AUTO,
    *,
    max_bytes: int = VALUE_BYTES,
    commands_max: int = LISTED_MAX,
) -> DatabaseEntry | None:
    """Decode the payload of an entry of the log. None if it is none of a database.

    Args:
        payload: of the entry.
        viewer: sees values as an admin, and never those below masked paths.
        decoder: of the values in commands.
        max_bytes: bytes that are shown of each value.
        commands_max: most commands that are shown, at most `COMMANDS_MAX`.
    """
    try:
        entry = open_entry(payload)
    except BinaryTooOldError as error:
        return DatabaseEntry(problem=str(error))
    if entry is None:
        return None
    engines = tuple(map(readable, entry.headers))
    try:
        found = commands_of_untrusted(entry)
    except MalformedError as error:
        return DatabaseEntry(engines=engines, problem=str(error))
    rows: list[CommandRow] = []
    problem, most = "", max(1, min(commands_max, COMMANDS_MAX))
    for place, command in enumerate(found):
        if len(rows) >= most:
            return DatabaseEntry(engines=engines, commands=tuple(rows), more=len(found) - place, problem=problem)
        try:
            rows += _Rows(viewer, decoder, max_bytes).of(command)
        except VirtualLogError as error:
            problem = f"command {place + 1} of {len(found)}: {error}"
    shown, more = rows[:most], max(0, len(rows) - most)
    return DatabaseEntry(engines=engines, commands=tuple(shown), more=more, problem=problem)


def is_database_entry(payload: bytes) -> bool:
    """True for an entry whose bytes are not to be shown as they are: a server of a database has proposed it. Takes a microsecond for others."""
    try:
        return open_entry(payload) is not None
    except BinaryTooOldError:
        return True


def visible_parts(payload: bytes, viewer: Viewer) -> Sequence[bytes] | None:
    """Paths, names and values that this viewer sees in an entry, for a search. None if it is none of a database.

    A search in hidden values would tell what they are, one guess at a time.
    """
    try:
        entry = open_entry(payload)
        if entry is not None and (record := record_in(entry)) is not None:
            return (record,)
        return (
            None if entry is None else [part for each in commands_of_untrusted(entry) for part in _parts(each, viewer)]
        )
    except (BinaryTooOldError, MalformedError):
        return ()


def open_entry(payload: bytes) -> Entry | None:
    """The entry of a database in a payload. None if a replica would skip it. Raises BinaryTooOldError."""
    if payload[:2] != MAGIC:
        return None
    try:
        entry = parse_untrusted(payload)
    except MalformedError:
        return None
    return entry if is_proposed(entry) else None


def _parts(command: bytes, viewer: Viewer) -> Iterator[bytes]:
    try:
        if is_table_command(command):
            yield from (table.name for table in table_commands.parse_untrusted(command).tables)
        elif is_variable_command(command):
            yield variable_commands.parse_untrusted(command).name
        else:
            operation = command_codec.parse_untrusted(command).operation
            for each in operation.operations if isinstance(operation, commands.Multi) else (operation,):
                if path := _path_of(each):
                    yield path.encode("utf-8", "surrogatepass")
                if isinstance(each, commands.Create | commands.SetData) and each.data and not _hidden(each, viewer):
                    yield each.data
    except MalformedError:
        return


def _path_of(operation: Operation) -> str:
    return getattr(operation, "path", "")


def _hidden(operation: commands.Create | commands.SetData, viewer: Viewer) -> str:
    """Reason why the data of an operation is not shown to this viewer. Empty if it is."""
    path, masks = operation.path, viewer.masks
    is_numbered = isinstance(operation, commands.Create) and operation.mode in _SEQUENTIAL
    if masks.patterns and not paths.is_valid(path + "0" if is_numbered else path):
        return MASKED  # refused by the replicas, perhaps for a slip in a path that is masked
    if masks.may_cover_below(paths.parent_of(path)) if is_numbered and masks.patterns else masks.covers(path):
        return MASKED
    return "" if viewer.is_admin else NEEDS_ADMIN


@attrs.frozen
class _Rows:
    """Rows of commands for one viewer."""

    viewer: Viewer
    decoder: Decoder
    max_bytes: int

    def of(self, command: bytes) -> list[CommandRow]:
        """Rows of one command. Raises MalformedError: replicas refuse it, too."""
        if is_table_command(command):
            return [_table_row(table_commands.parse_untrusted(command))]
        if is_variable_command(command):
            return [_variable_row(variable_commands.parse_untrusted(command))]
        parsed = command_codec.parse_untrusted(command)
        session = _hex(parsed.origin.session)
        if isinstance(parsed.operation, commands.Multi):
            parts = [self._row(each, parsed.time_ms, session) for each in parsed.operation.operations]
            head = CommandRow(
                operation="multi", time_ms=parsed.time_ms, session=session, details={"operations": len(parts)}
            )
            return [head, *(attrs.evolve(part, in_multi=True) for part in parts)]
        return [self._row(parsed.operation, parsed.time_ms, session)]

    def _row(self, operation: Operation, time_ms: int, session: str) -> CommandRow:
        about = _session_of(operation) or session
        return CommandRow(
            operation=_NAMES[type(operation)],
            path=readable(_path_of(operation)),
            time_ms=time_ms,
            session=about,
            details=_details(operation),
            value=self._value(operation),
        )

    def _value(self, operation: Operation) -> Value | None:
        if not isinstance(operation, commands.Create | commands.SetData) or operation.data is None:
            return None
        if reason := _hidden(operation, self.viewer):
            return withhold(len(operation.data), reason)
        return decode(operation.data, self.decoder, self.max_bytes)


_NAMES: Final[Mapping[type, str]] = {
    commands.Create: "create",
    commands.Delete: "delete",
    commands.SetData: "set data",
    commands.SetAcl: "set ACL",
    commands.Check: "check",
    commands.Multi: "multi",
    commands.CreateSession: "create session",
    commands.Attach: "attach session",
    commands.CloseSession: "close session",
    commands.Touch: "touch sessions",
    commands.ExpireSessions: "expire sessions",
    commands.Reap: "reap",
}


def _session_of(operation: Operation) -> str:
    """The session that an operation is about. Empty if it is about none, or several."""
    about = isinstance(operation, commands.CreateSession | commands.Attach | commands.CloseSession)
    return _hex(operation.session) if about else ""  # type: ignore[union-attr]  # as `about` says


def _details(operation: Operation) -> dict[str, object]:
    match operation:
        case commands.Create(mode=mode, ttl_ms=ttl_ms, acl=rights):
            names = {each.value: each.name.lower().replace("_", " ") for each in Mode}
            found: dict[str, object] = {"mode": names.get(mode, f"unknown mode {mode}")}
            if ttl_ms:
                found["ttl_ms"] = ttl_ms
            return found | ({} if rights is commands.OPEN_ACL else {"acl": acl_texts(rights)})
        case commands.SetAcl(acl=rights, version=version):
            return {"version": version, "acl": acl_texts(rights)}
        case commands.Delete(version=version) | commands.SetData(version=version) | commands.Check(version=version):
            return {"version": version}
        case commands.CreateSession(timeout_ms=timeout_ms) | commands.Attach(timeout_ms=timeout_ms):
            return {"timeout_ms": timeout_ms}
        case commands.Touch(sessions=sessions):
            return {"count": len(sessions), "sessions": tuple(map(_hex, sessions[:NAMED_MAX]))}
        case commands.ExpireSessions(sessions=pairs):
            return {"count": len(pairs), "sessions": tuple(_hex(session) for session, _ in pairs[:NAMED_MAX])}
        case commands.Reap(paths=named):
            return {"count": len(named), "paths": tuple(map(readable, named[:NAMED_MAX]))}
    return {}


def acl_texts(rights: Sequence[Acl], most: int = NAMED_MAX) -> tuple[str, ...]:
    """Entries of an ACL as `scheme:id: permissions`, without hashes of passwords; `most` of them at most."""
    return tuple(
        f"{readable(each.scheme)}:{readable(each.id)}: {acl.permission_letters(each.permissions)}"
        for each in acl.masked(tuple(rights[:most]))
    )


def _variable_row(command: Update | Stage) -> CommandRow:
    """Keys and sizes of records; the values are state of programs, and no path masks them."""
    details: dict[str, object] = {
        "puts": len(command.puts),
        "bytes": sum(len(value) for _, value in command.puts),
        "keys": tuple(decode(key, max_bytes=128).text for key, _ in command.puts[:NAMED_MAX]),
    }
    if isinstance(command, Update):
        details |= {"deletes": len(command.deletes), "removes": not command.version}
    operation = "update variable" if isinstance(command, Update) else "stage records of a variable"
    return CommandRow(operation=operation, path=decode(command.name, max_bytes=1024).text, details=details)


def _table_row(command: Commit) -> CommandRow:
    """Tables and counts; rows are data of programs, and no path masks them."""
    names = tuple(decode(table.name, max_bytes=128).text for table in command.tables[:NAMED_MAX])
    return CommandRow(
        operation="commit to tables",
        details={
            "tables": names,
            "puts": len(command.puts),
            "deletes": len(command.deletes),
            "checks": len(command.checks) + len(command.ranges),
        },
    )


def _hex(session: int) -> str:
    return f"{session:#x}" if session else ""
