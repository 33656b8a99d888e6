"""The contract of a storage: named entries with compare-and-set on their versions.

Implemented by each module of `virtuallog_database.state.storages`. `State` makes the versions, and repeats a write that
got no answer; a storage compares and writes.

Rules for all storages:

* A write is durable on return, and seen by every later `get` of every client.
* A write is *idempotent by its version*: `set` answers True if the name already has the entry's version. So a write that
  got no answer is repeated as it is, and finds what it did itself.
* UnavailableError: no answer. The write has happened, or may still happen, until a repeated one is answered. After an
  answer no earlier attempt takes effect any more.

Source: Mesos, `include/mesos/state/storage.hpp`.
"""

from __future__ import annotations

from typing import Protocol

from virtuallog.contract.errors import TooLargeError
from virtuallog_database.state.variable import StateEntry


class StateStorage(Protocol):
    """Entries by name. Many tasks may call all methods at once. A cancelled write may still happen."""

    @property
    def value_bytes_max(self) -> int:
        """Largest value."""
        ...

    async def get(self, name: str) -> StateEntry | None:
        """The entry of a name; None if there is none. Reflects every write that was completed before the call.

        Raises:
            UnavailableError: the storage does not answer.
        """
        ...

    async def set(self, name: str, entry: StateEntry, expected: bytes, *, may_create: bool) -> bool:
        """Store an entry if the name has the version `expected`, or if it has none and `may_create` is set.

        Returns:
            True: the name got this entry, by this call or an earlier attempt of it; another client may have replaced it since. False: it has another
            version, or none. This call has done nothing, and no earlier attempt of it does anything any more.

        Raises:
            TooLargeError: nothing was done.
            UnavailableError: unknown outcome.
        """
        ...

    async def expunge(self, name: str, expected: bytes) -> bool:
        """Remove the entry of a name if it has the version `expected`; returns False if it has another one, or none.

        Raises:
            UnavailableError: unknown outcome.
        """
        ...

    async def names(self) -> frozenset[str]:
        """All names with an entry.

        Raises:
            UnavailableError: the storage does not answer.
        """
        ...


def check_size(name: str, value: bytes, limit: int) -> None:
    """Refuse a value that is larger than the storage takes.

    Raises:
        TooLargeError: it is.
    """
    if len(value) > limit:
        raise TooLargeError(f"bytes in the value of '{name}'", len(value), limit)


def may_set(present: bytes | None, expected: bytes, *, may_create: bool) -> bool:
    """True if `StateStorage.set` may write, where `present` is the version that the name has now."""
    return may_create if present is None else present == expected
