"""Clauses about cancelled callers: each operation is cancelled at every one of its awaits in turn."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from virtuallog.contract.errors import RetryableError, SealedError
from virtuallog.contract.types import LogletOffset, Sealed
from virtuallog.testing.checker.expectations import entries, expect, expect_error
from virtuallog.testing.clauses.cancel_points import cancel_at
from virtuallog.testing.clauses.fixture import Client, LogletFixture, open_clients

SUSPENSIONS_MAX: Final = 60
"""Limit of suspensions. Operations that wait for a slow network suspend without end; only the first
awaits differ."""


async def _cancelled(suspension: int, operation: Callable[[], Awaitable[object]]) -> bool:
    """Cancel the operation at an await; False if it has no await of this number."""
    try:
        return await cancel_at(suspension, operation)
    except RetryableError:
        return True


async def a_cancelled_append_may_be_offered_again(fixture: LogletFixture) -> None:
    """A batch cancelled at any await is in the log or not; offered again it is there once, and the
    session goes on."""
    for suspension in range(SUSPENSIONS_MAX):
        writer, other = await open_clients(fixture, 2)
        await writer.append(b"before")
        batch = writer.batch(b"maybe")
        reached = await _cancelled(suspension, lambda: writer.loglet.append(batch, opens=False))  # noqa: B023
        await other.append(b"from another")
        await writer.offer(batch)
        await writer.append(b"after")
        found = list(entries(await other.read_all(0, (await other.tail()).tail)).values())
        where = f"an append was cancelled at await {suspension}"
        expect(sorted(found) == [b"after", b"before", b"from another", b"maybe"], f"{where}, the log holds {found}")
        expect(found.index(b"before") < found.index(b"maybe") < found.index(b"after"), f"{where}, the order is {found}")
        if not reached:
            return


async def a_cancelled_opening_append_may_be_offered_again(fixture: LogletFixture) -> None:
    """The same for the first batch of a session."""
    for suspension in range(SUSPENSIONS_MAX):
        writer, other = await open_clients(fixture, 2)
        batch = writer.batch(b"maybe")
        reached = await _cancelled(suspension, lambda: writer.loglet.append(batch, opens=True))  # noqa: B023
        await writer.offer(batch)
        await writer.append(b"after")
        found = list(entries(await other.read_all(0, (await other.tail()).tail)).values())
        expect(found == [b"maybe", b"after"], f"an append was cancelled at await {suspension}, the log holds {found}")
        if not reached:
            return


async def cancelled_questions_leave_the_loglet_usable(fixture: LogletFixture) -> None:
    """Cancelling a tail check, a wait or a read changes nothing: the same question is answered next time."""
    writer, reader = await open_clients(fixture, 2)
    await writer.append(b"a")
    stop = LogletOffset((await reader.tail()).tail)
    questions: list[Callable[[], Awaitable[object]]] = [
        reader.loglet.check_tail,
        lambda: reader.loglet.wait_tail(LogletOffset(0)),
        lambda: reader.loglet.wait_tail(stop),
        lambda: reader.loglet.read(LogletOffset(0), stop, 1000),
    ]
    for question in questions:
        async for suspension in _until_unreached(question):
            tail = await reader.tail()
            expect(tail.tail == stop, f"a question was cancelled at await {suspension}, the tail is {tail}")
    places = await writer.append(b"b")
    found = entries(await reader.read_all(0, (await reader.tail()).tail))
    expect(list(found.values()) == [b"a", b"b"], f"after cancelled questions and an append at {places}: {found}")


async def a_cancelled_trim_trims_or_does_not(fixture: LogletFixture) -> None:
    """Cancelling a trim leaves everything at and above its point intact, and a later trim answers as ever."""
    writer, reader = await open_clients(fixture, 2)
    places = [(await writer.append(b"%d" % number))[0] for number in range(3)]
    async for suspension in _until_unreached(lambda: writer.loglet.prefix_trim(LogletOffset(places[1]))):
        found = entries(await reader.read_all(places[1], (await reader.tail()).tail))
        expect(list(found) == places[1:], f"a trim was cancelled at await {suspension}, above it there is {found}")
    expect(await reader.prefix_trim(0) == places[1], "a trim that had returned was forgotten")


async def a_cancelled_seal_can_be_finished(fixture: LogletFixture) -> None:
    """Cancelling a seal leaves a loglet that any client can seal: nothing acknowledged is lost,
    nothing more accepted."""
    for suspension in range(SUSPENSIONS_MAX):
        first, second = await open_clients(fixture, 2)
        places = await first.append(b"acknowledged")
        reached = await _cancelled(suspension, first.loglet.seal)
        await second.seal()
        await _expect_sealed(second, places[0], f"a seal was cancelled at await {suspension}")
        if not reached:
            return


async def _expect_sealed(client: Client, acknowledged: int, where: str) -> None:
    tail = await client.tail()
    expect(isinstance(tail, Sealed), f"{where} and then done, the tail is {tail}")
    expect(acknowledged in entries(await client.read_all(0, tail.tail)), f"{where}: lost place {acknowledged}")
    await expect_error(SealedError, client.append(b"late"), f"{where} and then done: an append")


async def _until_unreached(operation: Callable[[], Awaitable[object]]) -> AsyncIterator[int]:
    """Cancel the operation at await 0, 1, 2, ... until it has no more; yields after each."""
    for suspension in range(SUSPENSIONS_MAX):
        reached = await _cancelled(suspension, operation)
        yield suspension
        if not reached:
            return


CLAUSES = (
    a_cancelled_append_may_be_offered_again,
    a_cancelled_opening_append_may_be_offered_again,
    cancelled_questions_leave_the_loglet_usable,
    a_cancelled_trim_trims_or_does_not,
    a_cancelled_seal_can_be_finished,
)
