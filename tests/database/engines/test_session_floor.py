"""Sessions that are forgotten, and the floor that keeps what they appended late from being applied."""

from __future__ import annotations

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.database.engines.test_session_order import forged, ordered
from tests.database.engines.world import SETTINGS, Running, caught_up, replicas
from virtuallog.contract.errors import UnavailableError, UnsupportedError
from virtuallog.contract.types import LogPosition, PlacedBatch
from virtuallog_database.engines import session_order
from virtuallog_database.engines.core import view
from virtuallog_database.engines.core.enabled_engines import FLOOR, is_enabled
from virtuallog_database.engines.core.entry import PROPOSER, TOKEN_BYTES, Entry
from virtuallog_database.engines.core.keys import section, section_span
from virtuallog_database.engines.core.session_floor import floor
from virtuallog_database.engines.rollout import RolloutEngine, RolloutSettings
from virtuallog_database.engines.session_order import SessionOrderEngine, SessionOrderSettings, Stamp
from virtuallog_database.engines.stack import StackSettings
from virtuallog_database.engines.view_tracking import ViewSettings

ORDER = section_span(SessionOrderEngine.name)


FORGETFUL: StackSettings = attrs.evolve(
    SETTINGS,
    view=ViewSettings(announce_seconds=1.0, eject_seconds=8.0),
    rollout=RolloutSettings(enable=(FLOOR,), retry_seconds=0.5),
)


async def forget(running: Running) -> None:
    """Let so many other replicas write that the record of every silent one outside the view is dropped."""
    tail = (await running.log.check_tail()).tail
    for number in range(session_order.REPLICAS_MAX):
        await running.log.append(forged(f"other-{tail + number:03}", bytes(16), 0, b"theirs", tail))
    await caught_up(running)


async def copy_of(running: Running, payload: bytes) -> bytes:
    """The entry of the log that holds this payload: what a server may still have, and put into the log later."""
    placed = await running.log.read(LogPosition(0), LogPosition((await running.log.check_tail()).tail), 1 << 20)
    batches = (each for each in placed if isinstance(each, PlacedBatch))
    return next(record.payload for batch in batches for record in batch.records() if payload in record.payload)


async def switched_on(*all_of_them: Running) -> None:
    """Return once the rule about forgotten replicas holds, as far as each of them has played."""
    for running in all_of_them:
        while not is_enabled(running.disk.content, FLOOR):
            await trio.sleep(0.1)


async def ejected(by: Running, other: Running) -> None:
    """Return once the other replica, which does not run, is out of the view."""
    while other.replica.identity.name in view.members(by.disk.content):
        await trio.sleep(1.0)


async def test_the_state_is_bounded_however_many_replicas_there_were(autojump_clock: MockClock) -> None:
    """The record of the one that is silent for longest goes; if it is there after all, it begins anew, and nothing is doubled."""
    async with replicas() as r:
        settings = attrs.evolve(SETTINGS, session_order=SessionOrderSettings(give_up=1.0))
        one = await r.start(recipe=ordered, settings=settings)
        await one.propose(b"mine")
        for number in range(session_order.REPLICAS_MAX):
            await one.log.append(forged(f"other-{number:03}", bytes(16), 0, b"theirs"))
        await caught_up(one)
        assert len(one.disk.content.keys(section_span(SessionOrderEngine.name))) == session_order.REPLICAS_MAX

        with pytest.raises(UnavailableError):
            await one.propose(b"refused by all")
        assert await one.propose(b"again") == session_order.REPLICAS_MAX + 1
        assert len(one.disk.content.keys(section_span(SessionOrderEngine.name))) == session_order.REPLICAS_MAX


async def test_the_record_of_a_server_without_clients_stays(autojump_clock: MockClock) -> None:
    """Programs that write a little and end, each run under a new name, must not make its first client wait until it gives up."""
    async with replicas() as r:
        quiet = await r.start()
        await quiet.propose(b"mine")
        for number in range(session_order.REPLICAS_MAX + 1):
            await quiet.log.append(forged(f"other-{number:03}", bytes(16), 0, b"theirs"))
        before = trio.current_time()
        await quiet.propose(b"mine again")
        assert trio.current_time() - before < 1.0
        assert len(quiet.disk.content.keys(section_span(SessionOrderEngine.name))) == session_order.REPLICAS_MAX


async def test_a_late_copy_of_a_forgotten_replica_is_passed_over(autojump_clock: MockClock) -> None:
    """A server of the log may hold a copy for as long as it stands still: longer than the record of its replica lasts."""
    async with replicas() as r:
        one = await r.start(1, settings=FORGETFUL)
        await switched_on(one)
        two = await r.start(2, settings=FORGETFUL)
        await two.propose(b"mine")
        late = await copy_of(two, b"mine")
        await two.crash()
        await ejected(one, two)
        await forget(one)
        await one.log.append(late)
        await caught_up(one)

        assert section(SessionOrderEngine.name) + two.replica.identity.name.encode() not in one.disk.content.keys(ORDER)
        assert one.application.items.count(b"mine") == 1


async def test_what_was_forgotten_before_the_rule_began_is_passed_over_too(autojump_clock: MockClock) -> None:
    """Records that the former version dropped have left no trace; none of them is of a position behind the switch."""
    async with replicas() as r:
        one = await r.start(1, settings=attrs.evolve(FORGETFUL, rollout=RolloutSettings()))
        two = await r.start(2, settings=attrs.evolve(FORGETFUL, rollout=RolloutSettings()))
        await two.propose(b"mine")
        late = await copy_of(two, b"mine")
        await two.crash()
        await ejected(one, two)
        await forget(one)
        rollout = one.replica.stack.find(RolloutEngine)
        assert rollout is not None
        await rollout.enable(FLOOR)
        await one.log.append(late)
        await one.log.append(forged("2-former", bytes(16), 0, b"without the header"))
        await caught_up(one)

        assert one.application.items.count(b"mine") == 1
        assert b"without the header" not in one.application.items


async def test_before_the_switch_entries_are_applied_as_by_the_former_version(autojump_clock: MockClock) -> None:
    """The fault stays where replicas of that version may take part: all states must be equal."""
    async with replicas() as r:
        settings = attrs.evolve(FORGETFUL, rollout=RolloutSettings())
        one, two = await r.start(1, settings=settings), await r.start(2, settings=settings)
        await two.propose(b"mine")
        late = await copy_of(two, b"mine")
        await two.crash()
        await ejected(one, two)
        await forget(one)
        await one.log.append(late)
        await caught_up(one)

        assert one.application.items.count(b"mine") == 2
        assert not one.disk.content.keys(section_span(FLOOR))


async def test_an_older_incarnation_of_a_forgotten_replica_is_passed_over(autojump_clock: MockClock) -> None:
    """Proposals from before a crash that were never applied are not applied behind later ones."""
    async with replicas() as r:
        one = await r.start(1, settings=FORGETFUL)
        await switched_on(one)
        two = await r.start(2, settings=FORGETFUL)
        order = two.replica.stack.find(SessionOrderEngine)
        assert order is not None
        name, former = two.replica.identity.name, order._proposals.incarnation
        began = (await two.log.check_tail()).tail
        await two.crash()
        two = await r.start(2, two.disk, settings=FORGETFUL)
        await two.propose(b"later")
        await two.crash()
        await ejected(one, two)
        await forget(one)
        await one.log.append(forged(name, former, 0, b"earlier", began))
        await caught_up(one)

        assert one.application.items.count(b"later") == 1
        assert b"earlier" not in one.application.items


async def test_a_replica_whose_record_was_dropped_goes_on_as_another_incarnation(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No entry of the former one can be applied any more, so what is pending is proposed anew, and no client waits until it gives up."""
    monkeypatch.setattr(session_order, "REPLICAS_MAX", 2)
    async with replicas() as r:
        present = [await r.start(node, settings=FORGETFUL) for node in (1, 2, 3)]
        await switched_on(*present)
        for turn in range(4):
            for running in present:
                before = trio.current_time()
                await running.propose(b"%d of %d" % (turn, running.replica.identity.node))
                assert trio.current_time() - before < 2.0
        await caught_up(*present)

        expected = [b"%d of %d" % (turn, node) for turn in range(4) for node in (1, 2, 3)]
        assert [running.application.items for running in present] == [expected] * 3


async def test_the_floor_is_not_taken_back(autojump_clock: MockClock) -> None:
    """Proposers have gone on, sure that no entry of a former incarnation can be applied."""
    async with replicas() as r:
        one = await r.start(1, settings=FORGETFUL)
        await switched_on(one)
        rollout = one.replica.stack.find(RolloutEngine)
        assert rollout is not None
        with pytest.raises(UnsupportedError, match="taken back"):
            await rollout.disable(FLOOR)
        assert floor(one.disk.content) > 0


@pytest.mark.parametrize("size", [0, 7, 9])
async def test_a_beginning_that_is_no_position_is_refused_by_all(size: int, autojump_clock: MockClock) -> None:
    """It is a deterministic error of the entry: the replica plays on."""
    async with replicas() as r:
        one = await r.start(recipe=ordered)
        stamp = Stamp(bytes(16), 0, b"other")
        headers = {PROPOSER: bytes(TOKEN_BYTES), SessionOrderEngine.name: stamp.encode(), FLOOR: bytes(size)}
        await one.log.append(Entry(b"odd", headers).encode())
        assert await one.propose(b"a") == 0
