"""An engine with commands of its own in the log: what they have in common.

A command is a control entry: a header, no payload, proposed to the layer below, and not passed up. A subclass says what a command
does to the transaction (`apply_command`) and to soft state (`post_command`), and what it does now and then (`tick`).

What an engine proposes by itself, it proposes again at a later tick if it failed: commands say what they rest on (a number of
renewals, a position), and do nothing where that no longer holds. So neither a lost nor a doubled one does harm.
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
"""Ticks of replicas that started together drift apart by up to this share, so that one of them comes first."""


@attrs.define(eq=False)
class CommandLayer(Layer):
    """Base of engines whose state changes by commands."""

    vocabulary: ClassVar[Vocabulary]
    """Their classes."""

    @property
    @abstractmethod
    def tick_seconds(self) -> float:
        """How often `tick` is called."""

    @abstractmethod
    def apply_command(self, transaction: StoreTransaction, command: Any, position: LogPosition) -> Any:
        """As `apply`."""

    def post_command(self, command: Any, position: LogPosition, result: Any) -> None:
        """As `post_apply`; not called where `apply_command` raised."""

    async def tick(self) -> None:
        """What there is to do now and then. May raise what `command` raises: then the next tick tries again."""

    async def run(self) -> None:
        if self.context.passive:
            return
        clock, chance = self.context.environment.clock, self.context.environment.random
        while True:
            await clock.sleep(self.tick_seconds * (1 + _JITTER * chance.random()))
            try:
                await self.tick()
            except RetryableError:
                continue  # the next tick sees what became of it

    async def command(self, command: Any) -> Any:
        """Put a command into the log, and wait for what became of it. A cancelled wait does not take it back.

        Raises:
            UnavailableError: unknown outcome; or the log has been closed, and may go on later.
            VirtualLogError: what `apply_command` raised.
        """
        try:
            return await propose_and_wait(self.below, self.entry_of(command))
        except SealedError as error:
            raise UnavailableError(f"the log takes nothing: {error}") from error

    def entry_of(self, command: Any) -> Entry:
        """The control entry of a command."""
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
