"""State: fetch, store and expunge of named values, with compare-and-set on their versions.

    state = State(MemoryStorage())
    variable = await state.fetch("config")
    variable = await state.store(variable.mutate(b"..."))       StaleVersionError: another writer was faster

Source: Mesos, `src/state/`. Where that answers "None" for two things, there are two errors here: StaleVersionError, and
OutcomeUnknownError, after the write has been repeated for `settle_seconds`. docs/concepts/state.md has all differences.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import attrs

from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.ports import Clock
from virtuallog.runtime.clock import SystemClock
from virtuallog_database.state.errors import OutcomeUnknownError, StaleVersionError
from virtuallog_database.state.storage import StateStorage, check_size
from virtuallog_database.state.variable import VERSION_BYTES, StateEntry, Variable, encode_name

ResultT = TypeVar("ResultT")

RETRY_SECONDS: Final = 0.1
"""Pause before a call that got no answer is repeated."""


@attrs.define(eq=False)
class State:
    """Variables in a storage. Many tasks may call all methods at once."""

    storage: StateStorage
    settle_seconds: float = attrs.field(default=20.0, kw_only=True)
    """Time for which a call that gets no answer is repeated; Mesos' `registry_store_timeout`. The attempt that is under way then is not
    interrupted, so a call may take longer."""
    clock: Clock = attrs.field(factory=SystemClock, kw_only=True)
    random: random.Random = attrs.field(factory=random.SystemRandom, kw_only=True)
    """Source of versions: two writers must not draw the same one."""

    async def fetch(self, name: str) -> Variable:
        """The variable of a name. If the name has no value, a new one, empty and not stored.

        Raises:
            InvalidSettingError: not a name.
            UnavailableError: the storage does not answer.
        """
        encode_name(name)
        entry = await self._repeated(lambda: self.storage.get(name))
        if entry is None:
            return Variable(name, b"", self._draw_version(), is_stored=False)
        return Variable(name, entry.value, entry.version, is_stored=True)

    async def store(self, variable: Variable, *, recreate: bool = True) -> Variable:
        """Store a variable if no other client has since it was fetched.

        Args:
            variable: from `fetch`, `store` or `mutate`.
            recreate: as in Mesos, a variable that was expunged meanwhile is stored again. False: that is refused. Where an attempt got no answer, the
                repetition makes only a new variable, and with False none: the attempt may have stored it, and another client expunged it.

        Returns:
            The variable with its new version: to be used for the next store. A new version is stored also if the value is the same.

        Raises:
            StaleVersionError: it has another version, or is expunged.
            TooLargeError: the storage takes no value of this size; nothing was done.
            OutcomeUnknownError: no answer.
            StorageError, CorruptionError: the storage has failed, and may have the value or not.
        """
        check_size(variable.name, variable.value, self.storage.value_bytes_max)
        stored = attrs.evolve(variable, version=self._draw_version(), is_stored=True)
        entry, attempts = StateEntry(stored.value, stored.version), 0

        async def attempt() -> bool:
            nonlocal attempts
            attempts += 1
            # An attempt without an answer may have stored the value, and another client may have expunged it since.
            may_create = (
                (recreate or not variable.is_stored) if attempts == 1 else (recreate and not variable.is_stored)
            )
            return await self.storage.set(variable.name, entry, variable.version, may_create=may_create)

        try:
            is_done = await self._repeated(attempt)
        except UnavailableError as error:
            raise OutcomeUnknownError(stored, str(error)) from error
        if not is_done:
            raise StaleVersionError(variable.name, is_unsure=attempts > 1)
        return stored

    async def settle(self, error: OutcomeUnknownError) -> Variable | None:
        """Find out what became of a write. None: the variable has another version, or none, and the write will not happen any more unless its
        storage still has it under way (docs/concepts/state.md).

        Raises:
            UnavailableError: the storage does not answer.
        """
        present = await self.fetch(error.variable.name)
        return present if present.version == error.variable.version else None

    async def expunge(self, variable: Variable) -> bool:
        """Remove a variable. False: it has another version, or none; nothing was done.

        Raises:
            OutcomeUnknownError: no answer.
        """
        attempts = 0

        async def attempt() -> bool:
            nonlocal attempts
            attempts += 1
            if await self.storage.expunge(variable.name, variable.version):
                return True
            # The attempt without an answer has removed it, or another client has: it is gone.
            return attempts > 1 and await self.storage.get(variable.name) is None

        try:
            return await self._repeated(attempt)
        except UnavailableError as error:
            raise OutcomeUnknownError(variable, str(error)) from error

    async def names(self) -> frozenset[str]:
        """Names of all variables.

        Raises:
            UnavailableError: the storage does not answer.
        """
        return await self._repeated(self.storage.names)

    def _draw_version(self) -> bytes:
        return self.random.randbytes(VERSION_BYTES)

    async def _repeated(self, attempt: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """Repeat an attempt that gets no answer. Each is idempotent, so a cancelled call leaves an unknown outcome and no harm."""
        deadline = self.clock.monotonic() + self.settle_seconds
        while True:
            try:
                return await attempt()
            except UnavailableError:
                if self.clock.monotonic() >= deadline:
                    raise
            await self.clock.sleep(RETRY_SECONDS)
