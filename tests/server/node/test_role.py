"""The end of a role, and of its node."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, cast

import pytest
import trio
import trio.testing

from tests.virtuallog.rpc.shop import Wait, Waited, interfaces
from tests.virtuallog.rpc.world import TrioClock
from virtuallog.contract.errors import (
    CorruptionError,
    DiskFullError,
    OverloadedError,
    SealedError,
    StorageError,
    UnavailableError,
    VirtualLogError,
)
from virtuallog.contract.ports import Done, Handlers, NodeEnvironment
from virtuallog.contract.types import NodeId
from virtuallog_server.node.role import NodeRole


def environment() -> NodeEnvironment:
    """For a role that uses none of its ports."""
    none = cast(Any, None)
    return NodeEnvironment(
        services=none, clock=TrioClock(), random=none, nursery=none, node=NodeId(1), boot=1, storage=none, key_values=none,
        segment_config=none, fail=none,
    )  # fmt: skip


def role(then: Callable[[NodeEnvironment], Awaitable[None]]) -> NodeRole:
    async def serve(environment: NodeEnvironment) -> Handlers:
        environment.nursery.start_soon(then, environment)
        return {}

    return NodeRole("fragile", (), serve)


async def test_a_failed_assertion_ends_the_node_with_its_traceback() -> None:
    """The caller of the core continues, the role's tasks are cancelled, and `run` raises the error."""
    went_on: list[bool] = []

    async def break_an_invariant(environment: NodeEnvironment) -> None:
        try:
            assert not environment.boot, "the tail went back"
        except AssertionError as error:
            environment.fail(error)
        went_on.append(True)

    fragile = role(break_an_invariant)
    with pytest.raises(AssertionError, match="the tail went back") as raised:
        await fragile.run(environment())

    assert raised.traceback[-1].name == "break_an_invariant"
    assert went_on
    assert fragile.failure is None
    assert not fragile.is_open


async def test_an_error_of_a_disk_closes_the_role_alone() -> None:
    """Callers get an error, and the status has the reason."""

    async def hit_a_bad_block(environment: NodeEnvironment) -> None:
        environment.fail(CorruptionError("a bad block"))
        environment.fail(StorageError("what follows from it"))

    fragile = role(hit_a_bad_block)
    await fragile.run(environment())

    assert fragile.failure is fragile.cause
    assert isinstance(fragile.cause, CorruptionError)
    assert str(fragile.cause) == "a bad block"


async def test_the_reason_is_kept_as_it_was() -> None:
    """Callers must not take it for an answer of theirs; who looks for bugs must see what it was."""

    async def give_up(environment: NodeEnvironment) -> None:
        await trio.lowlevel.checkpoint()
        raise SealedError("no more")

    fragile = role(give_up)
    await fragile.run(environment())

    assert isinstance(fragile.failure, StorageError)
    assert isinstance(fragile.cause, SealedError)
    assert str(fragile.failure) == str(fragile.cause) == "no more"


async def test_calls_in_progress_are_answered_when_the_role_is_closed() -> None:
    """Their outcome is unknown, and callers get that, once; a connection would count their bytes for ever."""
    waiting: dict[int, Done] = {}

    async def serve(environment: NodeEnvironment) -> Handlers:
        return {Wait: lambda request, done: waiting.__setitem__(request.token, done)}

    fragile, outcomes = NodeRole("fragile", interfaces(), serve), dict[int, list[Any]]()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fragile.run, environment())
        await trio.testing.wait_all_tasks_blocked()
        for token in range(3):
            fragile.handlers[Wait](Wait(token), outcomes.setdefault(token, []).append)
        waiting[0](Waited(0))
        fragile.fail(CorruptionError("a bad block"))
        assert outcomes == {0: [Waited(0)], 1: [], 2: []}  # the failing task is in the middle of something

    waiting[1](Waited(1))
    assert outcomes[0] == [Waited(0)]
    for token in (1, 2):
        (outcome,) = outcomes[token]
        assert isinstance(outcome, UnavailableError)
        assert "fragile was closed" in str(outcome)


async def test_a_handler_that_raises_has_answered() -> None:
    """The code that called it answers the caller; the role has nothing more to say when it is closed."""
    outcomes: list[Any] = []

    async def serve(environment: NodeEnvironment) -> Handlers:
        def refuse(request: Any, done: Done) -> None:
            raise OverloadedError("no room")

        return {Wait: refuse}

    fragile = NodeRole("fragile", interfaces(), serve)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fragile.run, environment())
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(OverloadedError):
            fragile.handlers[Wait](Wait(1), outcomes.append)
        fragile.fail(CorruptionError("a bad block"))
    assert outcomes == []


async def test_a_retryable_error_closes_a_role_for_a_moment(autojump_clock: trio.testing.MockClock) -> None:
    """For an error of a task and for one passed to `fail`: its tasks end, its callers get an error, and after a pause that grows
    with each setback it is opened anew. It is never closed for good, and other roles do not notice.
    """
    begun: list[float] = []
    outcomes: list[Any] = []

    async def serve(environment: NodeEnvironment) -> Handlers:
        begun.append(environment.clock.monotonic())
        if len(begun) == 2:
            raise OverloadedError("opened too early")
        if len(begun) == 3:
            environment.nursery.start_soon(_raise, DiskFullError("no room"))
        return {Wait: lambda request, done: None}

    fragile = NodeRole("fragile", interfaces(), serve)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fragile.run, environment())
        await fragile.settled.wait()
        fragile.handlers[Wait](Wait(1), outcomes.append)
        fragile.fail(UnavailableError("no answer"))
        await TrioClock().sleep(0.1)
        fragile.handlers[Wait](Wait(2), outcomes.append)
        await TrioClock().sleep(10)
        assert fragile.is_open
        nursery.cancel_scope.cancel()

    assert [type(outcome) for outcome in outcomes] == [UnavailableError, UnavailableError]
    assert begun == pytest.approx([0, 0.5, 1.5, 3.5])
    assert [type(error) for error in fragile.setbacks.latest] == [UnavailableError, OverloadedError, DiskFullError]
    assert fragile.failure is None and fragile.cause is None


async def test_a_role_that_begins_anew_may_be_closed_for_good(autojump_clock: trio.testing.MockClock) -> None:
    """By what its own task meets beside a retryable error, or by others while it pauses."""

    async def both(environment: NodeEnvironment) -> None:
        environment.nursery.start_soon(_raise, UnavailableError("no answer"))
        environment.nursery.start_soon(_raise, CorruptionError("a bad block"))

    fragile, other = role(both), role(partial(_fail, UnavailableError("no answer")))
    await fragile.run(environment())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(other.run, environment())
        await TrioClock().sleep(0.1)
        other.fail(StorageError("the directory is somebody else's"))

    assert isinstance(fragile.cause, CorruptionError)
    assert isinstance(other.cause, StorageError)


async def _raise(error: VirtualLogError) -> None:
    raise error


async def _fail(error: VirtualLogError, environment: NodeEnvironment) -> None:
    environment.fail(error)
