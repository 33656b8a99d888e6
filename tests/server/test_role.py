"""What closes a role, and what ends its node."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
import trio
import trio.testing

from server.role import Role
from tests.rpc.shop import Wait, Waited, interfaces
from virtuallog.errors import CorruptionError, OverloadedError, StorageError, UnavailableError
from virtuallog.ports import Done, Handlers, NodeEnvironment
from virtuallog.types import NodeId


def environment() -> NodeEnvironment:
    """For a role that uses none of its ports."""
    none = cast(Any, None)
    return NodeEnvironment(
        services=none, clock=none, random=none, nursery=none, node=NodeId(1), boot=1, storage=none, key_values=none,
        segment_config=none, fail=none,
    )  # fmt: skip


def role(then: Callable[[NodeEnvironment], Awaitable[None]]) -> Role:
    async def serve(environment: NodeEnvironment) -> Handlers:
        environment.nursery.start_soon(then, environment)
        return {}

    return Role("fragile", (), serve)


async def test_a_failed_assertion_ends_the_node_with_its_traceback() -> None:
    """Whoever had called the core goes on, the role's tasks are cancelled, and `run` raises what was found."""
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
    """Its callers are told, and so is whoever asks for the reason."""

    async def hit_a_bad_block(environment: NodeEnvironment) -> None:
        environment.fail(CorruptionError("a bad block"))
        environment.fail(StorageError("what follows from it"))

    fragile = role(hit_a_bad_block)
    await fragile.run(environment())

    assert fragile.failure is fragile.cause
    assert isinstance(fragile.cause, CorruptionError)
    assert str(fragile.cause) == "a bad block"


async def test_the_reason_is_kept_as_it_was() -> None:
    """Callers must not take it for an answer of unknown outcome; who looks for bugs must see what it was."""

    async def give_up(environment: NodeEnvironment) -> None:
        await trio.lowlevel.checkpoint()
        raise UnavailableError("no answer")

    fragile = role(give_up)
    await fragile.run(environment())

    assert isinstance(fragile.failure, StorageError)
    assert isinstance(fragile.cause, UnavailableError)
    assert str(fragile.failure) == str(fragile.cause) == "no answer"


async def test_calls_in_progress_are_answered_when_the_role_is_closed() -> None:
    """Their outcome is unknown, and so their callers are told, once; a connection would count their bytes for ever."""
    waiting: dict[int, Done] = {}

    async def serve(environment: NodeEnvironment) -> Handlers:
        return {Wait: lambda request, done: waiting.__setitem__(request.token, done)}

    fragile, outcomes = Role("fragile", interfaces(), serve), dict[int, list[Any]]()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fragile.run, environment())
        await trio.testing.wait_all_tasks_blocked()
        for token in range(3):
            fragile.handlers[Wait](Wait(token), outcomes.setdefault(token, []).append)
        waiting[0](Waited(0))
        fragile.fail(CorruptionError("a bad block"))
        assert outcomes == {0: [Waited(0)], 1: [], 2: []}  # whoever fails is in the middle of something

    waiting[1](Waited(1))
    assert outcomes[0] == [Waited(0)]
    for token in (1, 2):
        (outcome,) = outcomes[token]
        assert isinstance(outcome, UnavailableError)
        assert "fragile was closed" in str(outcome)


async def test_a_handler_that_raises_has_answered() -> None:
    """Whoever called it tells the caller; the role has nothing more to say when it is closed."""
    outcomes: list[Any] = []

    async def serve(environment: NodeEnvironment) -> Handlers:
        def refuse(request: Any, done: Done) -> None:
            raise OverloadedError("no room")

        return {Wait: refuse}

    fragile = Role("fragile", interfaces(), serve)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fragile.run, environment())
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(OverloadedError):
            fragile.handlers[Wait](Wait(1), outcomes.append)
        fragile.fail(CorruptionError("a bad block"))
    assert outcomes == []
