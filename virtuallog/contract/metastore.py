"""The contract of a MetaStore, the single slot that holds the register, and of its provider."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from virtuallog.contract.diagnosis import Evidence
from virtuallog.contract.interface import Interface
from virtuallog.contract.ports import Environment, Handlers, NodeEnvironment
from virtuallog.contract.types import NodeId


class MetaStore(Protocol):
    """One versioned register, decided by consensus; touched only when the chain changes (Delos, section 3.2).

    Version 0 is the empty register of a cluster that has not been bootstrapped. Versions seen by one MetaStore object
    never go backwards.
    """

    async def get(self) -> tuple[int, bytes]:
        """The newest decided version and its value; at least as new as any `put` that returned before the call.

        Completes a half-accepted version if it meets one.

        Raises:
            UnavailableError: no majority answered.
        """
        ...

    async def put(
        self, value: bytes, expected_version: int, attempt: int, members: Sequence[NodeId] | None = None
    ) -> int:
        """Decide version `expected_version + 1`. On return the value is decided and durable on a majority.

        Args:
            value: the new value.
            expected_version: the version it was made from.
            attempt: random number of this attempt. The same attempt may be put again after an unknown outcome; a
                win is recognised by it, never by equal bytes.
            members: who decides the versions after this one; None: the same as now.

        Returns:
            The new version.

        Raises:
            ChainConflictError: somebody else's value has that version.
            UnavailableError: no majority answered; the outcome is unknown. Put the same attempt again.
            TooLargeError: the value exceeds the register's limit.
        """
        ...


class MetaStoreProvider(Protocol):
    """A kind of MetaStore, pluggable through the entry-point group `virtuallog.metastores`."""

    @property
    def interfaces(self) -> Sequence[Interface]:
        """The wire form of the requests that `serve` handles."""
        ...

    def open(self, members: Sequence[NodeId], environment: Environment) -> MetaStore:
        """A client that starts from `members`, the members of some decided version or of version 0."""
        ...

    async def serve(self, members: Sequence[NodeId], environment: NodeEnvironment) -> Handlers:
        """Start the acceptor on a node whose static configuration lists `members`."""
        ...


@runtime_checkable
class SupportsRegisterDiagnosis(Protocol):
    """A `MetaStoreProvider` that can say how far its members are."""

    async def explain_register(
        self, members: Sequence[NodeId], environment: Environment
    ) -> tuple[bytes, Sequence[Evidence]]:
        """The newest value that any of the members knows to be decided (empty: none), and what each of them says.

        As `SupportsDiagnosis.explain`, without `COMBINED`. Facts:

            node        the member
            version     the newest that it knows to be decided; -1: none
            accepted    whether it has accepted something in the version behind the newest that anybody knows: it may be
                        decided by now, or may still be
        """
        ...
