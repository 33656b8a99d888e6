"""The contract between the layers of a stack (SOSP'21, figure 2).

    application          Applicator
        |  propose, sync, set_trim_prefix          ^  apply, post_apply
    engine               Engine and Applicator
        ...
    base                 Engine, on the virtual log

What is in between is a `virtuallog_database.engines.layers.layer.Layer`. `propose` is a replicated call: the entry is durable and in the log, every replica applies it at its position, and the one that
proposed it is told what its own `apply` returned. `sync` returns once the local store has everything that any replica had applied
before the call. A linearizable read is `prepare_read`, a look at the store, and `confirm`.
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
    """What is above an engine: another engine, or the application."""

    def apply(self, transaction: StoreTransaction, entry: Entry, position: LogPosition) -> Any:
        """Do to the transaction what this entry says, and return what its proposer is to be told. A function of the
        transaction, the entry and the position alone: no clock, no chance, no soft state.

        Raises:
            Exception: deterministic, and told to the proposer: what this layer and those above have written for this entry is
                taken back, and play goes on. Those in `failures.NONDETERMINISTIC` stop the replica instead.
        """
        ...

    def post_apply(self, entry: Entry, position: LogPosition, result: Any) -> None:
        """Called once the transaction is in the store, in order of positions: the place to change soft state. Not called for
        an entry whose `apply` raised in this layer; one that raised further up comes as `FailedApply`, since what this layer
        wrote has stayed. After a restart it is called again for entries that are played again."""
        ...


class Application(Applicator, Protocol):
    """What is on top of a stack."""

    def attach(self, engine: Engine, store: LocalStore) -> None:
        """Called once, before anything else: what to propose to, and where the applied state is read. The store is written
        by the stack alone."""
        ...

    def load(self) -> None:
        """Called when the replica starts to run, before the first `apply`: make soft state from the store."""
        ...


@attrs.frozen
class FailedApply:
    """The result of an entry on which a layer raised a deterministic error: what that layer and those above wrote is gone."""

    error: Exception
    caught_by: object
    """The layer below the one that raised."""


class Engine(Protocol):
    """What is below an application, or another engine."""

    def propose(self, entry: Entry, done: Done) -> None:
        """Put `entry` into the log. `done` is called once: with what this replica's `apply` returned, after `post_apply`; with
        the deterministic error that it raised; with UnavailableError: unknown outcome; or with TooLargeError or SealedError:
        it is not in the log. Entries of one proposer are applied in the order of these calls. Returns at once, costs no task;
        whoever calls bounds how many are under way. An error may be told before this returns.
        """
        ...

    async def sync(self) -> None:
        """On return the local store reflects everything that any replica had applied before the call: every proposal that was
        completed, and also what others were shown before it was. Always asks the log.

        Raises:
            UnavailableError: the tail of the log cannot be learnt, or what is before it cannot be read, now.
        """
        ...

    async def prepare_read(self) -> None:
        """On return the local store reflects every proposal, by anybody, that was completed before the call, and what was confirmed. Less
        than a `sync`, and it may cost nothing (`lease.py`).

        Raises:
            UnavailableError: see `sync`.
        """
        ...

    async def confirm(self) -> None:
        """What was read from the local store after `prepare_read` may be told to a client that is promised linearizable reads: on return,
        no such read that begins later, at any replica, shows an older state. Returns at once unless another replica reads
        without asking the log.

        Raises:
            UnavailableError: the replica has stopped.
        """
        ...

    def set_trim_prefix(self, position: LogPosition) -> None:
        """The layer above needs nothing below `position` any more. Never taken back. Each engine hands down the minimum of
        this and its own opinion; the lowest trims."""
        ...
