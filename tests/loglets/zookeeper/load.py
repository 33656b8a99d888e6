"""Writers that append to one loglet, each in its own session, and repeat unanswered appends; and
the checks afterwards."""

from __future__ import annotations

import attrs

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.errors import OutOfOrderError, RetryableError
from virtuallog.contract.ports import Clock
from virtuallog.contract.types import LogletOffset
from virtuallog.testing.checker.expectations import entries
from virtuallog_loglets.zookeeper.loglet import ZooKeeperLoglet

PAUSE_SECONDS = 0.02


@attrs.define(eq=False)
class LoadWriter:
    """Appends until told to stop, several batches in flight."""

    loglet: ZooKeeperLoglet
    clock: Clock
    session: SessionId
    stopped: bool = False
    placed: dict[int, bytes] = attrs.field(factory=dict)
    """Places of acknowledged batches."""
    offered: int = 0

    async def run(self) -> None:
        await self._append(opens=True)
        while not self.stopped:
            await self._append(opens=False)

    async def _append(self, *, opens: bool) -> None:
        payload = self.session[:2] + b" %d" % self.offered
        batch = Batch.build(self.session, self.offered, [payload])
        self.offered += 1
        while True:
            try:
                places = await self.loglet.append(batch, opens=opens)
            except (RetryableError, OutOfOrderError):
                await self.clock.sleep(PAUSE_SECONDS)
            else:
                self.placed[places.start] = payload
                return


async def read_all(loglet: ZooKeeperLoglet) -> dict[int, bytes]:
    """Everything below the tail."""
    tail, start, found = (await loglet.check_tail()).tail, 0, dict[int, bytes]()
    while start < tail:
        items = await loglet.read(LogletOffset(start), LogletOffset(tail), 1 << 20)
        found |= entries(items)
        start = items[-1].stop
    return found


def check(writers: list[LoadWriter], found: dict[int, bytes]) -> None:
    """Each acknowledged batch is at its place; all of each session is there once, in its order."""
    for writer in writers:
        assert {place: found.get(place) for place in writer.placed} == writer.placed
        name = writer.session[:2] + b" "
        mine = [payload for _, payload in sorted(found.items()) if payload.startswith(name)]
        assert mine == [name + b"%d" % number for number in range(writer.offered)]
