"""Writes down what many clients of one MetaStore ask and hear, and judges it: was it a versioned register?

Versions are a witness: they say in which order the puts took effect. What remains to check is that all agree on them,
that no lost put is in the register, and that the order is possible in time. Time is the number of the event.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import attrs

from virtuallog.api import MetaStore
from virtuallog.errors import ChainConflictError
from virtuallog.testing.expect import expect
from virtuallog.types import NodeId


@attrs.define(eq=False, kw_only=True)
class Get:
    """A `get` that returned."""

    client: int
    started: int
    ended: int
    version: int
    value: bytes


@attrs.define(eq=False, kw_only=True)
class Put:
    """One call of `put`. An attempt may be put several times."""

    started: int
    ended: float = math.inf
    value: bytes
    expected_version: int
    attempt: int
    won: bool = False
    found: int | None = None
    """A version that the put heard of when it lost. Neither won nor found: the outcome is unknown."""

    @property
    def version(self) -> int:
        return self.expected_version + 1

    def __str__(self) -> str:
        return f"attempt {self.attempt:x} for version {self.version}"


@attrs.define
class RegisterHistory:
    """What happened. Fill it through `RecordedMetaStore`s."""

    gets: list[Get] = attrs.field(factory=list)
    """In the order in which they returned."""
    puts: list[Put] = attrs.field(factory=list)
    _now: int = 0
    _clients: int = 0

    def tick(self) -> int:
        self._now += 1
        return self._now

    def recorded(self, store: MetaStore) -> RecordedMetaStore:
        """A client whose calls go into this history."""
        self._clients += 1
        return RecordedMetaStore(store, self, self._clients)


@attrs.define
class RecordedMetaStore:
    """Implements `virtuallog.api.MetaStore`."""

    _store: MetaStore
    _history: RegisterHistory
    _client: int

    async def get(self) -> tuple[int, bytes]:
        history = self._history
        started = history.tick()
        version, value = await self._store.get()
        ended = history.tick()
        history.gets.append(Get(client=self._client, started=started, ended=ended, version=version, value=value))
        return version, value

    async def put(
        self, value: bytes, expected_version: int, attempt: int, members: Sequence[NodeId] | None = None
    ) -> int:
        history = self._history
        put = Put(started=history.tick(), value=value, expected_version=expected_version, attempt=attempt)
        history.puts.append(put)
        try:
            version = await self._store.put(value, expected_version, attempt, members)
        except ChainConflictError as error:
            put.found, put.ended = error.found, history.tick()
            raise
        put.won, put.ended = True, history.tick()
        expect(version == put.version, f"{put} was told that it is version {version}")
        return version


def check_register(history: RegisterHistory) -> None:
    """Raise an AssertionError that names the first contradiction, if this was not a register."""
    _check_winners(history.puts)
    _check_values(history)
    _check_time(history)
    _check_clients(history.gets)


def _check_winners(puts: Iterable[Put]) -> None:
    """One winner per version; an attempt is told one thing only, however often it is put."""
    winners: dict[int, int] = {}
    for put in puts:
        if put.won:
            winner = winners.setdefault(put.version, put.attempt)
            expect(winner == put.attempt, f"{put} won, and so did {winner:x}")
    for put in puts:
        if put.found is not None:
            expect(winners.get(put.version) != put.attempt, f"{put} was told that it won and that it lost")
            expect(put.found >= put.version, f"{put} lost against version {put.found}")


def _check_values(history: RegisterHistory) -> None:
    """All agree on the value of a version, and it is one that somebody offered and was not told to have lost."""
    values = {0: b""} | {put.version: put.value for put in history.puts if put.won}
    for get in history.gets:
        known = values.setdefault(get.version, get.value)
        expect(known == get.value, f"version {get.version} has two values: {known[:40]!r} and {get.value[:40]!r}")
        offers = [put for put in history.puts if put.version == get.version and put.value == get.value]
        lost = {put.attempt for put in offers if put.found is not None}
        alive = [put for put in offers if put.attempt not in lost and put.started < get.ended]
        expect(alive or get.version == 0, f"version {get.version} has a value that only lost puts offered, or nobody")


def _check_time(history: RegisterHistory) -> None:
    """Nothing returns an older version than what was known to anybody before it was called."""
    seen: list[tuple[float, int]] = [(get.ended, get.version) for get in history.gets]
    for put in history.puts:
        if put.won:
            seen.append((put.ended, put.version))
        elif put.found is not None:
            seen.append((put.ended, put.found))
    first_offer: dict[int, int] = {}
    for put in history.puts:
        first_offer.setdefault(put.attempt, put.started)
    calls = [(get.started, get.version, f"get by client {get.client}") for get in history.gets]
    calls += [(first_offer[put.attempt], put.version, str(put)) for put in history.puts if put.won]
    for started, version, what in calls:
        before = max((known for ended, known in seen if ended < started), default=0)
        expect(version >= before, f"{what} returned version {version} when {before} was known")


def _check_clients(gets: Iterable[Get]) -> None:
    """What one client sees never goes back, not even between calls that overlap."""
    newest: dict[int, int] = {}
    for get in gets:
        before = newest.get(get.client, 0)
        expect(get.version >= before, f"client {get.client} saw version {before}, then {get.version}")
        newest[get.client] = get.version
