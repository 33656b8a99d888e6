"""The single-copy loglet of examples/, broken in other ways: each is named with the rows of the report that must say so."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import trio

from examples.single_copy_loglet import SingleCopyProvider, SingleCopyServer, State
from virtuallog.batch import Batch
from virtuallog.chain import SegmentId
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
class Shy(SingleCopyProvider):
    server_class: type[SingleCopyServer] = ShyServer


BROKEN: Mapping[type[SingleCopyProvider], tuple[str, ...]] = {
    Early: ("clause/acknowledged_survives_a_restart", "loglet/blackout"),
    Untrimmed: ("clause/a_trim_survives_a_restart", "loglet/relaunch"),
    Repeating: ("clause/the_same_batch_again_gets_its_old_places", "loglet/duplication"),
    Shy: ("clause/a_seal_survives_a_restart", "loglet/relaunch"),
}
