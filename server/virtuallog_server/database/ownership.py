"""Ownership of a database's log: only its members, which have certificates of nodes, and administrators append to it.

    look for entries that are none of a database  ->  put the guard into the register  ->  seal the last segment once
                     |
                     '-> found: change nothing, and report to the operator what to do

Engines trust the content of an entry, so a client that appends to such a log has every right in the database. The guard takes
that away for good: `virtuallog_server.node.append_guard` explains why the seal ends it on every node. A program that appends to
the same log with the certificate of a client would be cut off. So the guard is not put where such entries are found: an operator
moves the program to a cluster of its own, and puts the guard by `virtuallog database guard`.

The guard needs a cluster of level 5. In a cluster without TLS it changes nothing: callers have no identity there.
"""

from __future__ import annotations

from typing import Final

import attrs

from virtuallog.audit import is_audit_record
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import (
    InvalidSettingError,
    MalformedError,
    TrimmedError,
    UnsupportedError,
    VirtualLogError,
)
from virtuallog.contract.register import Register
from virtuallog.contract.types import LogPosition, PlacedBatch
from virtuallog.contract.versions import GUARDED
from virtuallog.reconfiguration.node_table_update import update_node_table
from virtuallog.runtime import log
from virtuallog_database.engines.core.entry import is_proposed, parse_untrusted
from virtuallog_database.errors import BinaryTooOldError

READ_BYTES: Final = 1 << 20
"""Bytes of one read of the search."""
PAUSE_SECONDS: Final = 0.02
"""Pause between two reads of the search. It is in no hurry: it happens once in the life of a database."""
LOOK_SECONDS: Final = 5.0
"""Pause between two looks at the cached register."""
RETRY_SECONDS: Final = 0.5
"""The same pause before a new database begins, which waits for the guard."""


@attrs.frozen
class PutGuard:
    """An amendment of the register (`virtuallog.reconfiguration.node_table_update`): a database stands on the log, and only members append."""

    def amend(self, register: Register) -> Register | None:
        guarded = register.with_guard()
        return None if guarded is None else attrs.evolve(guarded, database=True)


@attrs.frozen
class _Announce:
    """An amendment of the register: a database stands on the log."""

    def amend(self, register: Register) -> Register | None:
        return register.with_database()


async def find_foreign(virtual_log: VirtualLog) -> LogPosition | None:
    """Find the first entry of the log that is none of a database, in the part that is not trimmed. None if there is none.

    Raises:
        UnavailableError: the log cannot be read now.
    """
    position = await virtual_log.find_trim_point()
    tail = (await virtual_log.check_tail()).tail
    clock = virtual_log.view.environment.clock
    while position < tail:
        try:
            placed = await virtual_log.read(position, LogPosition(tail), READ_BYTES)
        except TrimmedError as error:  # trimmed meanwhile
            position = LogPosition(error.first)
            continue
        for each in placed:
            if isinstance(each, PlacedBatch):
                for at, payload in zip(each.places, each.batch.payloads, strict=True):
                    if _is_foreign(bytes(payload)):
                        return LogPosition(at)
            position = LogPosition(each.stop)
        await clock.sleep(PAUSE_SECONDS)
    return None


def _is_foreign(payload: bytes) -> bool:
    if is_audit_record(payload):  # an action of an operator, from before the database
        return False
    try:
        return not is_proposed(parse_untrusted(payload))
    except MalformedError:
        return True
    except BinaryTooOldError:
        return False


async def put_guard(virtual_log: VirtualLog, *, despite_foreign: bool = False) -> Register:
    """Guard the log of a database. On return no node takes an append of a client any more.

    If cancelled, or with an error, the guard may be there already; it may be put again.

    Args:
        virtual_log: of a node or an administrator.
        despite_foreign: ignore entries that are none of a database: the program that appended them has been moved.

    Raises:
        InvalidSettingError: there are such entries; nothing was done.
        UnsupportedError: a node of the cluster is too old to refuse appends; nothing was done.
        UnavailableError: the register or the log does not answer.
    """
    view = virtual_log.view
    register = await view.refresh()
    if not register.is_guarded:
        if register.level < GUARDED:
            raise UnsupportedError(
                f"a node speaks protocol version {register.level}; logs are guarded once all speak {GUARDED}"
            )
        if not despite_foreign and (found := await find_foreign(virtual_log)) is not None:
            raise InvalidSettingError("guard", refusal(found))
        register = view.adopt(await update_node_table(view.metastore, PutGuard(), view.environment.random))
    while register.is_guarded and register.is_open_to_clients:
        register = await virtual_log.successors.after(register.chain.last.id, failed=True)
    return register


def refusal(position: LogPosition) -> str:
    """The reason why a log is not guarded, and the remedy."""
    return (
        f"the entry at position {position} is none of the database: some program appends to the same log. Let it use a cluster of its "
        "own; then run `virtuallog database guard --despite-entries`"
    )


@attrs.define(eq=False)
class Ownership:
    """Puts the guard on behalf of one server of the database, and announces the database in the register."""

    _log: VirtualLog
    problem: str = attrs.field(default="", init=False)
    """Reason why the log is open to clients though all nodes could refuse them, for the status."""
    _has_looked: bool = attrs.field(default=False, init=False)
    """True if the log was searched in this life, and entries of other programs were found."""

    async def begin(self) -> None:
        """Return once a new database may write its first entry: the log is guarded, or cannot be. A database that the register knows
        does not wait.
        """
        environment = self._log.view.environment
        while (register := self._log.view.cached) is None or not register.database:
            try:
                await self._look()
            except VirtualLogError as error:
                log.info("the register does not say yet that there is a database", reason=str(error))
                await environment.clock.sleep(RETRY_SECONDS)

    async def run(self) -> None:
        """Keep the guard and the announcement, for ever. Another program may have removed the announcement."""
        while True:
            try:
                await self._look()
            except VirtualLogError as error:
                log.info("the log of the database is not guarded yet", reason=str(error))
            await self._log.view.environment.clock.sleep(LOOK_SECONDS)

    async def _look(self) -> None:
        register = await self._log.view.current()
        if register.is_open_to_clients and not self._has_looked and (register.is_guarded or register.level >= GUARDED):
            try:
                register = await put_guard(self._log)
            except InvalidSettingError as error:
                self._has_looked, self.problem = True, f"database: {error}"
                log.warning("the log of the database stays open to clients", reason=str(error))
        if register.is_guarded:
            self.problem = ""
        if not register.database:
            view = self._log.view
            view.adopt(await update_node_table(view.metastore, _Announce(), view.environment.random))
