"""The core of a log server: trims."""

from __future__ import annotations

import pytest

from tests.loglets.native.core.log_server_bench import SEGMENT, Server, state_of, stored_of, wave_of
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import SealedError
from virtuallog_loglets.native.core.log_server_effects import DropBefore
from virtuallog_loglets.native.messages import NativeReadWaves, NativeSeal, NativeTrim, NativeWaitTail


def test_item_40_a_trim_is_clamped_to_what_is_committed() -> None:
    """Trimming past the known tail would drop entries that no server has yet."""
    server = Server()
    server.store(wave_of(0, 4))

    assert server.ask("a", NativeTrim(segment=SEGMENT, offset=4, known_tail=3)) == state_of(4, known_tail=3, trim=3)
    assert server.ask("b", NativeTrim(segment=SEGMENT, offset=2, known_tail=4)) == state_of(4, known_tail=4, trim=3)


def test_item_40_a_trim_beyond_the_local_tail_does_not_raise_it() -> None:
    """A server that lags learns that its past is not needed; that does not mean it had it."""
    server = Server()
    server.store(wave_of(0))

    assert server.ask("a", NativeTrim(segment=SEGMENT, offset=9, known_tail=9)) == state_of(1, known_tail=9, trim=9)


def test_item_40_the_local_tail_survives_a_full_trim_and_a_restart() -> None:
    """Even when no wave is left, and when the segments that held them are gone."""
    server = Server()
    server.store(wave_of(0, 4))
    server.ask("a", NativeTrim(segment=SEGMENT, offset=4, known_tail=4))
    server.written = [(100 + n, record) for n, record in enumerate(server.core.durable.snapshot())]  # type: ignore[misc]

    server.restart()

    assert server.state() == state_of(4, known_tail=4, trim=4)


def test_a_snapshot_says_all_there_is_to_know_but_for_the_waves() -> None:
    """It replaces the WAL segments before it, which may hold the seal, the trim and the floor."""
    server, younger = Server(), SegmentId(9, 9)
    server.store(wave_of(0, 4))
    server.ask("trim", NativeTrim(segment=SEGMENT, offset=3, known_tail=4))
    server.seal()
    server.store(wave_of(0, segment=younger))
    server.run(server.core.forget(2, "forget"))
    server.sync()
    server.written = [(100 + n, record) for n, record in enumerate(server.core.durable.snapshot())]  # type: ignore[misc]

    server.restart()

    assert server.state() == state_of(4, sealed=True, known_tail=3, trim=3), "of the known tail, what a gap needs"
    assert server.core.state(younger) == state_of(1)
    assert server.core.durable.lowest_live_version == 2


def test_a_trimmed_wave_is_accepted_and_not_stored() -> None:
    """A late copy of a store below the trim point: everything below is committed."""
    server = Server()
    server.ask("trim", NativeTrim(segment=SEGMENT, offset=9, known_tail=9))
    written = len(server.written)

    assert server.store(wave_of(2)) == stored_of(0, known_tail=9)
    assert len(server.written) == written


def test_a_trim_frees_the_wal_up_to_the_first_wave_that_is_still_needed() -> None:
    """By any loglet."""
    server, other = Server(), SegmentId(4, 4)
    for n in range(3):
        server.store(wave_of(n))
    server.store(wave_of(0, segment=other))

    server.ask("trim", NativeTrim(segment=SEGMENT, offset=2, known_tail=3))

    assert server.other_effects == [DropBefore(3)]  # type: ignore[arg-type]


def test_a_dropped_loglet_is_refused_and_not_created_again() -> None:
    """The durable floor outlives the loglet: a late store or seal finds nothing and makes nothing."""
    server = Server()
    server.store(wave_of(0))
    server.run(server.core.forget(4, "forget"))
    assert isinstance(server.store(wave_of(1)), SealedError), "in force at once"
    server.sync()

    assert server.answers["forget"] is None
    assert server.core.durable.loglets == {}
    server.restart()
    assert isinstance(server.store(wave_of(0)), SealedError)
    assert isinstance(server.ask("seal", NativeSeal(segment=SEGMENT)), SealedError)
    with pytest.raises(SealedError):
        server.core.find(NativeReadWaves(segment=SEGMENT, start=0, stop=1, max_bytes=1))


def test_a_waiter_of_a_dropped_loglet_learns_that_it_is_gone() -> None:
    """It would wait in vain."""
    server = Server()
    server.ask("wait", NativeWaitTail(segment=SEGMENT, past=0, known_tail=0))
    server.run(server.core.forget(4, "forget"))
    server.sync()

    assert isinstance(server.answers["wait"], SealedError)
    assert server.core.waiting == 0
