"""The single-copy loglet of examples/, broken in other ways: each is named with the rows of the report that must say so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import trio

from examples.single_copy_loglet import REQUESTS_MAX, Look, Read, SingleCopyProvider, SingleCopyServer, State
from virtuallog.contract.batch import Batch
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.ports import Done
from virtuallog.testing.model import LogModel


class EarlyServer(SingleCopyServer):
    """Acknowledges first and writes later."""

    async def keep_batch(self, segment: SegmentId, place: int, time_ms: int, batch: Batch) -> None:
        self.environment.nursery.start_soon(self.write_later, segment, place, time_ms, batch)

    async def write_later(self, segment: SegmentId, place: int, time_ms: int, batch: Batch) -> None:
        await self.environment.clock.sleep(0.05)
        await super().keep_batch(segment, place, time_ms, batch)


class UntrimmedServer(SingleCopyServer):
    """Knows what it has dropped only for as long as it runs."""

    async def keep_trim_point(self, segment: SegmentId, trim_point: int) -> None:
        await trio.lowlevel.checkpoint()


class RepeatingServer(SingleCopyServer):
    """Takes a batch that is offered again for a new one."""

    async def _append(self, segment: SegmentId, model: LogModel, batch: Batch, *, opens: bool) -> State:
        if batch in model.offered:
            places = range(model.tail, model.tail + batch.count)
            model.next_sequence.pop(batch.session)
            model.land(batch, places)
            return State(places.stop, model.trim_point, model.sealed)
        return await super()._append(segment, model, batch, opens=opens)


class HastyServer(SingleCopyServer):
    """Answers tails and reads at once, from memory, while a batch is still being written."""

    async def run(self, requests: trio.MemoryReceiveChannel[tuple[Any, Done]]) -> None:
        send, waiting = trio.open_memory_channel[tuple[Any, Done]](REQUESTS_MAX)
        self.environment.nursery.start_soon(super().run, waiting)
        async for request, done in requests:
            model = self._models.get(request.segment)
            if isinstance(request, Look) and model is not None:
                done(State(model.tail, model.trim_point, model.sealed))
            elif isinstance(request, Read) and model is not None and request.stop <= model.tail:
                done(await self._serve(request, model))
            else:
                await send.send((request, done))


class SmallTableServer(SingleCopyServer):
    """Remembers so many sessions, and takes an older one for a new one."""

    sessions_max = 16

    async def _append(self, segment: SegmentId, model: LogModel, batch: Batch, *, opens: bool) -> State:
        state = await super()._append(segment, model, batch, opens=opens)
        if len(model.next_sequence) > self.sessions_max:
            oldest = next(iter(model.next_sequence))
            del model.next_sequence[oldest]
            model.offered = {old: places for old, places in model.offered.items() if old.session != oldest}
        return state


class ShyServer(SingleCopyServer):
    """Once it has restarted it does not find the loglets that it has sealed."""

    async def _replay(self, segment: SegmentId) -> LogModel:
        model = await super()._replay(segment)
        if model.sealed:
            await trio.sleep_forever()
        return model


@attrs.define(eq=False)
class Early(SingleCopyProvider):
    server_class: type[SingleCopyServer] = EarlyServer


@attrs.define(eq=False)
class Untrimmed(SingleCopyProvider):
    server_class: type[SingleCopyServer] = UntrimmedServer


@attrs.define(eq=False)
class Repeating(SingleCopyProvider):
    server_class: type[SingleCopyServer] = RepeatingServer


@attrs.define(eq=False)
class Hasty(SingleCopyProvider):
    server_class: type[SingleCopyServer] = HastyServer


@attrs.define(eq=False)
class SmallTable(SingleCopyProvider):
    server_class: type[SingleCopyServer] = SmallTableServer


@attrs.define(eq=False)
class Shy(SingleCopyProvider):
    server_class: type[SingleCopyServer] = ShyServer


BROKEN: Mapping[type[SingleCopyProvider], tuple[str, ...]] = {
    Early: ("clause/acknowledged_survives_a_restart", "loglet/blackout"),
    Untrimmed: ("clause/a_trim_survives_a_restart", "loglet/relaunch"),
    Repeating: ("clause/the_same_batch_again_gets_its_old_places", "loglet/duplication"),
    Hasty: (
        "clause/a_tail_is_durable_when_it_is_told",
        "loglet/crash",
        "loglet/kill",
        "loglet/relaunch",
        "loglet/blackout",
    ),
    SmallTable: ("clause/a_session_is_not_forgotten_silently",),
    Shy: ("clause/a_seal_survives_a_restart", "loglet/relaunch"),
}
