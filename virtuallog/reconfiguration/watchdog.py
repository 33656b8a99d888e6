"""The watchdog of a node: looks after the active loglet, and gives it a successor if it needs one."""

from __future__ import annotations

from typing import Final

from virtuallog.contract.errors import ReconfigurationNeededError, RetryableError, SealedError, VirtualLogError
from virtuallog.contract.types import Sealed
from virtuallog.reconfiguration.chain_cache import ChainCache
from virtuallog.reconfiguration.successor import SuccessorSearch
from virtuallog.runtime import log

FAILED_ROUNDS_MAX: Final = 3
"""Failed rounds in a row before the problem is reported; most are over by the next round."""


class Watchdog:
    """Finishes changes of the chain that clients left half done. Every node runs one; the conditional put elects."""

    def __init__(self, view: ChainCache, successors: SuccessorSearch, period: float) -> None:
        """Make no call yet.

        Args:
            view: the chain.
            successors: finishes changes.
            period: mean pause between two looks, in seconds.
        """
        self._view = view
        self._successors = successors
        self._period = period
        self._problems: list[str] = []
        """Problems of the last rounds, back to the last round that found nothing wrong."""

    async def run(self) -> None:
        """Look after the active loglet until cancelled.

        No error ends it, since that would end the node: a node that cannot help the chain still serves it.
        """
        environment, period = self._view.environment, self._period
        while True:
            await environment.clock.sleep(period * (0.5 + environment.random.random()))
            problem = ""
            try:
                await self._look()
            except RetryableError as error:
                problem = str(error)
                log.debug("watchdog", error=problem)
            except VirtualLogError as error:
                problem = f"{type(error).__name__}: {error}"
                log.warning("watchdog", error=problem)
            self._problems = [*self._problems, problem][-FAILED_ROUNDS_MAX:] if problem else []

    @property
    def problem(self) -> str:
        """Why the open segment cannot be looked after, for operators; empty unless several rounds have failed."""
        register = self._view.cached
        if len(self._problems) < FAILED_ROUNDS_MAX or register is None:
            return ""
        last = register.chain.last
        return f"the open segment {last.id} ({last.kind}) cannot be looked after: {self._problems[-1]}"

    async def _look(self) -> None:
        segment = (await self._view.refresh()).chain.active
        if segment is None:
            return
        try:
            if isinstance(await self._view.loglet(segment).check_tail(), Sealed):
                await self._successors.after(segment.id)
        except ReconfigurationNeededError:
            await self._successors.after(segment.id, failed=True)
        except SealedError:  # dropped: the next refresh shows why
            pass
