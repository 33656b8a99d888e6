"""A log that the former version has accepted, and could not replay: a new replica gets past it, in bounded memory."""

from __future__ import annotations

import string
import tracemalloc
from itertools import islice, product

from trio.testing import MockClock

from tests.database.engines.world import Replicas, Running
from tests.database.replica.test_database import databases, of
from virtuallog_database.engines.core.enabled_engines import BOUNDS
from virtuallog_database.engines.rollout import RolloutEngine
from virtuallog_database.replica.database import Database
from virtuallog_database.tree import command_codec
from virtuallog_database.tree.commands import Command, Create, Delete, Multi, Operation, Origin, SetData
from virtuallog_database.tree.results import Error

MIB = 1 << 20
REPLAY_BYTES_MAX = 64 * MIB
"""Limits of a replica that replays the poison. The former version took 10 GB for the first one, and
the better part of an hour for the second."""


async def poisoned(r: Replicas, *operations: Operation) -> Running:
    """The log has these, as the former version has proposed and applied them: no switch is in it."""
    one = await r.start(1)
    for operation in operations:
        assert (await of(one).proposals.execute(operation)).error is Error.OK
    return one


async def replayed(r: Replicas, number: int) -> Database:
    """A new replica, once it has applied all there is, in bounded memory."""
    tracemalloc.start()
    two = of(await r.start(number))
    await two.sync()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < REPLAY_BYTES_MAX
    return two


async def test_ten_thousand_creates_below_a_large_parent_are_replayed(autojump_clock: MockClock) -> None:
    """The request of 340 KB that each replica was killed for. Afterwards the bounds are switched on, and the same request costs no more."""
    poison = Multi(tuple(Create(f"/p/{number}", b"") for number in range(10_000)))
    assert len(command_codec.encode(Command(poison, Origin(), 0))) < 350_000
    async with databases() as r:
        one = await poisoned(r, Create("/p", b"x" * 1_000_000), poison)
        assert (await replayed(r, 2)).tree.exists("/p").children == 10_000
        rollout = one.replica.stack.find(RolloutEngine)
        assert rollout is not None
        await rollout.enable(BOUNDS)
        assert (
            await of(one).proposals.execute(Multi(tuple(Delete(f"/p/{n}") for n in range(10_000))))
        ).error is Error.OK
        assert of(one).tree.meta.is_bounded
        assert (await replayed(r, 3)).tree.exists("/p").children == 0


async def test_writes_below_a_quota_with_a_long_text_are_replayed(autojump_clock: MockClock) -> None:
    """A text is parsed once, where the former version parsed and rendered 1 MB for each write."""
    names = ("".join(each) for n in range(1, 5) for each in product(string.ascii_letters, repeat=n))
    text = b"count=0,bytes=0=;" + b";".join(f"{name}=1".encode() for name in islice(names, 100_000))
    at = "/zookeeper/quota/q"
    async with databases() as r:
        one = await poisoned(
            r, Create("/q", b""), Create(at, b""), Create(f"{at}/zookeeper_limits", b"countHardLimit=9"),
            Create(f"{at}/zookeeper_stats", text), Multi((SetData("/q", b"1"),) * 500),
        )  # fmt: skip
        two = await replayed(r, 2)
        states = [each.tree.get_data(f"{at}/zookeeper_stats", ()) for each in (of(one), two)]
        assert states[0] == states[1]
        assert len(states[0][0] or b"") > MIB // 2
