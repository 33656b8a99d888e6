"""Schedules that a simulator is not likely to meet: transactions whose answer is lost, and copies that come late."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator
from itertools import count

import pytest
import trio

from tests.loglets.zookeeper.interception import Intercepted
from tests.loglets.zookeeper.world import CONFIG, SEGMENT, Bench, running_bench
from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import SealedError, TailMismatchError, UnavailableError
from virtuallog.contract.types import LogletOffset, Open, Sealed
from virtuallog.exactly_once.slot_offsets import SLOT
from virtuallog.testing.checker.expectations import entries
from virtuallog_loglets.zookeeper.core.layout import ZooKeeperLayout
from virtuallog_loglets.zookeeper.loglet import ZooKeeperLoglet

SESSION = SessionId(b"s" * 16)
OTHER = SessionId(b"o" * 16)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with running_bench() as bench:
        yield bench


def batch(number: int, session: SessionId = SESSION) -> Batch:
    return Batch.build(session, number, [b"%d" % number])


async def held(loglet: ZooKeeperLoglet) -> list[bytes]:
    """All entries, in order."""
    tail = (await loglet.check_tail()).tail
    found: list[bytes] = []
    start = 0
    while start < tail:
        items = await loglet.read(LogletOffset(start), LogletOffset(tail), 1 << 20)
        found += entries(items).values()
        start = items[-1].stop
    return found


@pytest.mark.parametrize("opens", [True, False])
async def test_a_lost_answer_is_found_out(bench: Bench, opens: bool, autojump_clock: trio.testing.MockClock) -> None:
    """The batch is in the log, its sender is not told: it finds the slot by the transaction that set its znode."""
    znodes = Intercepted(bench.znodes())
    writer, other = bench.client(znodes=znodes), bench.client()
    if not opens:
        await writer.append(batch(0), opens=True)
    for number in range(20):
        await other.append(batch(number, OTHER), opens=number == 0)
    number = 0 if opens else 1
    znodes.plan = ["no answer"]

    places = await writer.append(batch(number), opens=opens)

    assert places.start == (20 + number) * SLOT
    assert (await held(other)).count(b"%d" % number) == 2  # the other session's, and ours
    assert await writer.append(batch(number + 1), opens=False)


@pytest.mark.parametrize("opens", [True, False])
async def test_a_late_copy_comes_to_nothing(bench: Bench, opens: bool, autojump_clock: trio.testing.MockClock) -> None:
    """A first copy that has not arrived when it is looked for, and arrives once the second one is in the log: the writer's
    znode has moved."""
    znodes = Intercepted(bench.znodes())
    writer = bench.client(znodes=znodes)
    if not opens:
        await writer.append(batch(0), opens=True)
    number = 0 if opens else 1
    znodes.plan = ["late", "ok"]

    await writer.append(batch(number), opens=opens)
    await writer.append(batch(number + 1), opens=False)
    await znodes.arrive()

    assert znodes.outcomes == ["ZnodeExistsError" if opens else "BadVersionError"]
    assert await held(writer) == [b"%d" % one for one in range(number + 2)]


async def test_a_late_copy_that_is_first_makes_the_second_one_nothing(
    bench: Bench, autojump_clock: trio.testing.MockClock
) -> None:
    """It arrives between the look and the second copy, which is refused; then the batch is found where the first one is."""
    znodes = Intercepted(bench.znodes())
    writer = bench.client(znodes=znodes)
    await writer.append(batch(0), opens=True)
    znodes.plan = ["late", "late", "ok"]

    async def arrive_in_time() -> None:
        while len(znodes.late) < 2:
            await bench.clock.sleep(0.01)
        await znodes.arrive()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(arrive_in_time)
        places = await writer.append(batch(1), opens=False)
    await znodes.arrive()

    assert places.start == SLOT
    assert znodes.outcomes == ["done", "BadVersionError"]
    assert await held(writer) == [b"0", b"1"]


async def test_a_late_copy_that_arrives_during_the_look_is_found(
    bench: Bench, autojump_clock: trio.testing.MockClock
) -> None:
    """Whichever of the requests of a look it comes between: what the writer's znode names is not older than the tail."""
    znodes = Intercepted(bench.znodes())
    writer = bench.client(znodes=znodes)
    await writer.append(batch(0), opens=True)
    layout = ZooKeeperLayout(CONFIG.root, SEGMENT)

    for number, when in enumerate((layout.base, layout.writer(SESSION), layout.batches), start=1):

        async def arrive(path: str, when: str = when) -> None:
            if path == when and znodes.late:
                await znodes.arrive()

        znodes.plan, znodes.between = ["late"], arrive
        assert (await writer.append(batch(number), opens=False)).start == number * SLOT

    assert await held(bench.client()) == [b"0", b"1", b"2", b"3"]


async def test_a_late_copy_does_not_get_behind_a_seal(bench: Bench, autojump_clock: trio.testing.MockClock) -> None:
    """Sent before the seal, executed after it: the check of the seal is in the same transaction.
    Its sender learns that the loglet is sealed, and that the outcome is open, as it cannot know."""
    znodes = Intercepted(bench.znodes())
    writer, sealer = bench.client(znodes=znodes), bench.client()
    await writer.append(batch(0), opens=True)
    znodes.plan = ["late"]

    async def seal_meanwhile() -> None:
        while not znodes.late:
            await bench.clock.sleep(0.001)
        await sealer.seal()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(seal_meanwhile)
        with pytest.raises(SealedError) as caught:
            await writer.append(batch(1), opens=False)
    tail = await sealer.check_tail()
    await znodes.arrive()

    assert not caught.value.refused
    assert znodes.outcomes == ["BadVersionError"]
    assert tail == await sealer.check_tail() == Sealed(SLOT)


async def test_who_only_meets_the_seal_was_surely_refused(bench: Bench, autojump_clock: trio.testing.MockClock) -> None:
    """Nothing of this attempt was ever under way without an answer."""
    writer, sealer = bench.client(), bench.client()
    await sealer.seal()
    with pytest.raises(SealedError) as caught:
        await writer.append(batch(0), opens=True)
    assert caught.value.refused


async def test_a_seal_finds_a_loglet_that_nobody_made(bench: Bench, autojump_clock: trio.testing.MockClock) -> None:
    """It is made sealed, in one step: a first append that comes late cannot find it open."""
    znodes = Intercepted(bench.znodes(), plan=["late"], wanted=lambda operations: len(operations) == 5)
    writer, sealer = bench.client(znodes=znodes), bench.client()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sealer.seal)
        with pytest.raises(SealedError):
            await writer.append(batch(0), opens=True)
    await znodes.arrive()
    assert znodes.outcomes == ["ZnodeExistsError"]
    assert await sealer.check_tail() == Sealed(0)


async def test_a_refused_condition_stays_refused(bench: Bench, autojump_clock: trio.testing.MockClock) -> None:
    """A conditional append for a tail that is still ahead has no answer, is refused when it is tried again, and its first copy
    arrives when the tail is there: it must do nothing, since the caller was told so."""
    znodes = Intercepted(bench.znodes())
    writer, other = bench.client(znodes=znodes), bench.client()
    await writer.append(batch(0), opens=True)
    znodes.plan = ["late"]

    with pytest.raises(TailMismatchError):
        await writer.append(batch(1), opens=False, expected_tail=LogletOffset(2 * SLOT))
    await other.append(batch(0, OTHER), opens=True)
    assert await other.check_tail() == Open(2 * SLOT)
    await znodes.arrive()

    assert znodes.outcomes == ["BadVersionError"]
    assert await held(other) == [b"0", b"0"]
    assert (await writer.append(batch(1), opens=False, expected_tail=LogletOffset(2 * SLOT))).start == 2 * SLOT


async def test_the_first_batch_of_a_session_may_be_conditional_and_refused(
    bench: Bench, autojump_clock: trio.testing.MockClock
) -> None:
    """The same where the writer has no znode yet: it gets one, which is the fence."""
    znodes = Intercepted(bench.znodes())
    writer, other = bench.client(znodes=znodes), bench.client()
    await other.append(batch(0, OTHER), opens=True)
    znodes.plan = ["late"]

    with pytest.raises(TailMismatchError):
        await writer.append(batch(5), opens=True, expected_tail=LogletOffset(2 * SLOT))
    await other.append(batch(1, OTHER), opens=False)
    await znodes.arrive()

    assert znodes.outcomes == ["ZnodeExistsError"]
    assert await held(other) == [b"0", b"1"]


async def test_a_batch_is_found_among_many(bench: Bench, autojump_clock: trio.testing.MockClock) -> None:
    """A client without state is offered a batch again that is long in the log, and others behind
    it: the remembered state of the session gives its place."""
    writer, other = bench.client(), bench.client()
    places = []
    for number in range(40):
        places.append(await writer.append(batch(number), opens=number == 0))
        for more in range(3):
            sequence = 3 * number + more
            await other.append(batch(sequence, OTHER), opens=sequence == 0)

    fresh = bench.client()
    asked = random.Random(1).sample(range(40), 40)
    assert [await fresh.append(batch(number), opens=number == 0) for number in asked] == [places[n] for n in asked]


async def test_chunks_without_a_slot_do_no_harm(bench: Bench, autojump_clock: trio.testing.MockClock) -> None:
    """The answer to a chunk is lost, the batch is offered again: the chunks that are there are used."""
    large = Batch.build(SESSION, 0, [random.Random(1).randbytes(2_500_000)])
    znodes = Intercepted(
        bench.znodes(), plan=["ok", "no answer", "never"], wanted=lambda operations: len(operations) == 2
    )
    writer = bench.client(znodes=znodes)
    await bench.client().append(batch(0, OTHER), opens=True)

    places = await writer.append(large, opens=True)
    (found, *_) = await bench.client().read(LogletOffset(places.start), LogletOffset(places.stop), 1)

    assert entries([found]) == {places.start: large.payloads[0]}
    assert len([path for path in bench.zookeeper.tree.paths if "/chunks/" in path]) == 3


async def test_an_unreachable_zookeeper_is_an_open_outcome(
    bench: Bench, autojump_clock: trio.testing.MockClock
) -> None:
    """An append ends after its time; what was sent may be in the log later, and the same batch offered again is there once."""
    writer = bench.client()
    await writer.append(batch(0), opens=True)
    bench.zookeeper.faults.reachable = False
    with pytest.raises(UnavailableError):
        await writer.append(batch(1), opens=False)
    for call in (writer.check_tail, writer.seal, lambda: writer.prefix_trim(LogletOffset(0))):
        with pytest.raises(UnavailableError):
            await call()
    bench.zookeeper.faults.reachable = True
    await writer.append(batch(1), opens=False)
    assert await held(writer) == [b"0", b"1"]
    assert writer.segment == SEGMENT


@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.parametrize("made_before", [1, 2, 3])
async def test_a_loglet_that_comes_into_being_during_a_look_has_not_left_the_chain(
    bench: Bench, sealed: bool, made_before: int, autojump_clock: trio.testing.MockClock
) -> None:
    """The requests of a look are executed one after the other, and may find the loglet in any state
    of its creation. It exists all the same: a trim and a tail check must not answer that it is gone
    for good."""
    for number, look in enumerate((ZooKeeperLoglet.check_tail, _trim)):
        segment = SegmentId(9, 10 * made_before + number)
        znodes, requests = Intercepted(bench.znodes()), count(1)
        watcher, maker = bench.client(segment, znodes=znodes), bench.client(segment)

        async def make(path: str, maker: ZooKeeperLoglet = maker, requests: Iterator[int] = requests) -> None:
            if next(requests) == made_before:
                await (maker.seal() if sealed else maker.append(batch(0), opens=True))

        znodes.between = make

        await look(watcher)

        assert (await watcher.check_tail()) == (Sealed(0) if sealed else Open(SLOT))


async def _trim(loglet: ZooKeeperLoglet) -> None:
    assert await loglet.prefix_trim(LogletOffset(0)) == 0
