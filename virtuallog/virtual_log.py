"""The VirtualLog: one address space over a chain of loglets (Delos, OSDI'20, section 3).

Appends and tail checks go to the last segment, reads to the owner of the range. Every client works on a cached
register; a loglet that says "sealed" is how it learns that the cache is stale. The MetaStore is not on the path of
anything else: with it down, appends, tails and reads go on.

Cancelling any method is safe: an append becomes a maybe, a change of the chain goes on in the service nursery (a
reconfiguration that dies between seal and put would cost everybody a grace period), all else has no effect to undo.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeAlias

import attrs
import structlog
import trio

from virtuallog import reconfigure, register
from virtuallog.api import Cluster, Loglet, LogletProvider, MetaStore, Placed
from virtuallog.appender import Appender, AppenderSettings
from virtuallog.chain import Segment, SegmentId
from virtuallog.errors import (
    BeyondTailError,
    ChainConflictError,
    ReconfigurationNeededError,
    RetryableError,
    SealedError,
    UnavailableError,
    UnknownKindError,
)
from virtuallog.ports import Environment
from virtuallog.reader import Reader
from virtuallog.register import Register
from virtuallog.service_task import in_service
from virtuallog.types import Gap, GapKind, LogletOffset, LogPosition, Open, Sealed, Tail

Planner: TypeAlias = Callable[[Register], Awaitable[Cluster]]
"""Finds out which nodes live, for a loglet provider to choose from."""

log = structlog.get_logger(__name__)


@attrs.frozen(kw_only=True)
class VirtualLogSettings:
    """How a client behaves. Times in seconds."""

    grace: float = 1.0
    """How long a sealed loglet may be without a successor before a client finishes the change itself (plus up to half
    of that again at random, so that one of many goes first). Shorter heals sooner; too short makes clients race with
    a reconfiguration that is under way, which is harmless but may undo its choice of loglet."""
    poll_min: float = 0.002
    """First pause between two looks at the register while waiting for a successor; doubles up to `poll_max`. The
    first ones are short because a healthy reconfiguration takes some milliseconds."""
    poll_max: float = 0.1
    watchdog_period: float = 1.0
    """Pause between two looks of a node's watchdog at the active loglet."""
    put_attempts: int = 5
    """How often one change is put to a MetaStore that does not answer before its outcome is called unknown."""
    appender: AppenderSettings = AppenderSettings()


class VirtualLog:
    """A client of the log. Use `connect` to get one; all methods may be called by many tasks at once."""

    def __init__(
        self,
        metastore: MetaStore,
        providers: Mapping[str, LogletProvider],
        environment: Environment,
        *,
        cluster: Planner,
        settings: VirtualLogSettings | None = None,
    ) -> None:
        """Makes no call yet. Work that outlives its caller runs in `environment.nursery`."""
        self.environment: Final = environment
        self.settings: Final = settings or VirtualLogSettings()
        self._metastore = metastore
        self._providers = providers
        self._cluster = cluster
        self._register: Register | None = None
        self._loglets: dict[SegmentId, Loglet] = {}
        self._known_tail = LogPosition(0)
        self._changing = trio.Lock()
        self._appender: Appender | None = None

    # -- the log ------------------------------------------------------------------------------------------------

    async def append(self, payload: bytes) -> LogPosition:
        """Append one entry; concurrent calls share batches. On return it is durable, at the returned position, once.

        Calls made one after the other by one task are in the log in that order. After a cancellation or an error the
        entry may be in the log, now or later, but never twice.

        Raises:
            TooLargeError: over the limit; nothing was done.
            SealedError: the log has been closed on purpose; the entry is not in it.
            UnavailableError: given up after `AppenderSettings.give_up`; unknown outcome.
        """
        return LogPosition((await self._default_appender().append([payload])).start)

    async def append_many(self, payloads: Sequence[bytes]) -> range:
        """Append entries that land side by side, in one batch, all or none; returns their positions.

        Raises: as `append`.
        """
        return await self._default_appender().append(list(payloads))

    async def append_if_tail(self, payload: bytes, expected_tail: LogPosition) -> LogPosition:
        """Append only if the entry lands exactly at `expected_tail`; at most once.

        Raises:
            TailMismatchError: something else is there already; nothing was done.
            UnsupportedError: the active loglet cannot do this.
            UnavailableError: unknown outcome: read at `expected_tail` to find out.
        """
        appender = self.appender()
        try:
            return LogPosition((await appender.append([payload], expected_tail=expected_tail)).start)
        finally:
            appender.close()

    def appender(self, settings: AppenderSettings | None = None) -> Appender:
        """A session of its own: order is kept within a session, not between sessions."""
        return Appender(self, settings or self.settings.appender)

    async def check_tail(self) -> Tail:
        """First unwritten position; linearizable. `Sealed` only for a log that was closed on purpose.

        Raises:
            UnavailableError: not enough servers answered, or nobody could finish a half-done change.
        """
        while True:
            segment = (await self.current()).chain.last
            if segment.stop is not None:
                # A cached "closed" may be old: somebody may have extended the log since.
                if (await self.refresh()).chain.last.id == segment.id:
                    return Sealed(segment.stop)
                continue
            tail = await self.loglet(segment).check_tail()
            if isinstance(tail, Open):
                return Open(self.saw_tail(segment.position(tail.tail)))
            await self.successor_of(segment.id)

    async def read(self, start: LogPosition, stop: LogPosition, max_bytes: int = 1 << 20) -> Sequence[Placed]:
        """What lies in [start, stop): begins at `start`, without holes, at least one item, about `max_bytes` of them.

        Trimmed parts come as gaps.

        Raises:
            BeyondTailError: `stop` is past the tail.
            UnavailableError: no server that has the entries answered.
        """
        if start >= stop:
            return []
        if stop > self._known_tail:
            tail = await self.check_tail()
            if stop > tail.tail:
                raise BeyondTailError(stop, tail.tail)
        while True:
            register = await self.current()
            if start < register.chain.start:
                return [Gap(start, min(stop, register.chain.start), GapKind.TRIMMED)]
            segment = register.chain.segment_at(start)
            if segment is None:  # our chain is older than the tail we know
                await self.refresh()
                continue
            try:
                return await self._read_segment(segment, start, stop, max_bytes)
            except SealedError:  # the loglet was dropped: it is no longer in the chain
                if (await self.refresh()).version == register.version:
                    raise UnavailableError(f"segment {segment.id} is gone, but still in the chain") from None

    async def _read_segment(self, segment: Segment, start: int, stop: int, max_bytes: int) -> Sequence[Placed]:
        # Clamped to the chain's stop: what a loglet holds beyond is not in the virtual address space.
        if segment.stop is not None:
            stop = min(stop, segment.stop)
        found = await self.loglet(segment).read(segment.offset(start), segment.offset(stop), max_bytes)
        shift = segment.shift
        return [item.shift(shift) for item in found] if shift else found

    def reader(self, start: LogPosition = LogPosition(0), stop: LogPosition | None = None) -> Reader:
        """Records from `start` on: up to `stop`, or for ever, waiting at the tail."""
        return Reader(self, start, stop)

    async def prefix_trim(self, position: LogPosition) -> LogPosition:
        """Drop everything below `position`; returns the effective trim point, at most the tail.

        Empties segments out of the chain as well. Readers may still see some of it for a while.

        Raises:
            UnavailableError: not enough servers answered; a part may have been trimmed.
        """
        tail = await self.check_tail()
        target = min(position, LogPosition(tail.tail))
        register = await self.current()
        for segment in register.chain.segments:
            if segment.start < target:
                end = target if segment.stop is None else min(target, segment.stop)
                await self.loglet(segment).prefix_trim(segment.offset(end))
        if any(segment.stop is not None and segment.stop <= target for segment in register.chain.segments[:-1]):
            await self._change(reconfigure.Truncate(target), planned=False)
        return max(target, register.chain.start)

    # -- changes of the chain -----------------------------------------------------------------------------------

    async def reconfig_extend(self, kind: str, settings: Mapping[str, str] | None = None) -> Register:
        """Seal the active loglet and continue on a new one of `kind`; on return that is decided, by this call.

        If somebody else extends the chain first, the change is made again on top of theirs.

        Raises:
            UnknownKindError, InvalidSettingError: nothing was done.
            UnavailableError: unknown outcome; may be called again.
        """
        provider = self.provider(kind)
        while True:
            current = await self.refresh()
            config = await self._plan(provider, settings or {}, current)
            done = await self._change(reconfigure.Extend(kind, config))
            if done.won:
                return done.register

    async def reconfig_truncate(self) -> Register:
        """Drop the segments that are trimmed as a whole from the chain."""
        current = await self.refresh()
        first = LogPosition(await self.find_trim_point())
        await self._change(reconfigure.Truncate(first), planned=False)
        assert self._register is not None
        return self._register if self._register.version > current.version else current

    async def reconfig_modify(
        self, segment: SegmentId, kind: str, config: bytes, base: LogletOffset = LogletOffset(0)
    ) -> Register:
        """Put another loglet, which holds exactly the same entries, under a closed segment.

        Raises:
            UnknownKindError: no such kind.
            InvalidSettingError: the segment is open or not in the chain.
        """
        self.provider(kind)
        await self.refresh()
        return (await self._change(reconfigure.Modify(segment, kind, config, base))).register

    async def seal(self) -> Register:
        """Close the log on purpose: appends fail with SealedError until somebody extends the chain."""
        while True:
            if (await self.refresh()).chain.active is None:
                return await self.current()
            done = await self._change(reconfigure.Close(), planned=False)
            if done.won:
                return done.register

    async def find_trim_point(self) -> LogPosition:
        """First position that has not been trimmed, as far as one server of each loglet asked knows."""
        tail = await self.check_tail()
        start = (await self.current()).chain.start
        while start < tail.tail:
            first = (await self.read(start, LogPosition(tail.tail), 1))[0]
            if not (isinstance(first, Gap) and first.kind is GapKind.TRIMMED):
                break
            start = LogPosition(first.stop)
        return start

    # -- what appenders, readers and nodes build on ---------------------------------------------------------------

    async def current(self) -> Register:
        """The cached register; read from the MetaStore the first time."""
        return self._register or await self.refresh()

    async def refresh(self) -> Register:
        """Read the register; the cache never goes back to a lower version.

        Raises:
            UnavailableError: no majority of the MetaStore answered, or the cluster is not bootstrapped.
        """
        version, value = await self._metastore.get()
        if version == 0:
            raise UnavailableError("the cluster has not been bootstrapped")
        if self._register is None or version > self._register.version:
            self.adopt(register.decode_untrusted(value))
        assert self._register is not None
        return self._register

    def adopt(self, newer: Register) -> None:
        """Take `newer` as the cached register if it is newer."""
        if self._register is not None and newer.version <= self._register.version:
            return
        self._register = newer
        live = {segment.id for segment in newer.chain.segments}
        for segment_id in [known for known in self._loglets if known not in live]:
            del self._loglets[segment_id]

    @property
    def cached(self) -> Register | None:
        """The newest register seen so far, without asking."""
        return self._register

    def saw_tail(self, position: LogPosition) -> LogPosition:
        """Everything below `position` is known to be readable."""
        self._known_tail = max(self._known_tail, position)
        return position

    @property
    def known_tail(self) -> LogPosition:
        """The highest tail seen so far; the log is readable below it."""
        return self._known_tail

    def loglet(self, segment: Segment) -> Loglet:
        """The client of a segment's loglet, opened on first use."""
        loglet = self._loglets.get(segment.id)
        if loglet is None:
            provider = self.provider(segment.kind)
            loglet = self._loglets[segment.id] = provider.open(segment.id, segment.config, self.environment)
        return loglet

    def provider(self, kind: str) -> LogletProvider:
        """Raises: UnknownKindError."""
        provider = self._providers.get(kind)
        if provider is None:
            raise UnknownKindError(kind, ", ".join(sorted(self._providers)))
        return provider

    async def successor_of(self, segment_id: SegmentId, *, failed: bool = False) -> Register:
        """A register whose last segment is another one, or is closed.

        Waits for whoever is changing the chain; after the grace period finishes the change with a loglet of the same
        kind, since nobody knows what the other one intended (Delos, section 3.2). With `failed`, at once: the loglet
        itself has asked for a successor.

        Raises:
            UnavailableError: the MetaStore or the loglet does not answer.
        """
        clock, pause = self.environment.clock, self.settings.poll_min
        grace = 0.0 if failed else self.settings.grace
        deadline = clock.monotonic() + grace * (1 + self.environment.random.random() / 2)
        while True:
            found = await self.refresh()
            if found.chain.last.id != segment_id or found.chain.active is None:
                return found
            if clock.monotonic() >= deadline:
                await self._roll_forward(found)
                continue
            await clock.sleep(pause)
            pause = min(2 * pause, self.settings.poll_max)

    async def _roll_forward(self, stuck: Register) -> None:
        last = stuck.chain.last
        config = await self._plan(self.provider(last.kind), {}, stuck)
        log.info("rolling forward", segment=str(last.id), version=stuck.version)
        await self._change(reconfigure.Extend(last.kind, config), planned=False, only_after=last.id)

    async def run_watchdog(self) -> None:
        """For ever: finish changes that somebody left half done. Every node runs one; the conditional put elects."""
        clock, random = self.environment.clock, self.environment.random
        while True:
            await clock.sleep(self.settings.watchdog_period * (0.5 + random.random()))
            try:
                await self._watch_once()
            except RetryableError as error:
                log.debug("watchdog", error=str(error))

    async def _watch_once(self) -> None:
        segment = (await self.refresh()).chain.active
        if segment is None:
            return
        try:
            tail = await self.loglet(segment).check_tail()
        except (SealedError, ReconfigurationNeededError) as error:
            await self.successor_of(segment.id, failed=isinstance(error, ReconfigurationNeededError))
            return
        if isinstance(tail, Sealed):
            await self.successor_of(segment.id)

    async def _plan(self, provider: LogletProvider, settings: Mapping[str, str], current: Register) -> bytes:
        last = current.chain.last
        previous = last.config if last.kind == provider.kind else None
        return provider.plan(await self._cluster(current), settings, previous)

    async def _change(
        self, change: reconfigure.Change, *, planned: bool = True, only_after: SegmentId | None = None
    ) -> reconfigure.Done:
        """Run a change of the chain in the service nursery: it goes on when the caller is cancelled.

        Args:
            change: what to do.
            planned: refuse to let the register grow over its limit.
            only_after: do nothing unless this is still the last segment.
        """

        async def run() -> reconfigure.Done:
            async with self._changing:  # one at a time per client: two would only race each other at the MetaStore
                current = await self.current()
                if only_after is not None and current.chain.last.id != only_after:
                    return reconfigure.Done(current, won=False)
                return await self._run_change(change, current, planned)

        return await in_service(self.environment.nursery, run)

    async def _run_change(self, change: reconfigure.Change, current: Register, planned: bool) -> reconfigure.Done:
        machine = reconfigure.Reconfiguration(current, change, self.environment.random.getrandbits(63))
        effect, unknown = machine.start(), 0
        while not isinstance(effect, reconfigure.Done):
            event = await self._run_effect(effect, machine.attempt, planned)
            unknown += isinstance(event, reconfigure.PutUnknown)
            if unknown >= self.settings.put_attempts:
                raise UnavailableError("the MetaStore does not answer; whether the chain has changed is unknown")
            effect = machine.step(event)
        self.adopt(effect.register)
        return effect

    async def _run_effect(self, effect: reconfigure.Effect, attempt: int, planned: bool) -> reconfigure.Event:
        match effect:
            case reconfigure.Seal(segment):
                await self.loglet(segment).seal()
                return reconfigure.SealReturned()
            case reconfigure.CheckTail(segment):
                return await self.loglet(segment).check_tail()
            case reconfigure.Read():
                return await self.refresh()
            case reconfigure.Put(proposed, expected_version):
                value = proposed.encode_planned() if planned else proposed.encode()
                return await self._put(value, proposed, expected_version, attempt)
            case reconfigure.Done():
                raise AssertionError(effect)

    async def _put(self, value: bytes, proposed: Register, expected_version: int, attempt: int) -> reconfigure.Event:
        try:
            await self._metastore.put(value, expected_version, attempt, proposed.members)
        except ChainConflictError:
            return reconfigure.PutLost()
        except UnavailableError:
            return reconfigure.PutUnknown()
        return reconfigure.PutWon()

    def _default_appender(self) -> Appender:
        if self._appender is None:
            self._appender = self.appender()
        return self._appender
