"""Garbage collection of copies that the chain no longer needs, and that no node frees by itself.

    a hot copy whose time is over       put the segment's config without it: then nodes drop it as any loglet (`virtuallog_server.node.register_follower`)
    a loglet that left the chain and    free it there, once
    is kept elsewhere than on nodes

Every node runs this. The first in rank acts at once, each further one later, if there is still something to do. So a node that
is down delays it only for one turn. Two at once are harmless: the conditional put elects one, and to free twice is to free once.

Nothing here is needed for safety. A hot copy exists to be put back, so a wall clock that jumps ahead costs that chance and
nothing else. A loglet freed elsewhere is not in the chain. If all nodes were down or slow when it left the chain, it stays as
garbage.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.chain import Chain, Segment, SegmentId
from virtuallog.contract.errors import MalformedError, VirtualLogError
from virtuallog.contract.provider import SupportsExternalRelease, SupportsTimedRelease
from virtuallog.contract.register import Register
from virtuallog.contract.types import NodeId
from virtuallog.reconfiguration.retention import released_loglets
from virtuallog.runtime import log

LOOK_SECONDS: Final = 2.0
"""Pause between two looks. No work waits for the freed space."""
TURN_SECONDS: Final = 10.0
"""Time from one node's turn to that of the next. Longer than the work takes if all is well."""
FREE_SECONDS: Final = 30.0
"""Timeout to free one loglet that is kept elsewhere. Parts that are not free by then stay."""
WAITING_MAX: Final = 256
"""Loglets that have left the chain and wait for their turn, a config each. The oldest are given up."""


@attrs.frozen
class _Due:
    """A loglet that is to be freed elsewhere."""

    provider: SupportsExternalRelease
    config: bytes
    at: float
    """Time of this node's turn, on the monotonic clock."""


@attrs.define(eq=False)
class GarbageCollector:
    """Collects garbage for one node, through its own client of the log."""

    node: NodeId
    _log: VirtualLog
    _chain: Chain | None = attrs.field(default=None, init=False)
    """The chain at the last look. None before the first."""
    _leaving: dict[SegmentId, _Due] = attrs.field(factory=dict, init=False)
    _over: dict[SegmentId, float] = attrs.field(factory=dict, init=False)
    """Segments with a copy to release, and the time of this node's turn."""

    async def run(self) -> None:
        """Collect garbage for ever. If cancelled, a change of the chain may still be made."""
        clock = self._log.view.environment.clock
        while True:
            await clock.sleep(LOOK_SECONDS)
            register = self._log.view.cached
            if register is not None:
                self._notice(register)
                await self._release_hot(register)
                await self._free_left()

    def _turn(self, register: Register) -> float:
        """The time of this node's turn for work that is noticed now."""
        before = sum(node < self.node for node in register.nodes)
        return self._log.view.environment.clock.monotonic() + before * TURN_SECONDS

    def _notice(self, register: Register) -> None:
        providers = self._log.view.providers
        if self._chain is not None and self._chain.version < register.chain.version:
            for loglet, (kind, config) in released_loglets(self._chain, register.chain, providers).items():
                if kind in providers and isinstance(provider := providers[kind], SupportsExternalRelease):
                    self._leaving[loglet] = _Due(provider, config, self._turn(register))
        self._chain = register.chain
        while len(self._leaving) > WAITING_MAX:
            del self._leaving[next(iter(self._leaving))]

    async def _free_left(self) -> None:
        """Free what is due, up to the first loglet whose place does not answer. That one must not delay the release of hot copies."""
        clock = self._log.view.environment.clock
        for loglet in [loglet for loglet, due in self._leaving.items() if due.at <= clock.monotonic()]:
            if not await self._free(loglet, self._leaving.pop(loglet)):
                return

    async def _free(self, loglet: SegmentId, due: _Due) -> bool:
        """Free one loglet. True if there was an answer, good or bad."""
        environment = self._log.view.environment
        with environment.clock.timeout(FREE_SECONDS) as limit:
            try:
                await due.provider.release(loglet, due.config, environment)
            except VirtualLogError as error:
                log.info("freeing a loglet elsewhere", loglet=str(loglet), error=str(error))
        if limit.cancelled_caught:
            log.info("freeing a loglet elsewhere", loglet=str(loglet), error=f"not done within {FREE_SECONDS:g} s")
        return not limit.cancelled_caught

    async def _release_hot(self, register: Register) -> None:
        clock = self._log.view.environment.clock
        over = {segment.id: (segment, config) for segment, config in self._released(register.chain)}
        self._over = {segment: self._over.get(segment, self._turn(register)) for segment in over}
        for segment, config in over.values():
            if self._over[segment.id] <= clock.monotonic():
                await self._put_released(segment, config)

    def _released(self, chain: Chain) -> Iterator[tuple[Segment, bytes]]:
        """The closed segments whose hot copy is over its time, with their configs from now on."""
        view = self._log.view
        now_ms = int(view.environment.clock.wall() * 1000)
        for segment in chain.segments:
            if segment.kind in view.providers and isinstance(
                provider := view.providers[segment.kind], SupportsTimedRelease
            ):
                config = _released_config(provider, segment, now_ms)
                if config is not None:
                    yield segment, config

    async def _put_released(self, segment: Segment, config: bytes) -> None:
        try:
            await self._log.reconfig_modify(segment.id, segment.kind, config, segment.base)
        except VirtualLogError as error:  # another node was first, or the next look tries again
            log.info("releasing a hot copy", segment=str(segment.id), error=str(error))


def _released_config(provider: SupportsTimedRelease, segment: Segment, now_ms: int) -> bytes | None:
    try:
        return provider.released(segment.config, now_ms)
    except MalformedError as error:  # put there by hand
        log.warning("config of a segment", segment=str(segment.id), error=str(error))
        return None
