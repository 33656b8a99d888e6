"""The driver of a sequencer, over services that only keep what is posted."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import attrs
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.loglets.native.core.log_server_bench import SEGMENT, batch_of, config_of, stored_of
from virtuallog.contract.ports import NodeEnvironment, Request
from virtuallog.contract.types import NodeId
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.process import Process
from virtuallog_loglets.native.core.sequencer import Sequencer
from virtuallog_loglets.native.drivers.sequencer_service import SequencerDriver
from virtuallog_loglets.native.messages import NativeAppend, NativeAppended
from virtuallog_simulation.world.role import no_segments

S1, S2, S3 = NodeId(1), NodeId(2), NodeId(3)


@attrs.define
class Post:
    """A request that waits for its answer."""

    node: NodeId
    request: Request[Any]
    done: Callable[[Any], None]


@attrs.define
class Postbox:
    """Services that keep what is posted."""

    posts: list[Post] = attrs.field(factory=list)

    def post(self, node: NodeId, request: Request[Any], done: Callable[[Any], None], timeout_seconds: float) -> None:
        self.posts.append(Post(node, request, done))

    async def call(self, node: NodeId, request: Request[Any], timeout_seconds: float) -> Any:
        raise AssertionError("a sequencer posts")

    def answer(self, outcome: Any, answers: int) -> None:
        """Let the first servers answer, and forget the others."""
        posts, self.posts = self.posts, []
        for post in posts[:answers]:
            post.done(outcome)


class StepCounter(trio.abc.Instrument):
    """Counts the steps of one task."""

    def __init__(self, task: trio.lowlevel.Task) -> None:
        self.steps = 0
        self._task = task

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.steps += task is self._task


async def _no_disk(_: str) -> Any:
    raise AssertionError("a sequencer has no disk")


def environment(services: Postbox, nursery: trio.Nursery) -> NodeEnvironment:
    return NodeEnvironment(
        services=services,
        clock=SimulatedClock(Process(S1)),
        random=random.Random(1),
        nursery=nursery,
        node=S1,
        boot=1,
        storage=_no_disk,
        key_values=_no_disk,
        segment_config=no_segments,
        fail=lambda error: None,
    )


async def test_a_lone_batch_leaves_within_its_call_and_leaves_the_task_alone(autojump_clock: MockClock) -> None:
    """One message goes to all servers, to the own one last. The task would find nothing to do."""
    services, answers = Postbox(), list[Any]()
    async with trio.open_nursery() as nursery:
        driver = SequencerDriver(Sequencer(SEGMENT, config_of(3)), environment(services, nursery))
        nursery.start_soon(driver.run)
        await wait_all_tasks_blocked()
        (task,) = nursery.child_tasks
        driver.append(NativeAppend(segment=SEGMENT, batch=batch_of(1, 0).blob, opens=True), answers.append)
        assert services.posts == [], "how many come is not known yet"
        await wait_all_tasks_blocked()
        services.answer(stored_of(1), answers=3)

        counter = StepCounter(task)
        trio.lowlevel.add_instrument(counter)
        driver.append(NativeAppend(segment=SEGMENT, batch=batch_of(1, 1).blob, opens=False), answers.append)
        assert [post.node for post in services.posts] == [S2, S3, S1]
        assert len({id(post.request) for post in services.posts}) == 1
        services.answer(stored_of(2), answers=2)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    assert answers == [NativeAppended(first=0, known_tail=1), NativeAppended(first=1, known_tail=2)]
    assert counter.steps == 1, "it is only cancelled"
