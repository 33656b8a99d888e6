"""Checks with a message. Not assert statements: other projects may run the suites under `python -O`."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from typing import TypeVar

from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.types import PlacedBatch

ErrorT = TypeVar("ErrorT", bound=VirtualLogError)


def expect(condition: object, message: str) -> None:
    """Raise an AssertionError with `message` unless the condition holds."""
    if not condition:
        raise AssertionError(message)


async def expect_error(error_class: type[ErrorT], call: Awaitable[object], what: str) -> ErrorT:
    """Await `call` and return the error of this class that it must raise."""
    try:
        result = await call
    except error_class as error:
        return error
    raise AssertionError(f"{what}: expected {error_class.__name__}, got {result!r}")


def covered(items: Sequence[Placed], start: int, stop: int) -> int:
    """Check that a read result covers a prefix of [start, stop), each place once; return the end of
    the prefix."""
    what = f"read({start}, {stop})"
    starts = [item.start for item in items]
    expect(items, f"{what} returned nothing")
    expect(starts == sorted(starts), f"{what} returned items out of order: they start at {starts}")
    at = start
    for low, high in sorted(part for item in items for part in _parts(item)):
        expect(low <= at, f"{what} has a hole: nothing about [{at}, {low})")
        expect(low == at, f"{what} covers place {low} twice, or begins before its start")
        at = high
    expect(at <= stop, f"{what} goes on to {at}")
    return at


def _parts(item: Placed) -> list[tuple[int, int]]:
    """Return the ranges without holes that an item covers; single places for a batch with a step."""
    if isinstance(item, PlacedBatch) and item.places.step != 1:
        return [(place, place + 1) for place in item.places]
    return [(item.start, item.stop)]


def entries(items: Iterable[Placed]) -> dict[int, bytes]:
    """Return place and payload of every entry in a read result."""
    found: dict[int, bytes] = {}
    for item in items:
        if isinstance(item, PlacedBatch):
            found.update((record.position, record.payload) for record in item.records())
    return found
