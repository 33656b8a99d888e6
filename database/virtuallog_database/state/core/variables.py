"""Variables in the local store of a database: execution of commands, and reads.

    vh NAME                          version of a variable
    vr (bytes of the name, u16) NAME KEY    one of its records

A variable is a set of records under one version. A command changes records and the version in one step, if the version is
the expected one. Its work is bounded by its own size: it names each record that it puts or deletes. `vr` may hold records
that no version refers to (`Stage`); a storage that replaces the variable deletes them.

Off until the switch `STATE` is on (`virtuallog_database.engines.rollout`): a replica of the former version would refuse the
commands, and differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs

from virtuallog.contract.errors import UnsupportedError
from virtuallog.contract.ports import Span
from virtuallog_database.engines.core.enabled_engines import STATE, is_enabled
from virtuallog_database.ports import StoreReader
from virtuallog_database.state.core.variable_commands import Stage, Update
from virtuallog_database.transaction import StoreTransaction

SCAN_COUNT: Final = 256
"""Records of one scan."""
_VERSIONS: Final = b"vh"
_RECORDS: Final = b"vr"


@attrs.frozen
class UpdateResult:
    """Result of a command on a variable."""

    is_done: bool
    """True if the variable has the version of the command now, or is removed by it."""
    present: bytes | None
    """Version that the variable has behind the command; None if there is none."""


def apply(transaction: StoreTransaction, command: Update | Stage) -> UpdateResult:
    """Execute a command, whole or not at all.

    Raises:
        UnsupportedError: variables are not enabled.
    """
    if not is_enabled(transaction, STATE):
        raise UnsupportedError("variables are not enabled in this database: not all of its servers know them")
    transaction.operations += command.operations
    key = _VERSIONS + command.name
    present = transaction.get(key)
    if isinstance(command, Stage):
        if command.expected and present != command.expected:
            return UpdateResult(False, present)  # the keys may be records of the present version
        _put(transaction, command)
        return UpdateResult(True, present)
    if command.version and present == command.version:
        return UpdateResult(True, present)
    if present != command.expected and not (present is None and command.may_create):
        return UpdateResult(False, present)
    prefix = _prefix(command.name)
    if any(transaction.get(prefix + record) is None for record in command.needs):
        return UpdateResult(
            False, present
        )  # another writer has created the variable meanwhile, and deleted what was staged
    for record in command.deletes:
        transaction.delete(prefix + record)
    _put(transaction, command)
    if not command.version:
        transaction.delete(key)
        return UpdateResult(True, None)
    transaction.put(key, command.version)
    return UpdateResult(True, command.version)


def _put(transaction: StoreTransaction, command: Update | Stage) -> None:
    prefix = _prefix(command.name)
    for record, value in command.puts:
        transaction.put(prefix + record, value)


@attrs.frozen(eq=False)
class Variables:
    """Reads of variables, as this replica has applied them. Every method answers at once, from the local store."""

    _store: StoreReader

    def version(self, name: bytes) -> bytes | None:
        """Version of a variable; None if there is none."""
        return self._store.get(_VERSIONS + name)

    def record(self, name: bytes, key: bytes) -> bytes | None:
        """One record of a variable."""
        return self._store.get(_prefix(name) + key)

    def records(self, name: bytes, span: Span = (b"", b"\xff" * 8)) -> Iterator[tuple[bytes, bytes]]:
        """Records of a variable in order of their keys, read in pieces. The store must not be written in between."""
        prefix = _prefix(name)
        start, stop = (prefix + bound for bound in span)
        while pairs := self._store.scan((start, stop), SCAN_COUNT):
            yield from ((key[len(prefix) :], value) for key, value in pairs)
            if len(pairs) < SCAN_COUNT:
                return
            start = pairs[-1][0] + b"\0"

    def names(self, after: bytes, count: int) -> list[bytes]:
        """The next names behind `after`, in order."""
        pairs = self._store.scan((_VERSIONS + after + b"\0" if after else _VERSIONS, b"vi"), count)
        return [key[len(_VERSIONS) :] for key, _ in pairs]


def _prefix(name: bytes) -> bytes:
    return _RECORDS + len(name).to_bytes(2, "big") + name
