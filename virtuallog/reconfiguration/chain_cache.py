"""Cache of one client: the newest register it has seen, clients of its loglets, the highest tail it has seen.

All of it may be old; none of it ever goes back. A client learns from a loglet that is sealed or dropped that
it has to `refresh`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from virtuallog.contract import register
from virtuallog.contract.chain import Segment, SegmentId
from virtuallog.contract.errors import UnavailableError, UnknownKindError
from virtuallog.contract.loglet import Loglet
from virtuallog.contract.metastore import MetaStore, SupportsNewerVersion
from virtuallog.contract.ports import Environment
from virtuallog.contract.provider import LogletProvider
from virtuallog.contract.register import Register
from virtuallog.contract.types import LogPosition


@attrs.define
class ChainCache:
    """Cached chain, shared by the parts of one VirtualLog."""

    metastore: MetaStore
    providers: Mapping[str, LogletProvider]
    environment: Environment
    cached: Register | None = None
    """Newest register seen so far; None before the first."""
    known_tail: LogPosition = LogPosition(0)  # noqa: RUF009 -- an int at run time
    """Highest tail seen so far: the log is readable below it."""
    on_newer_register: Callable[[Register], None] = lambda _: None
    """Called with each newer register, to learn addresses from; must not block."""
    _loglets: dict[SegmentId, Loglet] = attrs.field(factory=dict)
    """Opened loglets of the chain."""

    async def current(self) -> Register:
        """The cached register; read from the MetaStore the first time."""
        return self.cached or await self.refresh()

    async def refresh(self) -> Register:
        """Read the register.

        Raises:
            UnavailableError: no majority of the MetaStore answered, or the cluster is not bootstrapped.
        """
        return self._take(*await self.metastore.get())

    async def find_newer(self) -> Register:
        """A register newer than the cached one as soon as any is known, which need not be the newest; or else as `refresh`.

        Raises: as `refresh`.
        """
        if self.cached is None or not isinstance(self.metastore, SupportsNewerVersion):
            return await self.refresh()
        return self._take(*await self.metastore.get_newer(self.cached.version))

    def _take(self, version: int, value: bytes) -> Register:
        if version == 0:
            raise UnavailableError("the cluster has not been bootstrapped")
        if self.cached is not None and version <= self.cached.version:
            return self.cached
        return self.adopt(register.decode_untrusted(value))

    def adopt(self, newer: Register) -> Register:
        """Take `newer` as the cached register, unless the cached one is newer still; returns the newest."""
        if self.cached is not None and newer.version <= self.cached.version:
            return self.cached
        self.cached = newer
        last = newer.chain.last
        self.saw_tail(last.start if last.stop is None else last.stop)  # closed segments are complete up to their stop
        self.on_newer_register(newer)
        live = {segment.id for segment in newer.chain.segments}
        for segment_id in [known for known in self._loglets if known not in live]:
            del self._loglets[segment_id]
        return newer

    def saw_tail(self, position: int) -> LogPosition:
        """Record that everything below `position` is readable; returns it."""
        self.known_tail = LogPosition(max(self.known_tail, position))
        return LogPosition(position)

    def loglet(self, segment: Segment) -> Loglet:
        """The client of a segment's loglet, opened on first use."""
        loglet = self._loglets.get(segment.id)
        if loglet is None:
            provider = self.provider(segment.kind)
            loglet = self._loglets[segment.id] = provider.open(segment.id, segment.config, self.environment)
        return loglet

    def provider(self, kind: str) -> LogletProvider:
        """The provider of a kind of loglet.

        Raises:
            UnknownKindError: no provider of that name is installed.
        """
        provider = self.providers.get(kind)
        if provider is None:
            raise UnknownKindError(kind, ", ".join(sorted(self.providers)))
        return provider
