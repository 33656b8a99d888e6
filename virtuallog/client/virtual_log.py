"""The VirtualLog: one address space over a chain of loglets (Delos, OSDI'20, section 3).

Appends and tail checks go to the last segment, reads to the owner of the range. The MetaStore is not on their path:
while it is down, appends, tail checks and reads go on; only changes of the chain wait.

Cancelling any method is safe. The outcome of a cancelled append is unknown, a cancelled change of the
chain goes on in the service nursery, and all other methods have no effect to undo.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import attrs

from virtuallog.client.address_space import AddressSpace
from virtuallog.client.appender import Appender, AppenderSettings
from virtuallog.client.metrics import AppendMetrics, AppendStatistics
from virtuallog.client.reader import Reader
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import TailMismatchError, VirtualLogError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.metastore import MetaStore
from virtuallog.contract.metrics import MetricFamily
from virtuallog.contract.ports import Environment
from virtuallog.contract.provider import LogletProvider, check_level, servers_of
from virtuallog.contract.register import Register
from virtuallog.contract.types import LogletOffset, LogPosition, NodeId, Tail
from virtuallog.reconfiguration.chain_cache import ChainCache
from virtuallog.reconfiguration.chain_writer import ChainWriter, ChainWriterSettings, Planner
from virtuallog.reconfiguration.core import chain_change
from virtuallog.reconfiguration.metrics import ChainStatistics
from virtuallog.reconfiguration.modification import SegmentModification
from virtuallog.reconfiguration.successor import SuccessorSearch
from virtuallog.reconfiguration.watchdog import Watchdog
from virtuallog.runtime.nurseries import run_in_service

CONDITIONAL_MAX: Final = 64
"""Idle appenders kept for conditional appends, a few KB each.

More conditional appends at a time are rare: all but one of those for the same tail fail.
"""

_FIRST: Final = LogPosition(0)
_ORIGIN: Final = LogletOffset(0)


@attrs.frozen(kw_only=True)
class VirtualLogSettings:
    """Settings of a client: its appenders, and its patience with other clients."""

    appender: AppenderSettings = attrs.field(factory=AppenderSettings)
    chain: ChainWriterSettings = attrs.field(factory=ChainWriterSettings)


READS_ONLY: Final = VirtualLogSettings(chain=ChainWriterSettings(may_change=False))
"""Settings for jobs that read: they leave half-done changes to the nodes, which look after the chain every second.

Many reading clients that finish changes would only get into each other's way.
"""


@attrs.frozen(kw_only=True)
class VirtualLogStatistics:
    """Figures of a client since it was made, at one moment."""

    known_tail: LogPosition
    """Highest tail that the client has seen."""
    appends: AppendStatistics
    chain: ChainStatistics


class VirtualLog:
    """A client of the log. Use `connect` to get one; all methods may be called by many tasks at once."""

    def __init__(
        self,
        metastore: MetaStore,
        providers: Mapping[str, LogletProvider],
        environment: Environment,
        *,
        planner: Planner,
        settings: VirtualLogSettings | None = None,
        register: Register | None = None,
        on_register: Callable[[Register], None] = lambda _: None,
    ) -> None:
        """Make no call yet. Work that outlives its caller runs in `environment.nursery`.

        Args:
            metastore: holds the register.
            providers: providers of all kinds of loglets in the chain, by kind.
            environment: services, clock, random source and nursery of the client.
            planner: finds the live nodes when this client has to choose servers.
            settings: None: the defaults.
            register: a register known already; None: read from the MetaStore when first needed.
            on_register: called with each newer register, to learn addresses from; must not block.
        """
        settings = settings or VirtualLogSettings()
        self.view: Final = ChainCache(metastore, providers, environment, cached=register, on_newer_register=on_register)
        self.chain_writer: Final = ChainWriter(self.view, planner, settings.chain)
        self.successors: Final = SuccessorSearch(self.view, self.chain_writer, settings.chain)
        self.watchdog: Final = Watchdog(self.view, self.successors, settings.chain.watchdog_period)
        self.space: Final = AddressSpace(self.view, self.chain_writer, self.successors)
        self._modification = SegmentModification(self.view, self.chain_writer)
        self.appender_settings: Final = settings.appender
        self._appender: Appender | None = None
        self._conditional: list[Appender] = []
        """Idle appenders for conditional appends, with nothing in flight.

        Each such append has an appender to itself: behind another append that is refused, its outcome
        would be unknown. A new session for each would use up what loglets remember.
        """
        self._append_meter = AppendMetrics()
        self._appenders: set[Appender] = set()
        """Open appenders; used only to add up their metrics."""

    # -- the log ------------------------------------------------------------------------------------------------

    async def append(self, payload: bytes) -> LogPosition:
        """Append one entry; concurrent calls share batches. On return it is durable, at the returned position, once.

        Entries of consecutive calls by one task are in the log in that order. After a cancellation or
        an error the entry may be in the log, now or later, but never twice.

        Raises:
            TooLargeError: over the limit; nothing was done.
            SealedError: the log has been closed on purpose; the entry is not in it.
            UnavailableError: given up after `AppenderSettings.give_up` seconds; unknown outcome.
        """
        appender = self._appender or self._default_appender()
        return LogPosition(await appender.append_now(payload))

    async def append_many(self, payloads: Sequence[bytes]) -> range:
        """Append entries that land side by side, in one batch, all or none; returns their positions.

        Raises: as `append`.
        """
        return await self._default_appender().append(list(payloads))

    def post(self, payloads: Sequence[bytes], done: Callable[[range | VirtualLogError], None]) -> bool:
        """Append entries side by side without waiting, in the session of `append`; see `Appender.post_many`.

        Returns False if the queue is full: nothing was done, and `done` is not called.
        """
        return self._default_appender().try_post(payloads, done)

    async def append_if_tail(self, payload: bytes, expected_tail: LogPosition) -> LogPosition:
        """Append only if the entry lands exactly at `expected_tail`; at most once.

        Raises:
            TailMismatchError: another entry is there already; nothing was done.
            UnsupportedError: the active loglet cannot do this.
            UnavailableError: unknown outcome: read at `expected_tail` to find out.
        """
        appender = self._conditional.pop() if self._conditional else self.appender()
        try:
            places = await appender.append([payload], expected_tail)
        except TailMismatchError:
            self._keep_conditional(appender)
            raise
        except BaseException:
            # BaseException, as this includes Cancelled. The entry may still be on its way, and fail, so no other may be
            # behind it in this session. Closing waits for nothing.
            appender.close()
            raise
        self._keep_conditional(appender)
        return LogPosition(places.start)

    def appender(self, settings: AppenderSettings | None = None) -> Appender:
        """A new session: order is kept within a session, not between sessions. Close it after use."""
        made = Appender(self.space, settings or self.appender_settings, self._append_meter, self._appenders.discard)
        self._appenders.add(made)
        return made

    async def check_tail(self) -> Tail:
        """First unwritten position; linearizable. `Sealed` only for a log that was closed on purpose.

        Raises:
            UnavailableError: not enough servers answered, or a half-done change could not be finished.
        """
        return await self.space.check_tail()

    async def read(self, start: LogPosition, stop: LogPosition, max_bytes: int = 1 << 20) -> Sequence[Placed]:
        """Read batches and gaps from `start` on, without holes: at least one item, about `max_bytes` in all.

        Ends at `stop` at the latest; go on with the `stop` of the last item. Trimmed parts come as
        gaps. One answer has at most some 8 MiB, or one batch, for any `max_bytes`.

        Raises:
            BeyondTailError: `stop` is past the tail.
            UnavailableError: no server that has the entries answered.
        """
        return await self.space.read(start, stop, max_bytes)

    def reader(self, start: LogPosition = _FIRST, stop: LogPosition | None = None) -> Reader:
        """Records from `start` on: up to `stop`, or for ever, waiting at the tail."""
        return Reader(self.space, start, stop)

    async def prefix_trim(self, position: LogPosition) -> LogPosition:
        """Drop everything below `position`; returns the effective trim point.

        That is at most the tail, and more than `position` if others have trimmed further. A striped
        loglet drops whole batches, each with the positions up to the next one, and stops before the
        batch that `position` lies in: give the first entry that is still wanted, not the end of the last
        unwanted one.

        Segments that this empties leave the chain. Readers may see some of the entries for a while.

        Raises:
            UnavailableError: not enough servers of a loglet or of the MetaStore answered; a part may have been trimmed.
            VirtualLogError: an error of a loglet that cannot be trimmed, such as a read-only archive.
        """
        return await self.space.prefix_trim(position)

    async def find_trim_point(self) -> LogPosition:
        """First position that has not been trimmed: at least what any trim has returned before the call.

        Raises:
            UnavailableError: not enough servers answered.
            VirtualLogError: an error of a loglet that cannot tell, such as an archive that cannot be read.
        """
        return await self.space.find_trim_point()

    def statistics(self) -> VirtualLogStatistics:
        """Figures of this client so far. Costs some microseconds and no call."""
        return VirtualLogStatistics(
            known_tail=self.view.known_tail,
            appends=self._append_meter.statistics(self._queued_bytes, self._batches_in_flight),
            chain=self.chain_writer.meter.statistics(self.view.cached),
        )

    def metrics(self) -> list[MetricFamily]:
        """The same figures as metric families, with the names of `virtuallog.contract.metrics.MetricsSource`."""
        limit = self.appender_settings.queue_bytes_max
        return [
            *self._append_meter.metrics(self._queued_bytes, limit, self._batches_in_flight),
            *self.chain_writer.meter.metrics(self.view.cached),
        ]

    # -- changes of the chain -----------------------------------------------------------------------------------

    async def reconfig_extend(
        self, kind: str, settings: Mapping[str, str] | None = None, only_at: int | None = None
    ) -> Register:
        """Seal the active loglet and continue on a new one of `kind`; on return that is decided, by this call.

        If another client extends the chain first, the change is made again on top of that.

        Args:
            kind: kind of the new loglet.
            settings: settings of its provider; None: the defaults.
            only_at: version of the register that the change builds on, so that nothing is changed that the
                operator has not seen; None: the version at the moment of the call.

        Raises:
            ChainConflictError: the register is not at version `only_at`; the chain is as it was. If another client
                has put its change between the seal and the put of this one, the log goes on as after any half-done
                change: on a loglet of the same kind, about a second later.
            UnknownKindError, InvalidSettingError: nothing was done. Also if the external storage of the
                new loglet does not answer.
            ForbiddenError: the external storage refuses access; nothing was done.
            UnsupportedError: a node is too old for the kind, or this one lacks a library; nothing was done.
            TooLargeError: the register has no room for another segment; nothing was done.
            UnavailableError: unknown outcome; may be called again.
        """
        return await self.chain_writer.extend(kind, settings or {}, only_at)

    async def reconfig_truncate(self) -> Register:
        """Drop the segments that lie wholly below the trim point (`find_trim_point`) from the chain.

        Raises:
            UnavailableError: unknown outcome; may be called again.
        """
        return await self.chain_writer.truncate(await self.find_trim_point())

    async def reconfig_modify(
        self,
        segment: SegmentId,
        kind: str,
        config: bytes,
        base: LogletOffset = _ORIGIN,
        directories: Mapping[NodeId, bytes] | None = None,
    ) -> Register:
        """Put another loglet, which holds exactly the same entries, under a closed segment.

        The other loglet must be sealed, and this client must be able to reach it. Entries trimmed while
        the copy was made are trimmed in the copy as well, before this returns. If this client dies
        before that, or the former loglet does not answer, the last trims are lost: their entries can be
        read until the next trim.

        Args:
            segment: the closed segment.
            kind: kind of the other loglet.
            config: config of the other loglet.
            base: offset of the other loglet at which the segment begins.
            directories: store ids of the data directories that hold the copies; None if it has none on nodes.

        Raises:
            UnknownKindError, MalformedError: no such kind, no config of this kind.
            UnsupportedError: a node of the cluster is too old for the kind.
            InvalidSettingError: the segment is open or not in the chain, or one of the directories was
                replaced, or a node that has no copy so far is drained, or the other loglet is not
                sealed at or past the end of the segment.
            TooLargeError: another kind than before, and the register has no room for it; nothing was done.
            UnavailableError: unknown whether the chain has changed, or whether trims were carried over. Or
                the other loglet does not answer, and nothing was done.
            CorruptionError, MalformedError, StorageError, UnsupportedError: the other loglet cannot be read; nothing was done.
        """
        provider = self.view.provider(kind)
        provider.describe(config)
        current = await self.view.refresh()
        check_level(provider, current.level)
        former = current.chain.find(segment)
        newcomers = servers_of(provider, config)
        if former is not None:
            newcomers -= servers_of(self.view.providers.get(former.kind), former.config)
        modification = chain_change.Modify(segment, kind, config, base, directories or {}, newcomers)
        return await run_in_service(self.view.environment.nursery, partial(self._modification.run, modification))

    async def reconfig_members(self, members: Sequence[NodeId], seen: Sequence[NodeId] | None = None) -> Register:
        """Make these nodes the members of the MetaStore, which decide the register.

        On return a majority of them knows, and the former members may be shut down.

        Args:
            members: all new members.
            seen: the former members, as the operator saw them, so that two operators do not undo each
                other's changes unseen; None: the members at the moment of the call.

        Raises:
            InvalidSettingError: a node is drained or not in the cluster, or too few of them answer, or
                the former members are others than `seen`; nothing was done.
            UnavailableError: unknown outcome; may be called again.
        """
        return await self.chain_writer.change_members(members, seen)

    async def seal(self) -> Register:
        """Close the log on purpose: appends fail with SealedError until the chain is extended.

        Returns the register of the closed log.

        Raises:
            UnavailableError: unknown outcome; may be called again.
        """
        return await self.chain_writer.close()

    @property
    def _queued_bytes(self) -> int:
        return sum(appender.queued_bytes for appender in self._appenders)

    @property
    def _batches_in_flight(self) -> int:
        return sum(appender.batches_in_flight for appender in self._appenders)

    def _keep_conditional(self, appender: Appender) -> None:
        """Keep an idle appender for the next conditional append, or close it."""
        if len(self._conditional) < CONDITIONAL_MAX:
            self._conditional.append(appender)
        else:
            appender.close()

    def _default_appender(self) -> Appender:
        if self._appender is None:
            self._appender = self.appender()
        return self._appender
