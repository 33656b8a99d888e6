"""The contract of a MetaStore, the single slot that holds the register, and of its provider."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from virtuallog.contract.capnp_interface import Interface
from virtuallog.contract.diagnosis import Evidence
from virtuallog.contract.ports import Environment, Handlers, NodeEnvironment
from virtuallog.contract.types import NodeId


class MetaStore(Protocol):
    """One versioned register, decided by consensus. Used only when the chain changes (Delos,
    section 3.2).

    Version 0 is the empty register of a cluster that has not been bootstrapped. Versions seen by
    one MetaStore object never go backwards.
    """

    async def get(self) -> tuple[int, bytes]:
        """Return the newest decided version and its value.

        It is at least as new as any `put` that returned before the call. Completes a half-accepted
        version if it meets one.

        Raises:
            UnavailableError: no majority answered.
        """
        ...

    async def put(
        self, value: bytes, expected_version: int, attempt: int, members: Sequence[NodeId] | None = None
    ) -> int:
        """Decide version `expected_version + 1`. On return the value is durable on a majority.

        Args:
            value: the new value.
            expected_version: the version it was made from.
            attempt: random number of this attempt. The same attempt may be put again after an
                unknown outcome. A win is recognised by it, never by equal bytes.
            members: members that decide the versions after this one; None if they stay the same.

        Returns:
            The new version.

        Raises:
            ChainConflictError: another client's value has that version.
            UnavailableError: no majority answered; the outcome is unknown. Put the same attempt
                again.
            TooLargeError: the value exceeds the register's limit.
        """
        ...


@runtime_checkable
class SupportsPreparedPut(Protocol):
    """A `MetaStore` that can do a part of a `put` before its value is known.

    A change of the chain knows its value only once the active loglet is sealed, and appends wait from then on.
    """

    async def prepare_put(self, expected_version: int) -> None:
        """Do now what the next `put` of this object after `expected_version` can do without its value.

        A hint: the put means the same without it, and takes longer. Changes no version. Cancel: no effect.

        Raises:
            UnavailableError: no majority answered: a put would fail as well.
        """
        ...


@runtime_checkable
class SupportsNewerVersion(Protocol):
    """A `MetaStore` that can tell of a newer version before it knows that there is none newer still."""

    async def get_newer(self, than: int) -> tuple[int, bytes]:
        """Return a decided version newer than `than`, not necessarily the newest one; or else as `MetaStore.get`.

        For a caller that waits for a change and needs to know only that it is decided.
        """
        ...


class MetaStoreProvider(Protocol):
    """A kind of MetaStore, pluggable through the entry-point group `virtuallog.metastores`."""

    @property
    def interfaces(self) -> Sequence[Interface]:
        """Wire form of the requests that `serve` handles."""
        ...

    def open(self, members: Sequence[NodeId], environment: Environment) -> MetaStore:
        """Return a client that starts from `members`, the members of some decided version or of
        version 0."""
        ...

    async def serve(self, members: Sequence[NodeId], environment: NodeEnvironment) -> Handlers:
        """Start the acceptor on a node with `members` in its static configuration."""
        ...


@runtime_checkable
class SupportsRegisterDiagnosis(Protocol):
    """A `MetaStoreProvider` that can report the state of its members."""

    async def explain_register(
        self, members: Sequence[NodeId], environment: Environment
    ) -> tuple[bytes, Sequence[Evidence]]:
        """Return the newest value that any member knows to be decided, and the evidence of each member.

        The value is empty if no member knows one. Otherwise as `SupportsDiagnosis.explain`, without
        `COMBINED`. Facts:

            node        the member
            version     the newest that it knows to be decided; -1 if none
            accepted    True if it has accepted a value in the version behind the newest that any
                        member knows; that value may be decided by now, or may still be
        """
        ...
