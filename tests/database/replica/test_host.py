"""A host whose replica meets an error that is no reason to stop."""

from __future__ import annotations

from trio.testing import MockClock

from tests.database.snapshots.servers import servers
from virtuallog.contract.errors import DiskFullError, OverloadedError, RetryableError, VirtualLogError


async def test_a_retryable_error_begins_a_new_life(autojump_clock: MockClock) -> None:
    """After an uncaught error or a full disk the tasks of the replica end. After a pause there is another one, a new
    incarnation, with all that was written. Other replicas go on meanwhile."""
    async with servers() as made:
        one = made.running[1]
        errors: list[RetryableError] = [OverloadedError("a queue is full"), DiskFullError("no room")]
        for lives, error in enumerate(errors, start=1):
            one.life.environment.nursery.start_soon(_raise, error)
            await made.clock.sleep(0.1)
            assert one.host.life is None
            await made.running[2].write(lives)
            await made.clock.sleep(5.0)
            assert one.lives == lives + 1
        await one.write(7)

        await made.settle()
        assert [server.life.database.tree.get_data("/a", ())[0] for server in made.running.values()] == [
            b"%100d" % 7
        ] * 3
        assert list(one.host.setbacks.latest) == errors


async def _raise(error: VirtualLogError) -> None:
    raise error
