"""Snapshots, the view, trims and restores together: the log stays short, and absent replicas come
back."""

from __future__ import annotations

from trio.testing import MockClock

from tests.database.snapshots.servers import Servers, servers
from virtuallog.contract.types import LogPosition
from virtuallog_simulation.world.store_disk import StoreDisk


async def test_the_log_is_trimmed_to_the_oldest_snapshot_of_all(autojump_clock: MockClock) -> None:
    """While writes go on the log stays as long as what two snapshots are apart."""
    async with servers() as made:
        for _ in range(10):
            await made.write(60)
            await made.clock.sleep(5)
            begins = await made.log_begins()
            snapshots = [server.life.snapshots.newest for server in made.running.values()]
            assert begins <= min(snapshots)
            assert made.running[1].life.replica.cursor - begins < 150
        assert begins > 400


async def test_a_server_that_is_away_holds_the_log_until_it_is_ejected(autojump_clock: MockClock) -> None:
    """It comes back to a log that begins behind its cursor, and restores a snapshot; the others never stopped."""
    async with servers() as made:
        await made.write(60)
        cursor = made.running[3].life.replica.cursor
        disk = await made.crash(3)
        await made.write(60)
        assert await made.log_begins() <= cursor
        await made.clock.sleep(30)
        await made.write(200)
        await made.clock.sleep(5)
        assert await made.log_begins() > cursor
        await _comes_back(made, disk, LogPosition(cursor))


async def test_a_wiped_server_restores_and_lets_go_of_the_log(autojump_clock: MockClock) -> None:
    """Held while it restores, the log is trimmed again as soon as it has a snapshot of its own."""
    async with servers() as made:
        await made.write(300)
        await made.crash(3)
        await made.write(100)
        await _comes_back(made, StoreDisk(), LogPosition(0))


async def _comes_back(made: Servers, disk: StoreDisk, cursor: LogPosition) -> None:
    server = await made.start(3, disk)
    assert server.host.waiting_for == "" and server.life.replica.cursor > cursor
    held = await made.log_begins()
    await made.write(200)
    await made.clock.sleep(5)
    await made.settle()
    assert dict(made.running[1].view.holds()) == {}
    assert await made.log_begins() > held
    digests = {server.disk.digest for server in made.running.values()}
    assert len(digests) == 1


async def test_a_server_that_stood_still_restores_in_the_same_process(autojump_clock: MockClock) -> None:
    """Ejected while it was paused, it finds the log trimmed past its cursor: a new life begins on a snapshot."""
    async with servers() as made:
        await made.write(60)
        stopped = made.running.pop(3)
        stopped.process.pause()
        made.network.cut_off(stopped.process.node, "it stands still")
        await made.clock.sleep(30)
        await made.write(200)
        await made.clock.sleep(5)
        assert await made.log_begins() > stopped.life.replica.cursor
        made.network.rejoin(stopped.process.node, "it stands still")
        stopped.process.resume()
        made.running[3] = stopped
        await made.clock.sleep(20)
        assert stopped.lives == 2
        await made.write(30)
        await made.settle()
        assert len({server.disk.digest for server in made.running.values()}) == 1
