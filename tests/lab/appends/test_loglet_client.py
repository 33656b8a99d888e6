"""The smallest client of a loglet: what becomes of its callers when it ends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from tests.loglets.striped.cluster import Stripe, board
from virtuallog.contract.errors import UnavailableError
from virtuallog_lab.experiments.appends.loglet_client import LogletClient


async def test_callers_are_told_when_an_append_of_any_of_them_fails(autojump_clock: trio.abc.Clock) -> None:
    """An error ends the client. Its callers cannot be cancelled, so a measurement that went on waiting for them would stand still for ever,
    with the error untold."""
    async with board() as table:
        loglet = table.client()[1][0]
        loglet.hold("append")
        loglet.meddle = lambda name: setattr(loglet, "dead", UnavailableError("the stripe is away"))
        told = await _calls_while_it_ends(loglet, lambda client: _let_go(loglet, client))

    assert told == ["the client of the loglet has ended"] * 3


async def test_callers_are_told_when_the_client_is_cancelled(autojump_clock: trio.abc.Clock) -> None:
    """Those whose batch is on its way, those who are queued, and those who come too late."""
    async with board() as table:
        loglet = table.client()[1][0]
        loglet.hold("append")
        told = await _calls_while_it_ends(loglet, _do_nothing)

    assert told == ["the client of the loglet has ended"] * 3


async def _do_nothing(client: LogletClient) -> None:
    """Before it is cancelled."""
    await trio.lowlevel.checkpoint()


async def _let_go(loglet: Stripe, client: LogletClient) -> None:
    loglet.let_go("append")
    with pytest.raises(UnavailableError):
        await client.append(b"waits with the others")


async def _calls_while_it_ends(loglet: Stripe, end: Callable[[LogletClient], Awaitable[None]]) -> list[str]:
    """Outcomes of two callers, the first alone in the first batch, and of one that comes when all
    is over."""
    client, told = LogletClient(loglet), list[str]()

    async def call() -> None:
        try:
            await client.append(b"entry")
        except UnavailableError as error:
            told.append(str(error))

    async def run() -> None:
        try:
            await client.run()
        except* UnavailableError:
            pass

    async with trio.open_nursery() as callers:
        async with trio.open_nursery() as running:
            running.start_soon(run)
            for _ in range(2):
                callers.start_soon(call)
                await trio.testing.wait_all_tasks_blocked()
            await end(client)
            running.cancel_scope.cancel()
        callers.start_soon(call)
    return told
