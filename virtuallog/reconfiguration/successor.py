"""Successor of a loglet that takes no more appends: wait for it, or roll the change forward.

See Delos, OSDI'20, section 3.2.
"""

from __future__ import annotations

from typing import Final

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import ForbiddenError, InvalidSettingError, UnavailableError
from virtuallog.contract.register import Register
from virtuallog.reconfiguration.chain_cache import ChainCache
from virtuallog.reconfiguration.chain_writer import ChainWriter, ChainWriterSettings, nodes_of
from virtuallog.reconfiguration.core.chain_change import Extend
from virtuallog.runtime import log

_ROLLING: Final = CrashPoint("chain: the grace period is over, the roll-forward has not begun")


class SuccessorSearch:
    """Search for successors by one client. It rolls a half-done change forward if no other client does and it may."""

    def __init__(self, view: ChainCache, chain_writer: ChainWriter, settings: ChainWriterSettings) -> None:
        """Make no call yet."""
        self._view = view
        self._chain_writer = chain_writer
        self._settings = settings
        self.may_change = settings.may_change
        """True if this client may change the chain, as far as it knows: a refusal makes it False."""

    async def after(self, segment_id: SegmentId, *, failed: bool = False) -> Register:
        """A register whose last segment is another one than `segment_id`, or is closed.

        Waits for the client that is changing the chain; after the grace period finishes the change.

        Args:
            segment_id: the segment that takes no more appends.
            failed: the loglet itself has asked for a successor: no grace period.

        Raises:
            UnavailableError: the MetaStore or the loglet does not answer, or there are too few nodes for a successor.
        """
        environment, settings, pause = self._view.environment, self._settings, self._settings.poll_min
        grace = 0.0 if failed else settings.grace * (1 + environment.random.random() / 2)
        deadline = environment.clock.monotonic() + grace
        while True:
            # Any decided successor will do: if it is sealed already, its own successor is asked for next.
            found = await self._view.find_newer()
            if found.chain.last.id != segment_id or found.chain.active is None:
                return found
            now = environment.clock.monotonic()
            if now >= deadline and self.may_change:
                await self._try_to_roll_forward(found)
            elif now >= deadline + settings.others_patience:
                raise UnavailableError(
                    f"no node has found a successor for loglet {segment_id}, and this client may not"
                )
            else:
                await environment.clock.sleep(pause)
                pause = min(1.5 * pause, settings.poll_max)

    async def _try_to_roll_forward(self, stuck: Register) -> None:
        try:
            await self._roll_forward(stuck)
        except ForbiddenError as error:
            # A client that may not change the chain waits for the nodes: each of them looks after it.
            log.info("leaving a half-done change to others", reason=str(error))
            self.may_change = False

    async def _roll_forward(self, stuck: Register) -> None:
        """Continue on a loglet of the same kind: the intention of the client that began is not known."""
        last = stuck.chain.last
        provider = self._view.provider(last.kind)
        try:
            config = await self._chain_writer.plan(provider, {}, stuck)
        except InvalidSettingError as error:
            # There are no settings that could be wrong: too few nodes live now. Others come back, or answer in time.
            raise UnavailableError(f"no successor for loglet {last.id} can be planned: {error}") from error
        _ROLLING.reached()
        self._chain_writer.meter.roll_forwards.value += 1
        log.info("rolling forward", segment=str(last.id), version=stuck.version)
        nodes = nodes_of(provider, config)
        await self._chain_writer.change(Extend(last.kind, config, False, nodes), planned=False, only_after=last.id)
