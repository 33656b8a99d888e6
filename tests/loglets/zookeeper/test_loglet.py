"""Loglets in a simulated ZooKeeper: trims, large batches, limits, what is lost, what leaves the chain, what explain says."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import attrs
import pytest
import trio

from tests.loglets.zookeeper.interception import Intercepted
from tests.loglets.zookeeper.test_schedules import OTHER, SESSION, batch, held
from tests.loglets.zookeeper.world import CONFIG, SEGMENT, Bench, running_bench
from virtuallog.contract.batch import BATCH_COUNT_MAX, Batch, SessionId
from virtuallog.contract.diagnosis import COMBINED
from virtuallog.contract.errors import (
    CorruptionError,
    OutOfOrderError,
    ReconfigurationNeededError,
    SealedError,
    UnavailableError,
)
from virtuallog.contract.types import Gap, GapKind, LogletOffset, Open, Sealed
from virtuallog.contract.znodes import Delete, Set, Znode
from virtuallog.exactly_once.slot_offsets import SLOT
from virtuallog.testing.checker.expectations import entries
from virtuallog_loglets.zookeeper.core.layout import ZooKeeperLayout
from virtuallog_loglets.zookeeper.core.records import decode_trim_untrusted
from virtuallog_loglets.zookeeper.drivers import trimmer, writer_driver

LAYOUT = ZooKeeperLayout(CONFIG.root, SEGMENT)
ZERO = LogletOffset(0)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with running_bench() as bench:
        yield bench


async def fill(bench: Bench, count: int) -> None:
    writer = bench.client()
    for number in range(count):
        await writer.append(batch(number), opens=number == 0)


def paths(bench: Bench, part: str) -> list[str]:
    return [path for path in bench.zookeeper.tree.paths if path.startswith(part)]


# -- batches ------------------------------------------------------------------------------------------------------------


async def test_batches_that_wait_share_a_slot(bench: Bench, autojump_clock: trio.testing.MockClock) -> None:
    """While one transaction is under way the others wait, and then go together; each gets its own places."""
    writer = bench.client()
    await writer.append(batch(0), opens=True)
    places: dict[int, range] = {}

    async def append(number: int) -> None:
        places[number] = await writer.append(batch(number), opens=False)

    async with trio.open_nursery() as nursery:
        for number in range(1, 9):
            nursery.start_soon(append, number)
            await trio.lowlevel.checkpoint()

    assert places[1] == range(SLOT, SLOT + 1)
    assert [places[number].start for number in range(2, 9)] == list(range(2 * SLOT, 2 * SLOT + 7))
    assert await held(bench.client()) == [b"%d" % number for number in range(9)]


async def test_the_largest_batches_go_in_chunks(bench: Bench, autojump_clock: trio.testing.MockClock) -> None:
    """A bundle too large for one znode is in several, and is deleted with them; a lost chunk is
    damage, and no data."""
    source, writer = random.Random(1), bench.client()
    large = Batch.build(SESSION, 0, [source.randbytes(5 << 20), b"", source.randbytes(1 << 20)])
    many = Batch.build(SESSION, 3, [b""] * BATCH_COUNT_MAX)
    places = [await writer.append(large, opens=True), await writer.append(many, opens=False)]
    items = await writer.read(ZERO, LogletOffset(2 * SLOT), 20 << 20)

    assert entries(items) == dict(zip([*places[0], *places[1]], [*large.payloads, *many.payloads], strict=True))
    chunks = paths(bench, LAYOUT.chunks + "/")
    assert len(chunks) == 7
    await bench.znodes().multi([Set(chunks[3], b"something else")])
    with pytest.raises(CorruptionError):
        await bench.client().read(ZERO, LogletOffset(3), 1)
    await writer.prefix_trim(LogletOffset(2 * SLOT))
    await bench.clock.sleep(1)
    assert not paths(bench, LAYOUT.chunks + "/")
    assert not paths(bench, LAYOUT.batches + "/")


async def test_what_lies_before_a_damaged_chunk_is_read(bench: Bench, autojump_clock: trio.testing.MockClock) -> None:
    """As before any other damage: only a read of the damaged part fails, and the error says where it is."""
    await fill(bench, 2)
    writer = bench.client()
    await writer.append(Batch.build(SESSION, 2, [b"x" * 1_000_000, b"y" * 900_000]), opens=False)
    await bench.znodes().multi([Set(paths(bench, LAYOUT.chunks + "/")[0], b"something else")])

    reader = bench.client()
    assert list(entries(await reader.read(ZERO, LogletOffset(3 * SLOT), 1 << 20)).values()) == [b"0", b"1"]
    with pytest.raises(CorruptionError, match=f"offset {2 * SLOT} is damaged"):
        await reader.read(LogletOffset(2 * SLOT), LogletOffset(3 * SLOT), 1 << 20)


@attrs.define(eq=False)
class TrimmedUnderWay(Intercepted):
    """The first server has no chunks as yet; while a fresh answer is on its way to them, another
    client trims."""

    chunks_asked: int = 0
    trim: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint

    async def read(self, names: Sequence[str], *, fresh: bool = False) -> Sequence[Znode | None]:
        if not names[0].startswith(LAYOUT.chunks):
            return await super().read(names, fresh=fresh)
        self.chunks_asked += 1
        if self.chunks_asked == 1:
            return [None for _ in names]
        await self.trim()
        return await self.znodes.read(names, fresh=fresh)


async def test_a_slot_that_is_trimmed_before_its_chunks_are_read_is_not_lost(
    bench: Bench, autojump_clock: trio.testing.MockClock
) -> None:
    """Slot and chunks are read one after the other. What is gone in between was trimmed, and is no damage."""
    writer = bench.client()
    await writer.append(Batch.build(SESSION, 0, [b"x" * 1_000_000, b"y" * 900_000]), opens=True)
    await writer.append(Batch.build(SESSION, 2, [b"two"]), opens=False)

    async def trim() -> None:
        await writer.prefix_trim(LogletOffset(SLOT))
        await bench.clock.sleep(2)

    reader = bench.client(znodes=TrimmedUnderWay(bench.znodes(), trim=trim))
    assert await reader.read(ZERO, LogletOffset(2 * SLOT), 1 << 20) == [Gap(0, SLOT, GapKind.TRIMMED)]


async def test_two_clients_of_a_session_do_not_part_it(bench: Bench, autojump_clock: trio.testing.MockClock) -> None:
    """The same batches, offered by two clients at once, are in the log once and in order; both get
    the same places."""
    clients, given = [bench.client(), bench.client()], list[list[range]]()

    async def append_all(client: Any) -> None:
        given.append([await client.append(batch(number), opens=number == 0) for number in range(20)])

    async with trio.open_nursery() as nursery:
        for client in clients:
            nursery.start_soon(append_all, client)

    assert given[0] == given[1]
    assert await held(bench.client()) == [b"%d" % number for number in range(20)]


async def test_old_batches_are_forgotten_and_not_placed_anew(
    bench: Bench, autojump_clock: trio.testing.MockClock
) -> None:
    """A batch offered again after very many others, or trimmed before any client knew its place, is
    an error."""
    await fill(bench, 100)
    with pytest.raises(ReconfigurationNeededError, match="forgotten"):
        await bench.client().append(batch(3), opens=False)
    assert (await bench.client().append(batch(99), opens=False)).start == 99 * SLOT
    await bench.client().prefix_trim(LogletOffset(100 * SLOT))
    await bench.clock.sleep(1)
    with pytest.raises(ReconfigurationNeededError, match="forgotten"):
        await bench.client().append(batch(99), opens=False)
    assert (await bench.client().append(batch(100), opens=False)).start == 100 * SLOT


async def test_too_many_sessions_want_a_successor(
    bench: Bench, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No session is forgotten to make room; the existing ones go on."""
    monkeypatch.setattr(writer_driver, "SESSIONS_MAX", 3)
    client = bench.client()
    for number in range(3):
        await client.append(batch(0, SessionId(bytes([number]) * 16)), opens=True)
    with pytest.raises(ReconfigurationNeededError, match="sessions"):
        await client.append(batch(0, OTHER), opens=True)
    await client.append(batch(1, SessionId(bytes([2]) * 16)), opens=False)


async def test_a_session_nobody_knows_must_open(bench: Bench, autojump_clock: trio.testing.MockClock) -> None:
    """An unknown session must open, also in a loglet that no client has created: a request does not create it."""
    with pytest.raises(OutOfOrderError):
        await bench.client().append(batch(7), opens=False)
    assert not paths(bench, LAYOUT.base)


# -- tails --------------------------------------------------------------------------------------------------------------


async def test_questions_do_not_make_a_loglet(bench: Bench, autojump_clock: trio.testing.MockClock) -> None:
    """It is empty and open; what is not written cannot be read."""
    client = bench.client()
    assert await client.check_tail() == Open(0)
    assert await client.wait_tail(ZERO) == Open(0)
    assert await client.prefix_trim(LogletOffset(5)) == 0
    with pytest.raises(UnavailableError):
        await client.read(ZERO, LogletOffset(1), 1)
    assert not paths(bench, CONFIG.root)


async def test_those_who_ask_together_share_the_answer(bench: Bench, autojump_clock: trio.testing.MockClock) -> None:
    """A hundred tail checks at once cost two transactions: one for the first, one for all who came meanwhile."""
    await fill(bench, 1)
    znodes = bench.znodes()
    client, told = bench.client(znodes=znodes), list[object]()

    async def ask() -> None:
        told.append(await client.check_tail())

    done: list[str] = []
    bench.zookeeper.watch = lambda what, operations: done.append(what)
    async with trio.open_nursery() as nursery:
        for _ in range(100):
            nursery.start_soon(ask)

    assert told == [Open(SLOT)] * 100
    assert len(done) <= 2


async def test_those_who_wait_share_the_polls(bench: Bench, autojump_clock: trio.testing.MockClock) -> None:
    """A hundred who wait cost as many reads as one; a seal wakes all of them."""
    await fill(bench, 1)
    znodes = Intercepted(bench.znodes())
    client = bench.client(znodes=znodes)
    async with trio.open_nursery() as nursery:
        for _ in range(100):
            nursery.start_soon(client.wait_tail, LogletOffset(SLOT))
        await bench.clock.sleep(1)
        await bench.client().seal()
    assert 1 < znodes.looks < 40


# -- trims --------------------------------------------------------------------------------------------------------------


async def test_a_trim_deletes_and_goes_on_where_it_ended(
    bench: Bench, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that dies after the first deletes; the next trim, or question for the trim point,
    does the rest."""
    monkeypatch.setattr(trimmer, "DELETES_MAX", 4)
    await fill(bench, 20)
    deletes = Intercepted(
        bench.znodes(), plan=["ok", *["never"] * 100], wanted=lambda operations: isinstance(operations[0], Delete)
    )
    dying = bench.client(znodes=deletes)

    assert await dying.prefix_trim(LogletOffset(15 * SLOT + 3)) == 15 * SLOT + 3
    await bench.clock.sleep(5)
    assert len(paths(bench, LAYOUT.batches + "/")) == 16
    other = bench.client()
    assert await other.prefix_trim(ZERO) == 15 * SLOT + 3
    await bench.clock.sleep(1)

    assert paths(bench, LAYOUT.batches + "/") == [LAYOUT.slot(number) for number in range(15, 20)]
    znode = bench.zookeeper.tree.find(LAYOUT.trim)
    assert znode is not None
    assert decode_trim_untrusted(znode.data).deleted == 15
    assert await other.read(ZERO, LogletOffset(20 * SLOT), 1) == [Gap(0, 15 * SLOT + 3, GapKind.TRIMMED)]
    assert await other.check_tail() == Open(20 * SLOT)


async def test_several_who_trim_delete_side_by_side(bench: Bench, autojump_clock: trio.testing.MockClock) -> None:
    """Each step of each is done once; the trim point is the highest that was asked for."""
    await fill(bench, 300)
    async with trio.open_nursery() as nursery:
        for slot in (100, 299, 200):
            nursery.start_soon(bench.client().prefix_trim, LogletOffset(slot * SLOT))
    await bench.clock.sleep(3)
    assert await bench.client().prefix_trim(ZERO) == 299 * SLOT
    assert paths(bench, LAYOUT.batches + "/") == [LAYOUT.slot(299)]


# -- what is lost -------------------------------------------------------------------------------------------------------


async def test_a_wiped_zookeeper_is_no_fresh_loglet(bench: Bench, autojump_clock: trio.testing.MockClock) -> None:
    """A client that has used the loglet before gets an error: while it is gone, and once others
    have created it anew."""
    knowing = [bench.client(), bench.client()]
    await knowing[0].append(batch(0), opens=True)
    await knowing[1].check_tail()
    bench.zookeeper.wipe()
    for client in knowing:
        await _expect_lost(client)
    await bench.clock.sleep(1)
    await bench.client().append(batch(0, OTHER), opens=True)  # knows no better
    for client in knowing:
        await _expect_lost(client)


async def _expect_lost(client: Any) -> None:
    for call in (
        client.check_tail,
        lambda: client.append(batch(0, SessionId(b"another session!")), opens=True),
        lambda: client.read(ZERO, LogletOffset(1), 1),
        lambda: client.prefix_trim(ZERO),
    ):
        with pytest.raises(CorruptionError, match="has lost loglet"):
            await call()


async def test_a_zookeeper_that_went_back_in_time_is_noticed(
    bench: Bench, autojump_clock: trio.testing.MockClock
) -> None:
    """It was restored from a backup, say: the same loglet, which ends before what was known to be in it."""
    await fill(bench, 3)
    client = bench.client()
    await client.check_tail()
    tree = bench.zookeeper.tree
    tree._nodes[LAYOUT.batches].version = 2
    bench.zookeeper.servers = 1
    bench.zookeeper._servers = bench.zookeeper._servers[:1]
    client._znodes._server = None  # type: ignore[attr-defined]
    with pytest.raises(CorruptionError, match="has ended at"):
        await client.check_tail()


async def test_a_slot_that_somebody_deleted_is_lost(bench: Bench, autojump_clock: trio.testing.MockClock) -> None:
    """By hand, and not by a trim: readers come to a stop, and do not pass over it."""
    await fill(bench, 3)
    await bench.znodes().multi([Delete(LAYOUT.slot(1))])
    client = bench.client()
    assert entries(await client.read(ZERO, LogletOffset(3 * SLOT), 1 << 20)) == {0: b"0"}
    with pytest.raises(CorruptionError, match="slot 1"):
        await client.read(LogletOffset(SLOT), LogletOffset(3 * SLOT), 1 << 20)


async def test_what_somebody_wrote_into_a_slot_is_damage(bench: Bench, autojump_clock: trio.testing.MockClock) -> None:
    """The checksum of the batch says so."""
    await fill(bench, 2)
    znode = bench.zookeeper.tree.find(LAYOUT.slot(1))
    assert znode is not None
    await bench.znodes().multi([Set(LAYOUT.slot(1), znode.data[:-1] + b"?")])
    with pytest.raises(CorruptionError, match="damaged"):
        await bench.client().read(LogletOffset(SLOT), LogletOffset(2 * SLOT), 1)


# -- what leaves the chain, and what is said ------------------------------------------------------------------------------


@pytest.mark.parametrize("made", [True, False])
async def test_a_released_loglet_leaves_a_tombstone(
    bench: Bench, made: bool, autojump_clock: trio.testing.MockClock
) -> None:
    """Nothing else is left, and no client creates it again, even if it was never created: a client
    with an old chain would get an acknowledgement for an entry that is not in the log."""
    knowing = bench.client()
    if made:
        await fill(bench, 3)
        await knowing.check_tail()
        await knowing.append(Batch.build(OTHER, 0, [bytes(1 << 20)]), opens=True)
        await knowing.seal()
    provider = bench.provider
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(provider.release, SEGMENT, CONFIG.encode(), bench.environment)
    await provider.release(SEGMENT, CONFIG.encode(), bench.environment)

    assert paths(bench, LAYOUT.base) == [LAYOUT.base]
    for client in (knowing, bench.client()):
        for call in (
            client.check_tail,
            lambda: client.append(batch(9, SessionId(b"another session!")), opens=True),  # noqa: B023
            lambda: client.read(ZERO, LogletOffset(1), 1),  # noqa: B023
        ):
            with pytest.raises(SealedError):
                await call()
    assert paths(bench, LAYOUT.base) == [LAYOUT.base]


async def test_explain_says_what_the_znodes_show(bench: Bench, autojump_clock: trio.testing.MockClock) -> None:
    """Before anything is there, with some in it, sealed, released, and when ZooKeeper does not answer."""

    async def together() -> dict[str, Any]:
        evidence = await bench.provider.explain(SEGMENT, CONFIG.encode(), bench.environment)
        assert evidence[-1].source == COMBINED
        assert len({piece.source for piece in evidence}) == len(evidence)
        return dict(evidence[-1].facts)

    assert (await together())["tail"] == 0
    assert not paths(bench, LAYOUT.base)
    await fill(bench, 3)
    await bench.client().prefix_trim(LogletOffset(SLOT))
    assert (await together()).items() >= {"tail": 3 * SLOT, "sealed": False, "trim": SLOT}.items()
    await bench.client().seal()
    assert (await together())["sealed"] is True
    assert await bench.client().check_tail() == Sealed(3 * SLOT)
    await bench.provider.release(SEGMENT, CONFIG.encode(), bench.environment)
    assert (await together())["sealed"] is True
    bench.zookeeper.faults.reachable = False
    assert (await together())["tail"] is None
