"""Random clients, crashes, failing disks, membership changes and a bad network keep one register."""

from __future__ import annotations

import random

import pytest
import trio

from tests.metastore.world import FIVE, THREE, World, world
from virtuallog.contract.errors import ChainConflictError, UnavailableError
from virtuallog.contract.metastore import MetaStore
from virtuallog.testing.checker.actions import RegisterGet, RegisterPut
from virtuallog.testing.checker.history import History, Operation
from virtuallog.testing.checker.recorders import RecordedMetaStore
from virtuallog.testing.checker.register_checks import check_register
from virtuallog.testing.sim.network import LinkQuality
from virtuallog_metastore.core.acceptor import Acceptor
from virtuallog_metastore.messages import Accept, Learn
from virtuallog_simulation.world import scheduler

BAD = LinkQuality(
    delay_seconds=0.002, tail_probability=0.05, tail_seconds=0.3, loss=0.1, duplicate=0.1, reorder=0.2, refuse=0.5
)


@pytest.mark.parametrize("seed", range(6))
def test_register_survives_everything(seed: int) -> None:
    """Each version has at most one value, reads see earlier puts, and afterwards all can go on."""
    history = scheduler.run(seed, lambda: storm(seed))

    check_register(history)
    assert sum(put.returned for put in history.operations(RegisterPut)) >= 3, "the storm let hardly anything through"


def test_same_seed_same_history() -> None:
    """A seed gives the same history, so that a failure can be replayed."""
    assert scheduler.run(3, lambda: storm(3)).events == scheduler.run(3, lambda: storm(3)).events


async def storm(seed: int) -> History:
    source, history = random.Random(seed), History()
    async with world(seed) as cluster:
        await cluster.start(FIVE)
        cluster.network.set_quality(BAD)
        for node in FIVE:
            cluster.disk(node).write_seconds = 0.003
        if seed % 2:
            keep_slots_open(cluster, random.Random(source.random()))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(crash_and_restart, cluster, source, nursery.cancel_scope)
            for number in range(5):
                client = RecordedMetaStore(cluster.client(*THREE), history, f"{number}")
                nursery.start_soon(write_and_read, cluster, client, random.Random(f"{seed} {number}"))
        cluster.heal()
        cluster.network.set_quality(LinkQuality())
        await quiet_end(cluster, history)
    return history


def keep_slots_open(cluster: World, source: random.Random) -> None:
    """Drop nearly all decisions and most votes, so that slots stay half-accepted for long.

    Promises made before a crash matter after it then.
    """
    share = {Learn: 0.8, Accept: 0.5}
    cluster.lost = lambda node, request: source.random() < share.get(type(request), 0.0)


async def write_and_read(cluster: World, client: MetaStore, source: random.Random) -> None:
    while True:
        await cluster.sleep(source.random() * 0.5)
        try:
            version, _ = await client.get()
            if source.random() < 0.7:
                await put_until_settled(client, version, source)
        except (UnavailableError, ChainConflictError):
            continue


async def put_until_settled(client: MetaStore, version: int, source: random.Random) -> None:
    """Put until settled; at times with a change of members, with common bytes, or given up."""
    attempt = source.getrandbits(63)
    value = b"same" if source.random() < 0.3 else b"%x" % attempt
    members = sorted(source.sample(FIVE, source.choice([3, 3, 5]))) if source.random() < 0.4 else None
    for _ in range(source.randrange(1, 4)):
        try:
            await client.put(value, version, attempt, members)
        except UnavailableError:
            continue
        return


async def crash_and_restart(cluster: World, source: random.Random, until: trio.CancelScope) -> None:
    """Keep up to two of five nodes down; some die because their disk fails, within a write or between."""
    for _ in range(20):
        await cluster.sleep(source.random() * 0.5)
        nodes = source.sample(FIVE, source.choice([1, 1, 2]))
        for node in nodes:
            if source.random() < 0.3:
                cluster.disk(node).fail_write(after=source.randrange(3))
        await cluster.sleep(source.random() * 0.5)
        cluster.crash(*nodes)
        await cluster.sleep(source.choice([0.0, 2.0]) * source.random())
        for node in nodes:
            cluster.disk(node).mend()
        await cluster.start(nodes)
    until.cancel()


async def quiet_end(cluster: World, history: History) -> None:
    """Check without faults that writing and reading work, and that no two acceptors contradict each
    other."""
    writer, reader = (RecordedMetaStore(cluster.client(*THREE), history, who) for who in ("writer", "reader"))
    won = 0
    for attempt in range(10):
        version, _ = await writer.get()
        try:
            await writer.put(b"quiet", version, 1 << 40 | attempt)
        except ChainConflictError:
            continue  # the get had not met this node: a vote from the faulty time was finished first
        assert await reader.get() == (version + 1, b"quiet")
        won += 1
    assert won >= 9, "one slot at most was half-accepted when the storm ended"
    decided: dict[int, Acceptor] = {}
    for node in FIVE:
        acceptor = await cluster.living_acceptor(node)
        other = decided.setdefault(acceptor.known, acceptor)
        assert acceptor.decision == other.decision


def history_of(*operations: Operation) -> History:
    history = History()
    for operation in sorted(operations, key=lambda operation: operation.invoked):
        history.add(operation)
    return history


def put(
    started: int, ended: int, expected_version: int, attempt: int, *, won: bool = False, found: int | None = None
) -> Operation:
    """Make a put; its outcome is unknown unless it won or found another version."""
    version = expected_version + 1
    action = RegisterPut(version, b"%d" % attempt, attempt)
    error = None if found is None else ChainConflictError(expected_version, found)
    return Operation(0, "writer", action, started, ended, version, returned=won, failed=error is not None, error=error)


def get(started: int, ended: int, version: int, value: bytes, client: int = 1) -> Operation:
    return Operation(0, f"{client}", RegisterGet(), started, ended, (version, value), returned=True)


@pytest.mark.parametrize(
    ("broken", "history"),
    [
        ("and so did", history_of(put(1, 2, 0, 7, won=True), put(3, 4, 0, 8, won=True))),
        ("won and that it lost", history_of(put(1, 2, 0, 7, won=True), put(3, 4, 0, 7, found=1))),
        ("two values", history_of(put(1, 2, 0, 7, won=True), get(3, 4, 1, b"8"))),
        ("only lost puts", history_of(put(1, 2, 0, 7, found=1), get(3, 4, 1, b"7"))),
        ("or no client", history_of(get(3, 4, 1, b"7"))),
        ("when 1 was known", history_of(put(1, 2, 0, 7, won=True), get(3, 4, 0, b""))),
        ("when 2 was known", history_of(get(3, 4, 1, b"7"), put(1, 2, 0, 7, won=True), put(1, 2, 1, 8, won=True))),
        ("client 1 saw", history_of(put(1, 9, 0, 7, won=True), get(2, 4, 1, b"7"), get(3, 5, 0, b""))),
        ("lost against", history_of(put(1, 2, 5, 7, found=5))),
    ],
)
def test_checker_sees(broken: str, history: History) -> None:
    """The checker finds each kind of contradiction."""
    with pytest.raises(AssertionError, match=broken):
        check_register(history)


def test_checker_lets_a_register_pass() -> None:
    """The checker accepts overlapping calls, a put in doubt that was decided, and a repeated attempt."""
    check_register(
        history_of(
            Operation(0, "writer", RegisterPut(1, b"a", 1), 1),
            get(2, 9, 0, b"", client=2),
            get(3, 4, 1, b"a"),
            put(5, 8, 1, 2, won=True),
            put(6, 7, 1, 3, found=2),
            put(10, 11, 1, 2, won=True),
        )
    )
