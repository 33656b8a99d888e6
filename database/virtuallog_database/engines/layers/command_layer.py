"""Base class of engines with commands of their own in the log.

A command is a control entry: a header without payload, proposed to the layer below, and not passed
up. A subclass implements its effect on the transaction (`apply_command`) and on soft state
(`post_command`), and a periodic `tick`.

An engine repeats its own failed proposals at a later tick. Commands name what they rest on (a
number of renewals, a position), and do nothing where that no longer holds. So neither a lost nor a
doubled command does harm.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Final

import attrs

from virtuallog.contract.errors import RetryableError, SealedError, UnavailableError
from virtuallog.contract.types import LogPosition
from virtuallog_database.engines.core.entry import Entry
from virtuallog_database.engines.core.vocabulary import Vocabulary
from virtuallog_database.engines.layers.layer import Layer
from virtuallog_database.engines.layers.replicated_call import propose_and_wait
from virtuallog_database.transaction import StoreTransaction

_JITTER: Final = 0.2
"""Share by which ticks vary, so that replicas that started together drift apart and one of them
comes first."""


@attrs.define(eq=False)
class CommandLayer(Layer):
    """Base of engines whose state changes by commands."""

    vocabulary: ClassVar[Vocabulary]
    """Classes of the commands."""

    @property
    @abstractmethod
    def tick_seconds(self) -> float:
        """Seconds between two calls of `tick`."""

    @abstractmethod
    def apply_command(self, transaction: StoreTransaction, command: Any, position: LogPosition) -> Any:
        """Apply a command; rules as `apply`."""

    def post_command(self, command: Any, position: LogPosition, result: Any) -> None:
        """Update soft state after a command, as `post_apply`; not called where `apply_command`
        raised."""

    async def tick(self) -> None:
        """Periodic work. May raise the errors of `command`: then the next tick tries again."""

    async def run(self) -> None:
        if self.context.passive:
            return
        clock, chance = self.context.environment.clock, self.context.environment.random
        while True:
            await clock.sleep(self.tick_seconds * (1 + _JITTER * chance.random()))
            try:
                await self.tick()
            except RetryableError:
                continue  # the next tick sees its effect

    async def command(self, command: Any) -> Any:
        """Put a command into the log, and wait for its result. A cancelled wait does not take it
        back.

        Raises:
            UnavailableError: unknown outcome; or the log has been closed, and may go on later.
            VirtualLogError: the error that `apply_command` raised.
        """
        try:
            return await propose_and_wait(self.below, self.entry_of(command))
        except SealedError as error:
            raise UnavailableError(f"the log takes nothing: {error}") from error

    def entry_of(self, command: Any) -> Entry:
        """Control entry of a command."""
        return Entry(b"", {self.name: self.vocabulary.encode(command)})

    def apply(self, transaction: StoreTransaction, entry: Entry, position: LogPosition) -> Any:
        header = entry.headers.get(self.name)
        if header is None:
            return self.apply_above(transaction, entry, position)
        return self.apply_command(transaction, self.vocabulary.parse_untrusted(header), position)

    def post_apply(self, entry: Entry, position: LogPosition, result: Any) -> None:
        header = entry.headers.get(self.name)
        if header is None:
            self.post_apply_above(entry, position, result)
        else:
            self.post_command(self.vocabulary.parse_untrusted(header), position, result)
