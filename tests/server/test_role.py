"""What closes a role, and what ends its node."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
import trio

from server.role import Role
from virtuallog.errors import CorruptionError, StorageError, UnavailableError
from virtuallog.ports import Handlers, NodeEnvironment
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
