"""The simulated ports on their own, with a service of two lines behind them."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio

from virtuallog.contract.errors import OverloadedError, UnavailableError, UnsupportedError
from virtuallog.contract.ports import Done, Handlers, Request, Services
from virtuallog.contract.types import NodeId
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.network import LinkQuality, SimulatedNetwork
from virtuallog.testing.sim.process import CrashedError, Process
from virtuallog.testing.sim.timeline import Timeline
from virtuallog_simulation.world.scheduler import run

A, B = NodeId(1), NodeId(2)


@attrs.frozen
class Pong:
    number: int


@attrs.frozen
class Ping(Request[Pong]):
    number: int


@attrs.define
class Echo:
    """Answers each Ping; remembers what it has seen."""

    seen: list[int] = attrs.field(factory=list)
    waiting: list[Done] = attrs.field(factory=list)
    holds: bool = False

    def handlers(self) -> Handlers:
        return {Ping: self.ping}

    def ping(self, request: Ping, done: Done) -> None:
        self.seen.append(request.number)
        if self.holds:
            self.waiting.append(done)
        else:
            done(Pong(request.number))


@attrs.define
class World:
    network: SimulatedNetwork
    processes: dict[NodeId, Process]
    echo: Echo

    def services(self, node: NodeId = A, rate: float = 1.0) -> Services:
        process = self.processes[node]
        return self.network.services(process, SimulatedClock(process, rate=rate))


@asynccontextmanager
async def world(quality: LinkQuality | None = None) -> AsyncIterator[World]:
    """Node A, which asks, and node B, which answers."""
    network = SimulatedNetwork(Timeline(), random.Random(1), quality or LinkQuality())
    processes = {node: Process(node) for node in (A, B)}
    echo = Echo()
    network.listen(processes[A], echo.handlers())
    network.listen(processes[B], echo.handlers())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(network.timeline.run)
        yield World(network, processes, echo)
        nursery.cancel_scope.cancel()


def simulated(story: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """Runs an async test in simulated time."""

    def test() -> None:
        run(1, story)

    test.__name__, test.__doc__ = story.__name__, story.__doc__
    return test


@simulated
async def test_a_call_returns_the_reply_after_the_delay_of_both_directions() -> None:
    """Half a millisecond to one millisecond each way."""
    async with world() as here:
        start = trio.current_time()

        assert Pong(1) == await here.services().call(B, Ping(1), 1.0)

        assert 0.001 <= trio.current_time() - start <= 0.002


@simulated
async def test_posts_of_one_moment_travel_together_and_in_order() -> None:
    """One segment, one fate, one order."""
    async with world() as here:
        for number in range(5):
            here.services().post(B, Ping(number), lambda _: None, 1.0)
        await trio.sleep(1)

        assert list(range(5)) == here.echo.seen


@simulated
async def test_a_call_to_the_own_node_skips_the_network() -> None:
    """A lossy network does not lose what never enters it."""
    async with world(LinkQuality(loss=1.0)) as here:
        assert Pong(1) == await here.services().call(A, Ping(1), 1.0)


@simulated
async def test_a_lost_request_times_out_as_unknown() -> None:
    """UnavailableError after exactly the timeout, and the loss is counted."""
    async with world(LinkQuality(loss=1.0)) as here:
        start = trio.current_time()
        with pytest.raises(UnavailableError):
            await here.services().call(B, Ping(1), 2.0)

        assert trio.current_time() - start == pytest.approx(2.0)
        assert here.network.counts["lost"] == 1


@simulated
async def test_a_timeout_follows_the_callers_clock() -> None:
    """A clock that runs at double speed gives up after half the true time."""
    async with world(LinkQuality(loss=1.0)) as here:
        start = trio.current_time()
        with pytest.raises(UnavailableError):
            await here.services(rate=2.0).call(B, Ping(1), 2.0)

        assert trio.current_time() - start == pytest.approx(1.0)


@simulated
async def test_a_lost_reply_leaves_the_request_executed() -> None:
    """The caller cannot tell it from a lost request."""
    async with world() as here:
        here.network.link(B, A).blocked = True
        with pytest.raises(UnavailableError):
            await here.services().call(B, Ping(1), 2.0)

        assert here.echo.seen == [1]


@simulated
async def test_a_duplicated_request_is_executed_twice_and_answered_once() -> None:
    """The second reply finds the call settled."""
    async with world(LinkQuality(duplicate=1.0)) as here:
        replies: list[object] = []
        here.services().post(B, Ping(1), replies.append, 1.0)
        await trio.sleep(5)

        assert here.echo.seen == [1, 1]
        assert replies == [Pong(1)]


@simulated
async def test_reordered_requests_arrive_in_another_order() -> None:
    """Only when a reorder is drawn: see the test of one segment for the usual case."""
    async with world(LinkQuality(reorder=0.5)) as here:
        for number in range(30):
            here.services().post(B, Ping(number), lambda _: None, 1.0)
            await trio.sleep(0.0002)
        await trio.sleep(1)

        assert here.echo.seen != sorted(here.echo.seen)
        assert list(range(30)) == sorted(here.echo.seen)
        assert here.network.counts["reordered"] > 0


@simulated
async def test_a_clogged_link_bursts_when_it_opens() -> None:
    """Nothing arrives before, everything at that moment."""
    async with world() as here:
        here.network.link(A, B).clogged_until = 10.0
        for number in range(3):
            here.services().post(B, Ping(number), lambda _: None, 60.0)
            await trio.sleep(1)

        assert here.echo.seen == []
        await trio.sleep(7.5)
        assert here.echo.seen == [0, 1, 2]


@simulated
async def test_a_partition_cuts_what_is_already_on_the_way() -> None:
    """A partition drops messages on their way, and heals without a trace."""
    async with world() as here:
        here.services().post(B, Ping(1), lambda _: None, 1.0)
        here.network.link(A, B).blocked = True
        await trio.sleep(1)
        assert here.echo.seen == []

        here.network.heal()
        assert Pong(2) == await here.services().call(B, Ping(2), 1.0)


@simulated
async def test_what_a_cut_loses_is_counted_by_its_cause() -> None:
    """Two may cut one link; it carries again when both have mended it."""
    async with world() as here:
        link = here.network.link(A, B)
        link.cut("first")
        link.cut("second")
        here.services().post(B, Ping(1), lambda _: None, 0.1)
        await trio.sleep(1)
        link.mend("second")
        here.services().post(B, Ping(2), lambda _: None, 0.1)
        await trio.sleep(1)
        assert (here.network.counts["first"], here.network.counts["second"]) == (1, 1)

        link.mend("first")
        assert Pong(3) == await here.services().call(B, Ping(3), 1.0)


@simulated
async def test_who_is_cut_off_does_not_hear_newcomers_either() -> None:
    """A client that comes later finds the same silence."""
    async with world() as here:
        here.network.cut_off(B, "alone")
        with pytest.raises(UnavailableError):
            await here.services().call(B, Ping(1), 1.0)
        assert here.network.counts["alone"] == 1

        here.network.rejoin(B, "alone")
        assert Pong(2) == await here.services().call(B, Ping(2), 1.0)


@simulated
async def test_an_old_request_comes_back() -> None:
    """Long after its call was answered it is executed once more."""
    async with world(LinkQuality(replay=1.0, replay_seconds=5.0)) as here:
        replies: list[object] = []
        here.services().post(B, Ping(1), replies.append, 1.0)
        await trio.sleep(0.01)
        assert (here.echo.seen, replies) == ([1], [Pong(1)])

        await trio.sleep(100)
        assert (here.echo.seen, replies) == ([1, 1], [Pong(1)])
        assert here.network.counts["replayed"] >= 1


@simulated
async def test_each_kind_of_fate_has_a_chance_of_its_own() -> None:
    """Doubling messages on a link does not change which ones are lost."""
    lost = []
    for duplicate in (0.0, 0.5):
        async with world(LinkQuality(loss=0.5, duplicate=duplicate)) as here:
            here.network.link(B, A).cut("no replies")
            for number in range(50):
                here.services().post(B, Ping(number), lambda _: None, 1.0)
                await trio.sleep(0.1)
            lost.append(set(range(50)) - set(here.echo.seen))

    assert lost[0] == lost[1] != set()


@simulated
async def test_the_error_of_a_handler_reaches_the_caller() -> None:
    """The caller gets an error of the same class with the same fields."""
    async with world() as here:

        def refuse(_: Any, done: Done) -> None:
            done(OverloadedError("enough"))

        here.network.listen(here.processes[B], {Ping: refuse})

        with pytest.raises(OverloadedError, match="enough"):
            await here.services().call(B, Ping(1), 1.0)


@simulated
async def test_a_request_that_nobody_serves_is_unsupported() -> None:
    """A request to a node that does not serve it fails as over real RPC."""
    async with world() as here:
        here.network.listen(here.processes[B], {})

        with pytest.raises(UnsupportedError):
            await here.services().call(B, Ping(1), 1.0)


@simulated
async def test_a_crashed_process_neither_receives_nor_sends() -> None:
    """Its ports raise, and calls to it fail."""
    async with world() as here:
        here.processes[B].crash()

        with pytest.raises(CrashedError):
            await here.services(B).call(A, Ping(1), 1.0)
        with pytest.raises(UnavailableError):
            await here.services(A).call(B, Ping(1), 1.0)
        assert here.echo.seen == []


@simulated
async def test_the_reply_of_a_dead_incarnation_is_lost() -> None:
    """The reply is lost even if the handler kept its `Done` and calls it after the restart."""
    async with world() as here:
        here.echo.holds = True
        replies: list[object] = []
        here.services().post(B, Ping(1), replies.append, 5.0)
        await trio.sleep(1)

        here.processes[B].crash()
        here.network.listen(Process(B, boot=2), here.echo.handlers())
        here.echo.waiting.pop()(Pong(1))
        await trio.sleep(10)

        (reply,) = replies
        assert isinstance(reply, UnavailableError)


@simulated
async def test_a_dead_caller_is_never_called_back() -> None:
    """Not by a reply, not by a timeout."""
    async with world() as here:
        replies: list[object] = []
        here.services().post(B, Ping(1), replies.append, 5.0)
        here.processes[A].crash()
        await trio.sleep(10)

        assert replies == []


@simulated
async def test_a_paused_process_catches_up_on_resume() -> None:
    """It hears nothing while paused, and everything afterwards."""
    async with world() as here:
        here.processes[B].pause()
        replies: list[object] = []
        here.services().post(B, Ping(1), replies.append, 60.0)
        await trio.sleep(10)
        assert here.echo.seen == []

        here.processes[B].resume()
        await trio.sleep(1)
        assert replies == [Pong(1)]


@simulated
async def test_sleep_and_timeout_follow_the_drift_of_the_clock() -> None:
    """A slow clock sleeps longer in true time."""
    clock = SimulatedClock(Process(A), rate=0.5, wall_offset_seconds=100.0)
    start = trio.current_time()

    await clock.sleep(1.0)
    assert trio.current_time() - start == pytest.approx(2.0)

    with clock.timeout(1.0) as scope:
        await trio.sleep_forever()
    assert scope.cancelled_caught
    assert trio.current_time() - start == pytest.approx(4.0)
    assert clock.wall() - clock.monotonic() == pytest.approx(100.0)


@simulated
async def test_a_sleep_that_ends_during_a_pause_returns_on_resume() -> None:
    """A paused process does nothing, not even wake up."""
    process = Process(A)
    clock = SimulatedClock(process)
    async with trio.open_nursery() as nursery:
        process.pause()
        nursery.start_soon(clock.sleep, 1.0)
        await trio.sleep(10)
        assert nursery.child_tasks

        process.resume()
        await trio.testing.wait_all_tasks_blocked()
        assert not nursery.child_tasks


@simulated
async def test_no_port_survives_a_crash_behind_a_shield() -> None:
    """Ports die before tasks are cancelled: what a shielded section still does is not seen by the world."""
    async with world() as here:
        process = here.processes[B]
        services = here.services(B)

        async def stubborn() -> None:
            with trio.CancelScope(shield=True):
                await trio.sleep(1)
                await services.call(A, Ping(1), 1.0)

        process.crash()
        with pytest.raises(CrashedError):
            await stubborn()
        assert here.echo.seen == []


@simulated
async def test_a_cancelled_timer_never_fires() -> None:
    """The others do, in order of their times."""
    fired: list[str] = []
    timeline = Timeline()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(timeline.run)
        timeline.schedule(1.0, lambda: fired.append("late"))
        timeline.schedule(0.5, lambda: fired.append("early"))
        timeline.schedule(0.7, lambda: fired.append("cancelled")).cancel()
        await trio.sleep(2)
        nursery.cancel_scope.cancel()

    assert fired == ["early", "late"]
