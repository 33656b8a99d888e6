"""State of LogServers: violations that the checks must find, and states that they must accept."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import pytest

from tests.simulation.checks.told_history import LOGLET, A, B, Story, batch
from virtuallog.contract.batch import SessionId
from virtuallog.contract.types import NodeId
from virtuallog.contract.types import Sealed as End
from virtuallog.testing.checker.actions import LogletSeal, LogletTail
from virtuallog_loglets.native.config import NativeConfig
from virtuallog_loglets.native.core import wave as waves
from virtuallog_loglets.native.core.durable_state import DurableLogs, KnownTailRaised, LogletSealed, LogletTrimmed
from virtuallog_loglets.native.core.log_server import LogServer
from virtuallog_loglets.native.core.wave import Wave
from virtuallog_loglets.tombstones import Tombstones, VersionFloor
from virtuallog_loglets.wal.core.record import Address
from virtuallog_simulation.checks.state.log_servers import (
    HeldLoglet,
    committed_below_the_stop,
    restart_forgets_nothing,
    servers_agree,
)

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
CONFIG = NativeConfig(servers=(ONE, TWO, THREE), sequencer=ONE, boot=1)


def stored(first: int, session: SessionId = A) -> Wave:
    """One entry at this offset."""
    return waves.build(segment=LOGLET, first=first, known_tail=0, time_ms=0, batches=[batch(session, first)])


def logs(*changes: Wave | LogletSealed | LogletTrimmed | KnownTailRaised | VersionFloor) -> DurableLogs:
    durable = DurableLogs()
    for address, change in enumerate(changes):
        durable.apply(change, Address(address))
    return durable


def broken(servers: Mapping[NodeId, DurableLogs], config: NativeConfig = CONFIG) -> set[str]:
    found = servers_agree({node: LogServer(durable) for node, durable in servers.items()}, {LOGLET: config})
    return {violation.check for violation in found}


def test_servers_without_fault() -> None:
    """Two have both waves, one lies behind; what they know is committed."""
    both = stored(0), stored(1), KnownTailRaised(LOGLET, 2)

    assert broken({ONE: logs(*both), TWO: logs(*both), THREE: logs(stored(0))}) == set()


def test_two_waves_at_one_offset() -> None:
    """I7: one value per place on all servers."""
    assert broken({ONE: logs(stored(0, A)), TWO: logs(stored(0, B))}) == {"one wave per offset"}


def test_a_known_tail_that_is_not_committed() -> None:
    """Only one of three servers has the second wave."""
    servers = {
        ONE: logs(stored(0), stored(1), KnownTailRaised(LOGLET, 2)),
        TWO: logs(stored(0)),
        THREE: logs(stored(0)),
    }

    assert broken(servers) == {"known is committed"}


def test_what_was_trimmed_before_a_loglet_moved_is_on_none_of_its_servers() -> None:
    """There was nothing left to copy; that all of it was committed, they have been told. Of a loglet that has not moved, a
    majority must have it, trimmed or not."""
    emptied = logs(KnownTailRaised(LOGLET, 5))
    emptied.loglet(LOGLET).trim = 5
    servers = {ONE: emptied, TWO: emptied, THREE: logs()}

    assert broken(servers, attrs.evolve(CONFIG, loglet=LOGLET)) == set()
    assert broken(servers) == {"known is committed"}


def test_a_trim_of_what_is_not_known_to_be_committed() -> None:
    """It would drop the only copies of what a repair may need."""
    hasty = logs(stored(0))
    hasty.loglet(LOGLET).trim = 1

    assert broken({ONE: hasty, TWO: logs(stored(0)), THREE: logs(stored(0))}) == {"trimmed is known"}


def told(story: Story, tail: int) -> set[str]:
    """Names of the checks that object if a client knows this tail and two sealed servers have both waves."""
    story.happened(LogletSeal(LOGLET))
    story.happened(LogletTail(LOGLET), End(tail))
    both = stored(0), stored(1), LogletSealed(LOGLET)
    servers = {ONE: LogServer(logs(*both)), TWO: LogServer(logs(*both)), THREE: LogServer(logs(stored(0)))}
    found = committed_below_the_stop(story.history, LOGLET, CONFIG, servers)
    return {violation.check for violation in found}


def test_a_repair_past_the_stop(story: Story) -> None:
    """The highest tail that a client knows is 1, and yet a majority of the sealed servers has an entry there."""
    assert told(story, 1) == {"committed below the stop"}


def test_a_repair_up_to_the_stop(story: Story) -> None:
    """A client has received the tail up to which entries were repaired."""
    assert told(story, 2) == set()


def test_a_server_that_nobody_can_look_into_may_have_it() -> None:
    """It has crashed, or was wiped."""
    assert broken({ONE: logs(stored(0), stored(1), KnownTailRaised(LOGLET, 2)), TWO: logs(stored(0))}) == set()


def restarted(before: DurableLogs, after: DurableLogs) -> set[str]:
    return {violation.check for violation in restart_forgets_nothing(ONE, HeldLoglet.by(before), after)}


@pytest.mark.parametrize(
    "forgotten",
    [
        logs(stored(0), LogletSealed(LOGLET), LogletTrimmed(LOGLET, 1)),
        logs(stored(0), stored(1), LogletTrimmed(LOGLET, 1)),
        logs(stored(0), stored(1), LogletSealed(LOGLET)),
        logs(),
    ],
    ids=["a wave", "the seal", "the trim", "everything"],
)
def test_a_server_that_forgets(forgotten: DurableLogs) -> None:
    """It had told others that this is durable."""
    before = logs(stored(0), stored(1), LogletSealed(LOGLET), LogletTrimmed(LOGLET, 1))

    assert restarted(before, forgotten) == {"restart forgets nothing"}


@pytest.mark.parametrize(
    ("before", "after", "forgets"),
    [
        (Tombstones(4), Tombstones(3), True),
        (Tombstones().seen(9, [LOGLET]), Tombstones(), True),
        (Tombstones().seen(9, []), Tombstones().seen(9, [LOGLET]), True),
        (Tombstones(4), Tombstones(5), False),
        (Tombstones().seen(9, [LOGLET]), Tombstones().seen(9, []), False),
        (Tombstones().seen(9, []), Tombstones().seen(10, [LOGLET]), False),
    ],
)
def test_what_was_dropped_stays_dropped(before: Tombstones, after: Tombstones, forgets: bool) -> None:
    """A floor that goes back, or a loglet that lives again; what is newer may say more."""
    recovered = DurableLogs(tombstones=after)
    found = {violation.check for violation in restart_forgets_nothing(ONE, {}, recovered, tombstones=before)}
    assert found == ({"restart forgets nothing"} if forgets else set())


def test_a_server_that_remembers_more() -> None:
    """Records that were being written when the power went may be there, and may have been trimmed
    or dropped."""
    before = logs(stored(0), stored(1))

    assert restarted(before, logs(stored(0), stored(1), stored(2), LogletSealed(LOGLET))) == set()
    assert restarted(before, logs(stored(0), stored(1), stored(2), LogletTrimmed(LOGLET, 2))) == set()
    assert restarted(before, logs(VersionFloor(LOGLET.version + 1))) == set()
