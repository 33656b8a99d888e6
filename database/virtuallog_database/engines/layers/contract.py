"""The contract between the layers of a stack (SOSP'21, figure 2).

    application          Applicator
        |  propose, sync, set_trim_prefix          ^  apply, post_apply
    engine               Engine and Applicator
        ...
    base                 Engine, on the virtual log

Layers in between are a `virtuallog_database.engines.layers.layer.Layer`. `propose` is a replicated
call: the entry is durable and in the log, every replica applies it at its position, and the
proposer gets the result of its own `apply`. `sync` returns once the local store has everything that
any replica had applied before the call. A linearizable read is `prepare_read`, a read of the store,
and `confirm`.
"""

from __future__ import annotations

from typing import Any, Protocol

import attrs

from virtuallog.contract.ports import Done
from virtuallog.contract.types import LogPosition
from virtuallog_database.engines.core.entry import Entry
from virtuallog_database.ports import LocalStore
from virtuallog_database.transaction import StoreTransaction


class Applicator(Protocol):
    """The layer above an engine: another engine, or the application."""

    def apply(self, transaction: StoreTransaction, entry: Entry, position: LogPosition) -> Any:
        """Apply an entry to the transaction; returns the result for its proposer. A function of the
        transaction, the entry and the position alone: no clock, no randomness, no soft state.

        Raises:
            Exception: deterministic, and passed to the proposer. The writes of this layer and those
                above for this entry are rolled back, and play goes on. Those in
                `layer.NONDETERMINISTIC` stop the replica instead.
        """
        ...

    def post_apply(self, entry: Entry, position: LogPosition, result: Any) -> None:
        """Change soft state. Called once the transaction is in the store, in order of positions.
        Not called for an entry whose `apply` raised in this layer. One that raised further up comes
        as `FailedApply`, since this layer's own writes have stayed. After a restart it is called
        again for replayed entries."""
        ...


class Application(Applicator, Protocol):
    """The state machine on top of a stack."""

    def attach(self, engine: Engine, store: LocalStore) -> None:
        """Connect the application; called once, before anything else. It proposes to `engine`, and
        reads applied state from `store`, which only the stack may write."""
        ...

    def load(self) -> None:
        """Make soft state from the store. Called when the replica starts to run, before the first
        `apply`."""
        ...


@attrs.frozen
class FailedApply:
    """Result of an entry on which a layer raised a deterministic error: the writes of that layer
    and those above are rolled back."""

    error: Exception
    caught_by: object
    """The layer below the one that raised."""


class Engine(Protocol):
    """The layer below an application or another engine."""

    def propose(self, entry: Entry, done: Done) -> None:
        """Put `entry` into the log. Returns at once and costs no task; the caller must limit
        proposals in flight. Entries of one proposer are applied in the order of these calls.

        `done` is called once: after `post_apply`, with the result of this replica's `apply` or the
        deterministic error that it raised; with UnavailableError if the outcome is unknown; or with
        TooLargeError or SealedError if the entry is not in the log. An error may come before this
        call returns.
        """
        ...

    async def sync(self) -> None:
        """Wait until the local store reflects everything that any replica had applied before the
        call: every completed proposal, and also what other clients were shown before completion.
        Always asks the log.

        Raises:
            UnavailableError: the tail of the log cannot be learnt, or the log before it cannot be
                read, now.
        """
        ...

    async def prepare_read(self) -> None:
        """Begin a linearizable read: on return the local store reflects every proposal that was
        completed before the call, at any replica, and every confirmed read. Weaker than `sync`, and
        may be free (`lease.py`).

        Raises:
            UnavailableError: see `sync`.
        """
        ...

    async def confirm(self) -> None:
        """End a linearizable read: on return, what was read from the local store after
        `prepare_read` may be given to the client. No linearizable read that begins later, at any
        replica, shows an older state. Returns at once unless another replica reads without asking
        the log.

        Raises:
            UnavailableError: the replica has stopped.
        """
        ...

    def set_trim_prefix(self, position: LogPosition) -> None:
        """Report that the layer above needs nothing below `position`. Never taken back. Each engine
        passes down the minimum of this and its own limit; the lowest trims."""
        ...
