"""Rollout: enable or disable an engine at one position of the log on all replicas (SOSP'21, section
3.4).

There are two phases. First every replica is restarted with a program that knows the engine: it may
add headers, propose and watch, but its `apply` must not write the store. Then a command through the
log enables it: from the next entry on it writes, everywhere. To remove an engine, reverse that:
disable it through the log, let its state run out, then install programs that do not know it.

Phase 1 cannot be skipped. A replica announces with ViewTrackingEngine which engines it knows.
`Enable` is refused, as a function of the log, while any member of the view does not know this one.
And a replica that meets an enabled engine it does not know stops at once with BinaryTooOldError.
(It has come back from before the upgrade, or restored a snapshot with an old program.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import attrs

from virtuallog.contract.errors import UnsupportedError
from virtuallog.contract.types import LogPosition
from virtuallog_database.engines.core import enabled_engines
from virtuallog_database.engines.core.enabled_engines import Disable, Enable, switch
from virtuallog_database.engines.core.vocabulary import Vocabulary
from virtuallog_database.engines.layers.command_layer import CommandLayer
from virtuallog_database.errors import BinaryTooOldError
from virtuallog_database.transaction import StoreTransaction


@attrs.frozen(kw_only=True)
class RolloutSettings:
    """Engines to enable."""

    enable: tuple[str, ...] = ()
    """Enabled once all replicas know them, unless an operator has switched them before, on or off:
    a command outranks settings."""
    retry_seconds: float = 10.0
    """Interval between two tries."""


@attrs.define(eq=False)
class RolloutEngine(CommandLayer):
    """Switches engines on and off through the log."""

    name: ClassVar[str] = enabled_engines.NAME
    vocabulary: ClassVar[Vocabulary] = Vocabulary((Enable, Disable))

    settings: RolloutSettings = attrs.field(factory=RolloutSettings, kw_only=True)
    known: tuple[str, ...] = attrs.field(default=(), kw_only=True)
    """Names of this stack's engines."""

    async def enable(self, engine: str) -> None:
        """Let an engine write the store, from one position on, on all replicas.

        Raises:
            UnsupportedError: a replica of the view does not know it; nothing was done.
            UnavailableError: unknown outcome.
        """
        await self.command(Enable(engine))

    async def disable(self, engine: str) -> None:
        """Disable an engine. The engine itself says what becomes of its remaining state.

        Raises:
            UnsupportedError: no replica of the view knows it, and it was never switched; nothing
                was done.
            UnavailableError: unknown outcome.
        """
        await self.command(Disable(engine))

    def switches(self) -> Mapping[str, bool]:
        """Every engine that was ever switched, and True if it is on, as of the applied state."""
        return enabled_engines.switches(self.context.store)

    def load(self) -> None:
        for engine, is_on in self.switches().items():
            if is_on:
                self._must_know(engine)

    def apply_command(self, transaction: StoreTransaction, command: Any, position: LogPosition) -> None:
        switch(transaction, command, position)
        if isinstance(command, Enable):
            self._must_know(command.engine)

    @property
    def tick_seconds(self) -> float:
        return self.settings.retry_seconds

    async def tick(self) -> None:
        for engine in self.settings.enable:
            if engine not in self.switches():
                try:
                    await self.enable(engine)
                except UnsupportedError:
                    continue  # a replica must be upgraded or ejected first

    def _must_know(self, engine: str) -> None:
        if engine not in self.known:
            raise BinaryTooOldError(f"the database uses the engine {engine!r}, which this program does not know")
