"""A client with a session of its own: it can have ephemerals, which live as long as it does.

The session is kept alive by the replica that the program holds (`virtuallog_database.kv.expiry`), so it lives as long as the process and
its way to the log do; a program that stands still for longer than the timeout has lost it, and hears so at its next write.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import attrs
import trio

from virtuallog.errors import InvalidSettingError, UnavailableError
from virtuallog.plain_errors import plain_errors
from virtuallog_database.kv.client.access import Access
from virtuallog_database.kv.client.client import KeyValueClient
from virtuallog_database.kv.client.errors import SessionExpiredError, refusal
from virtuallog_database.kv.commands import CloseSession, CreateSession, Mode, Operation, Origin
from virtuallog_database.kv.database import Database
from virtuallog_database.kv.results import Attached, Error, Result
from virtuallog_database.kv.session_ids import draw_password, draw_session_id

TIMEOUT_SECONDS: Final = (2.0, 86_400.0)
"""The shortest is ZooKeeper's: replicas hear of sessions about once a second. The longest is a day in which nobody gets a lock of a
program that has died."""
HEARTBEATS: Final = 4
"""Signs of life in one timeout. Replicas are told about once a second, of sessions that are past a third of theirs."""
CLOSE_SECONDS: Final = 2.0
"""How long the end of a block waits until its session is closed. Otherwise it expires."""


@attrs.define(eq=False)
class Session(KeyValueClient):
    """Use `KeyValueClient.session`. Every write fails with SessionExpiredError once the session is over."""

    _attached: Attached
    _over: trio.Event = attrs.field(factory=trio.Event, init=False)

    @property
    def id(self) -> int:
        """As `Stat.ephemeral_owner` has it."""
        return self._attached.session

    @property
    def expired(self) -> bool:
        """As far as this replica knows."""
        return self._over.is_set()

    async def wait_expired(self) -> None:
        """Return once the session is over, its ephemerals deleted: by expiry, as a rule."""
        await self._over.wait()

    async def create_ephemeral(self, path: str, data: bytes = b"", *, sequential: bool = False) -> str:
        """`create` with an ephemeral mode."""
        mode = Mode.EPHEMERAL_SEQUENTIAL if sequential else Mode.EPHEMERAL
        return await self.create(path, data, mode=mode)

    def begin(self, database: Database) -> None:
        """For `Access`."""
        database.expiry.attach(self.id, self._attached.generation, lambda _: self._over.set())

    @property
    def _origin(self) -> Origin:
        return Origin(self._attached.session, self._attached.generation, self._access.identities)

    async def _execute(self, operation: Operation) -> Result:
        if self.expired:
            raise SessionExpiredError(Error.SESSION_EXPIRED, "")
        return await super()._execute(operation)

    async def keep_alive(self) -> None:
        """Say that the client lives, until the session is over."""
        while not self.expired:
            self._access.database.expiry.heard(self.id)
            await self._access.clock.sleep(self._attached.timeout_ms / 1000 / HEARTBEATS)

    async def close(self) -> None:
        """End the session now, if the log can be reached in time."""
        self._access.database.expiry.detach(self.id, self._attached.generation)
        with self._access.clock.timeout(CLOSE_SECONDS):
            try:
                await self._access.database.execute(CloseSession(self.id), self._origin)
            except UnavailableError:
                return


@asynccontextmanager
async def open_session(access: Access, timeout_seconds: float) -> AsyncIterator[Session]:
    """See `KeyValueClient.session`."""
    shortest, longest = TIMEOUT_SECONDS
    if not shortest <= timeout_seconds <= longest:
        raise InvalidSettingError("timeout_seconds", f"must be from {shortest:g} to {longest:g}")
    session = Session(access, await _create(access, round(timeout_seconds * 1000)))
    access.enter(session)
    try:
        with plain_errors():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(session.keep_alive)
                yield session
                nursery.cancel_scope.cancel()
    finally:
        # Shielded: who leaves by cancellation has ephemerals, too. Bounded by `CLOSE_SECONDS`.
        with trio.CancelScope(shield=True):
            await session.close()
        access.leave(session)


async def _create(access: Access, timeout_ms: int) -> Attached:
    while True:
        session = draw_session_id(access.node, access.random)
        operation = CreateSession(session, draw_password(access.random), timeout_ms)
        result = await access.database.execute(operation, Origin())
        if result.error is Error.NODE_EXISTS:  # somebody has this id; that is a story for grandchildren
            continue
        if result.error is not Error.OK:
            raise refusal(result.error, "")
        assert isinstance(result.value, Attached)
        return result.value
