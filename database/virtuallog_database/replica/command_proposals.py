"""Proposals: how an operation of a client, such as setData, becomes an entry of the log.

The operation, its origin and the time are encoded as one command and proposed to the top engine of
the stack. The result comes back when this replica has applied the entry.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import attrs

from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.ports import Clock, Done, Outcome
from virtuallog_database.engines.core.entry import Entry, HeavyEntry
from virtuallog_database.engines.layers.contract import Engine
from virtuallog_database.engines.layers.replicated_call import wait_for_done
from virtuallog_database.tree import command_codec
from virtuallog_database.tree.commands import Command, Multi, Operation, Origin
from virtuallog_database.tree.results import Result

SERVER: Final = Origin()
"""Origin without a session and without identities, for commands of the server itself."""


@attrs.define(eq=False)
class CommandProposals:
    """Commands of one replica on their way into the log."""

    _engine: Engine
    _clock: Clock
    outstanding: int = attrs.field(default=0, init=False)
    """Commands proposed and without an outcome so far."""

    def submit(self, operation: Operation, origin: Origin, done: Done) -> None:
        """Put one command into the log, without a task of its own; the caller must limit commands
        in flight. Commands of one caller are applied in the order of these calls.

        `done` is called once, after the watches have fired, with the `Result`, which may be a
        refusal; or with a VirtualLogError: TooLargeError or InvalidSettingError at once if the
        command cannot be proposed, UnavailableError if the outcome is unknown.
        """
        try:
            payload = command_codec.encode(Command(operation, origin, int(self._clock.wall() * 1000)))
        except VirtualLogError as error:
            done(error)
            return
        self.outstanding += 1
        entry = (
            HeavyEntry(payload, operations=len(operation.operations)) if type(operation) is Multi else Entry(payload)
        )
        self._engine.propose(entry, partial(self._settled, done))

    def _settled(self, done: Done, outcome: Outcome[Result]) -> None:
        self.outstanding -= 1
        done(outcome)

    async def execute(self, operation: Operation, origin: Origin = SERVER) -> Result:
        """`submit` a command, and wait for its result. The command of a cancelled caller may still
        happen.

        Raises:
            VirtualLogError: see `submit`.
        """
        result: Result = await wait_for_done(partial(self.submit, operation, origin))
        return result
