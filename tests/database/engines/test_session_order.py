"""Exactly-once and in order over any behaviour of the log: delos.md section 11, case 59."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.database.engines.world import Running, caught_up, replicas
from virtuallog.client.appender import AppenderSettings
from virtuallog.contract.errors import MalformedError, SealedError, UnavailableError
from virtuallog.contract.types import LogPosition, NodeId
from virtuallog_database.engines import session_order
from virtuallog_database.engines.base.base_engine import BaseSettings
from virtuallog_database.engines.core.entry import PROPOSER, TOKEN_BYTES, Entry
from virtuallog_database.engines.core.pending_proposals import PendingProposals
from virtuallog_database.engines.core.session_floor import with_beginning
from virtuallog_database.engines.layers.layer import Layer, LayerContext
from virtuallog_database.engines.session_order import SessionOrderEngine, SessionOrderSettings, Stamp
from virtuallog_database.engines.stack import StackSettings
from virtuallog_database.testing.memory_store import MemoryDisk


def ordered(context: LayerContext, settings: StackSettings) -> list[Layer]:
    """The application directly on SessionOrderEngine."""
    return [SessionOrderEngine(context, settings=settings.session_order)]


@attrs.define
class Told:
    """Outcomes of proposals, in the order of their callbacks."""

    running: Running
    outcomes: list[tuple[bytes, object]] = attrs.field(factory=list)

    def propose(self, *payloads: bytes) -> None:
        for payload in payloads:
            self.running.replica.propose(
                payload,
                lambda outcome, payload=payload: self.outcomes.append((payload, outcome)),  # type: ignore[misc]
            )

    async def wait(self, count: int) -> None:
        while len(self.outcomes) < count:
            await trio.sleep(0.01)


def forged(replica: str, incarnation: bytes, sequence: int, payload: bytes, began: int | None = None) -> bytes:
    """An entry as some life of a replica may have put it into the log; with no `began` as one of the former version."""
    stamp = Stamp(incarnation, sequence, replica.encode())
    entry = Entry(payload, {PROPOSER: bytes(TOKEN_BYTES), SessionOrderEngine.name: stamp.encode()})
    return (entry if began is None else with_beginning(entry, LogPosition(began))).encode()


async def test_what_is_lost_is_proposed_again_in_order(autojump_clock: MockClock) -> None:
    """The appender gives up; once the log takes entries again all of them are applied, in the order of the calls."""
    async with replicas() as r:
        told = Told(await r.start(recipe=ordered))
        r.provider.deaf = True
        told.propose(b"a", b"b")
        await trio.sleep(1.5)
        told.propose(b"c")
        r.provider.deaf = False
        await told.wait(3)

        assert told.outcomes == [(b"a", 0), (b"b", 1), (b"c", 2)]
        assert told.running.application.items == [b"a", b"b", b"c"]


async def test_what_is_in_the_log_twice_is_applied_once(autojump_clock: MockClock) -> None:
    """The appender gave up on entries that had been placed. They complete when they are met in the log; the copies are passed over."""
    async with replicas() as r:
        one, two = await r.start(1, recipe=ordered), await r.start(2, recipe=ordered)
        told = Told(one)
        r.provider.mute = r.provider.secretive = True
        told.propose(*(b"%d" % number for number in range(5)))
        await trio.sleep(1.15)  # given up, and not proposed again yet
        r.provider.mute = False
        await told.wait(5)
        told.propose(b"last")
        await told.wait(6)
        await caught_up(two)

        expected = [b"%d" % number for number in range(5)] + [b"last"]
        assert [payload for payload, _ in told.outcomes] == expected
        assert one.application.items == two.application.items == expected
        assert (await one.log.check_tail()).tail > 6, "there are doubles in the log"


async def test_after_giving_up_nothing_of_the_former_life_is_applied_behind_the_next_one(
    autojump_clock: MockClock,
) -> None:
    """Their proposers got an unknown outcome; a later proposal must not be overtaken."""
    async with replicas() as r:
        told = Told(await r.start(recipe=ordered))
        order = told.running.replica.stack.find(SessionOrderEngine)
        assert order is not None
        former = order._proposals.incarnation
        r.provider.deaf = True
        told.propose(b"a", b"b")
        await told.wait(2)
        assert [type(outcome) for _, outcome in told.outcomes] == [UnavailableError] * 2
        r.provider.deaf = False
        told.propose(b"c")
        await told.wait(3)
        await told.running.log.append(forged(told.running.replica.identity.name, former, 0, b"a"))
        await told.running.log.append(forged(told.running.replica.identity.name, former, 1, b"b"))
        told.propose(b"d")
        await told.wait(4)

        assert told.running.application.items == [b"c", b"d"]


async def test_what_a_former_boot_left_in_the_log_is_applied_until_the_next_one_begins(
    autojump_clock: MockClock,
) -> None:
    """A crash leaves proposals of unknown outcome; they may be applied, but before anything that comes later."""
    async with replicas() as r:
        one = await r.start(recipe=ordered)
        await one.propose(b"a")
        order = one.replica.stack.find(SessionOrderEngine)
        assert order is not None
        name, former = one.replica.identity.name, order._proposals.incarnation
        await one.crash()
        again = await r.start(disk=one.disk, recipe=ordered)
        await again.log.append(forged(name, former, 1, b"in time"))
        assert await again.propose(b"b") == 2
        await again.log.append(forged(name, former, 2, b"too late"))
        await caught_up(again)

        assert again.application.items == [b"a", b"in time", b"b"]


async def test_a_log_that_is_closed_is_a_definite_answer(autojump_clock: MockClock) -> None:
    """No proposer waits for the appender to give up; once the log goes on, so do proposals."""
    async with replicas() as r:
        told = Told(await r.start(recipe=ordered))
        told.propose(b"a")
        await told.wait(1)
        await told.running.log.seal()
        told.propose(b"b")
        await told.wait(2)
        await told.running.log.reconfig_extend("memory")
        told.propose(b"c")
        await told.wait(3)

        assert [payload for payload, outcome in told.outcomes if isinstance(outcome, SealedError)] == [b"b"]
        assert told.running.application.items == [b"a", b"c"]


async def test_what_may_be_in_a_log_that_is_closed_is_of_unknown_outcome(autojump_clock: MockClock) -> None:
    """One copy got in unnoticed, and the log's refusal of the next one proves nothing. Proposals
    that never were in the log failed."""
    async with replicas() as r:
        told = Told(await r.start(recipe=ordered))
        told.propose(b"a")
        await told.wait(1)
        r.provider.mute = r.provider.secretive = r.provider.blind = True
        told.propose(b"b")
        await trio.sleep(1.15)  # given up, and not proposed again yet
        told.propose(b"c")
        await told.running.log.seal()
        await told.wait(3)
        assert [type(outcome) for _, outcome in told.outcomes] == [int, UnavailableError, SealedError]

        r.provider.mute = r.provider.secretive = r.provider.blind = False
        await told.running.log.reconfig_extend("memory")
        await caught_up(told.running)
        assert told.running.application.items == [b"a", b"b"]


async def test_entries_without_a_stamp_are_passed_up(autojump_clock: MockClock) -> None:
    """They come from before this engine was in the stack."""
    async with replicas() as r:
        one = await r.start(recipe=ordered)
        await one.log.append(Entry(b"old", {PROPOSER: bytes(TOKEN_BYTES)}).encode())
        await caught_up(one)

        assert one.application.items == [b"old"]


@pytest.mark.parametrize("seed", range(30))
async def test_exactly_once_across_losses_crashes_and_doubles(seed: int, autojump_clock: MockClock) -> None:
    """Three replicas propose while the log loses calls and answers, and their processes crash. What was acknowledged is applied
    once; what failed once or never; each proposer's entries in order; all replicas alike."""
    chance = random.Random(seed)
    settings = StackSettings(
        base=BaseSettings(appender=AppenderSettings(give_up=0.3)), session_order=SessionOrderSettings(give_up=3.0)
    )
    acknowledged: list[bytes] = []

    def note(payload: bytes, outcome: object) -> None:
        if not isinstance(outcome, Exception):
            acknowledged.append(payload)

    async with replicas() as r:
        disks = [MemoryDisk() for _ in range(3)]
        present = [await r.start(index + 1, disk, ordered, settings) for index, disk in enumerate(disks)]
        for step in range(60):
            index = chance.randrange(3)
            boot = present[index].replica.identity.boot
            for number in range(chance.randrange(4)):
                payload = b"%d/%d/%03d.%d" % (index, boot, step, number)
                present[index].replica.propose(payload, lambda outcome, payload=payload: note(payload, outcome))  # type: ignore[misc]
            r.provider.deaf, r.provider.mute = chance.random() < 0.3, chance.random() < 0.3
            if chance.random() < 0.1:
                await present[index].crash(chance)
                present[index] = await r.start(index + 1, disks[index], ordered, settings)
            await trio.sleep(chance.choice([0, 0.01, 0.1, 0.5]))
        r.provider.deaf = r.provider.mute = False
        await trio.sleep(10)
        await caught_up(*present)
        lists = [running.application.items for running in present]

    assert lists[0] == lists[1] == lists[2]
    counts = Counter(lists[0])
    assert set(counts.values()) <= {1}
    assert set(acknowledged) <= set(counts)
    for proposer in range(3):
        assert_ascending(item for item in lists[0] if item.startswith(b"%d/" % proposer))


def assert_ascending(items: Iterable[bytes]) -> None:
    parts = [[int(part) for part in item.replace(b".", b"/").split(b"/")] for item in items]
    assert parts == sorted(parts)


# -- the proposer's half --------------------------------------------------------------------------------------------


def test_nothing_is_sent_behind_a_lost_one_until_all_copies_are_back() -> None:
    """All replicas would skip it."""
    proposals = PendingProposals(b"i")
    for _ in range(3):
        assert proposals.add(Entry(b""), print) is not None

    assert proposals.applied(b"i", 0) is print
    assert not proposals.settled(b"i", 0)
    assert not proposals.settled(b"i", 1)
    assert proposals.add(Entry(b""), print) is None
    assert proposals.again() == []
    assert proposals.settled(b"i", 2)
    assert [proposal.sequence for proposal in proposals.again()] == [1, 2, 3]
    assert proposals.add(Entry(b""), print) is not None, "in order again"


def test_a_copy_that_is_lost_after_another_one_was_applied_does_no_harm() -> None:
    """Applied proposals are not pending any more."""
    proposals = PendingProposals(b"i")
    proposals.add(Entry(b""), print)
    proposals.applied(b"i", 0)

    assert not proposals.settled(b"i", 0, error=SealedError())
    assert proposals.error is None


def test_what_comes_back_of_a_former_incarnation_is_ignored() -> None:
    """After giving up everything is counted anew."""
    proposals = PendingProposals(b"i")
    proposals.add(Entry(b""), print)
    assert len(proposals.abandon(b"j", SealedError())) == 1
    proposals.add(Entry(b""), print)

    assert not proposals.settled(b"i", 0)
    assert proposals.applied(b"i", 0) is None
    assert proposals.applied(b"j", 0) is print


def test_behind_one_that_is_in_no_log_nothing_is_of_unknown_outcome() -> None:
    """It would be passed over. A copy that was passed over leaves no doubt, either."""
    proposals = PendingProposals(b"i")
    for _ in range(4):
        proposals.add(Entry(b""), print)
    proposals.settled(b"i", 0, is_unknown=True)
    proposals.settled(b"i", 1, error=SealedError())
    proposals.settled(b"i", 2, is_unknown=True)
    proposals.settled(b"i", 3)

    told = [type(error) for _, error in proposals.abandon(b"j", SealedError())]
    assert told == [UnavailableError, SealedError, SealedError, SealedError]


@pytest.mark.parametrize("header", [b"", b"x" * 23])
def test_a_stamp_that_is_too_short_is_refused(header: bytes) -> None:
    """All replicas agree on that: it is a deterministic error."""
    with pytest.raises(MalformedError):
        Stamp.parse_untrusted(header)


def test_stamps_come_back_as_they_were() -> None:
    """A later boot is a later incarnation, for any life and series."""
    stamp = Stamp(b"i" * 16, 7, b"1-" + bytes(NodeId(3)))
    assert Stamp.parse_untrusted(stamp.encode()) == stamp
    assert session_order._INCARNATION.pack(2, 0, 0) > session_order._INCARNATION.pack(1, 9, 9)
