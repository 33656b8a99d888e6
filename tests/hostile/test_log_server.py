"""Impossible requests to a LogServer: made-up loglets, offsets past the end of all logs, crowds of waiters."""

from __future__ import annotations

import pytest

from tests.loglets.native.core.log_server_bench import SEGMENT, SESSION, Server, batch_of, state_of, stored_of, wave_of
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import MalformedError, OverloadedError
from virtuallog.contract.types import POSITION_MAX
from virtuallog_loglets.native.core import log_server, wave
from virtuallog_loglets.native.core.log_server import LOGLETS_MAX, WAIT_TICKS, WAITERS_MAX
from virtuallog_loglets.native.messages import NativeRepair, NativeSeal, NativeStore, NativeTrim, NativeWaitTail
from virtuallog_loglets.wal import WalSettings
from virtuallog_loglets.wal.core.segment import size_of

BEYOND = POSITION_MAX + 1


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> int:
    """A server that has room for eight loglets."""
    monkeypatch.setattr(log_server, "LOGLETS_MAX", 8)
    return 8


def made_up(number: int) -> SegmentId:
    return SegmentId(1000 + number, number)


def test_made_up_loglets_that_were_only_asked_about_are_forgotten(small: int) -> None:
    """Waiting for the tail of an empty loglet costs a place until the wait is over, and not for ever."""
    server = Server()
    server.store(wave_of(0))
    for number in range(10 * small):
        server.ask(f"wait {number}", NativeWaitTail(segment=made_up(number), past=0, known_tail=0))
        if number % 4 == 3:
            for _ in range(WAIT_TICKS):
                server.run(server.core.tick())

    assert all(server.answers[f"wait {number}"] == state_of(0) for number in range(10 * small))
    assert len(server.core.durable.loglets) <= small
    assert server.store(wave_of(1)) == stored_of(2)


def test_waits_for_made_up_loglets_do_not_keep_seals_and_stores_out(small: int) -> None:
    """Any client may wait. Were there no room for a loglet because of that, no failed sequencer could be replaced."""
    server = Server()
    for number in range(small):
        assert server.ask(f"wait {number}", NativeWaitTail(segment=made_up(number), past=0, known_tail=0)) is None
    assert server.ask("one more", NativeWaitTail(segment=made_up(small), past=0, known_tail=0)) == state_of(0)

    assert server.store(wave_of(0)) == stored_of(1)
    assert all(server.answers[f"wait {number}"] == state_of(0) for number in range(small))
    assert server.core.waiting == 0
    for number in range(small):
        server.ask(f"wait again {number}", NativeWaitTail(segment=made_up(number), past=0, known_tail=0))
    assert server.ask("seal", NativeSeal(segment=made_up(100))) == state_of(0, sealed=True)


def test_who_waits_for_what_is_on_its_way_keeps_its_place(small: int) -> None:
    """A loglet whose first wave is not durable yet is not one that was only asked about."""
    server = Server()
    server.ask("wait", NativeWaitTail(segment=SEGMENT, past=0, known_tail=0))
    server.store(wave_of(0), sync=False)
    for number in range(2 * small):
        server.ask(f"seal {number}", NativeSeal(segment=made_up(number)), sync=False)
    assert "wait" not in server.answers

    server.sync()
    assert server.answers["wait"] == state_of(1)


def test_loglets_beyond_the_limit_are_refused_and_known_ones_go_on(small: int) -> None:
    """Seals of made-up loglets are durable, so they stay; but they end somewhere, and do no harm to others."""
    server = Server()
    server.store(wave_of(0))
    outcomes = [server.ask(f"seal {number}", NativeSeal(segment=made_up(number))) for number in range(small + 3)]

    assert [isinstance(outcome, OverloadedError) for outcome in outcomes] == [False] * (small - 1) + [True] * 4
    assert server.store(wave_of(1)) == stored_of(2)
    server.restart()
    assert isinstance(server.ask("again", NativeSeal(segment=made_up(small))), OverloadedError)
    assert server.store(wave_of(2)) == stored_of(3)


def test_room_comes_back_when_loglets_are_dropped(small: int) -> None:
    """Loglets below the lowest live version are forgotten, made up or not."""
    server = Server()
    for number in range(small):
        server.ask(f"seal {number}", NativeSeal(segment=made_up(number)))
    server.run(server.core.forget(1004, "forget"))
    server.sync()

    assert server.ask("seal", NativeSeal(segment=made_up(small))) == state_of(0, sealed=True)


def test_all_the_loglets_there_may_be_fit_into_a_snapshot() -> None:
    """A snapshot that does not fit would end the LogServer: its log could not go on to the next segment."""
    server = Server()
    for number in range(LOGLETS_MAX):
        server.core.durable.loglet(made_up(number))

    assert size_of(server.core.durable.snapshot()) < WalSettings().snapshot_bytes_max / 4


@pytest.mark.parametrize(
    "request_",
    [
        NativeStore(segment=SEGMENT, wave=wave_of(0).blob, known_tail=BEYOND),
        NativeRepair(segment=SEGMENT, waves=(wave_of(0).blob,), known_tail=BEYOND),
        NativeWaitTail(segment=SEGMENT, past=0, known_tail=BEYOND),
        NativeTrim(segment=SEGMENT, offset=0, known_tail=BEYOND),
        NativeTrim(segment=SEGMENT, offset=BEYOND, known_tail=0),
    ],
    ids=["store", "repair", "wait", "trim", "trim offset"],
)
def test_what_cannot_be_an_offset_is_refused_and_not_remembered(
    request_: NativeStore | NativeRepair | NativeWaitTail | NativeTrim,
) -> None:
    """It would be sent to all readers, and fit into no position of the log."""
    server = Server()

    assert isinstance(server.ask("odd", request_), MalformedError)
    assert server.state() == state_of(0)
    assert server.written == []


@pytest.mark.parametrize("first", [POSITION_MAX, POSITION_MAX - 1, (1 << 64) - 2])
def test_wave_past_the_end_of_all_logs_is_refused(first: int) -> None:
    """Sound by its checksum; as an offset it fits into no index."""
    batches = [batch_of(2, 0, SESSION)]
    blob = wave.build(segment=SEGMENT, first=first, known_tail=0, time_ms=5, batches=batches).blob
    server = Server()

    assert isinstance(server.ask("odd", NativeRepair(segment=SEGMENT, waves=(blob,), known_tail=0)), MalformedError)
    assert server.store(wave_of(0)) == stored_of(1)


def test_crowd_of_waiters_is_answered_in_one_go() -> None:
    """As many as may wait, all for the same tail: one pass over them, when it comes."""
    server = Server()
    for number in range(WAITERS_MAX):
        server.ask(f"wait {number}", NativeWaitTail(segment=SEGMENT, past=0, known_tail=0))
    server.store(wave_of(0))

    assert server.answers["wait 0"] == server.answers[f"wait {WAITERS_MAX - 1}"] == state_of(1)
    assert server.core.waiting == 0
