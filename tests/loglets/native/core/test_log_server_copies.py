"""The core of a log server: copies of what other servers have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.loglets.native.core.log_server_bench import SEGMENT, Server, state_of, stored_of, wave_of
from virtuallog.contract.errors import DiskFullError, UnavailableError
from virtuallog_loglets.native.core.log_server_effects import NativeAnswer
from virtuallog_loglets.native.core.wave import Wave
from virtuallog_loglets.native.messages import (
    NativeGetState,
    NativeReadWaves,
    NativeRepair,
    NativeSeal,
    NativeTrim,
    NativeWaitTail,
)

OLD_SEGMENTS = [NativeGetState, NativeSeal, lambda segment: NativeWaitTail(segment=segment, past=-1, known_tail=0)]


@pytest.mark.parametrize("make", OLD_SEGMENTS, ids=["state", "seal", "wait"])
def test_a_server_does_not_speak_for_the_disk_whose_place_it_took(make: Callable[..., Any]) -> None:
    """BookKeeper's limbo: "nothing here" from a server that may have forgotten would lose what a
    majority had."""
    server = Server()
    server.core.joined = SEGMENT.version

    (answer,) = server.core.step(make(segment=SEGMENT), "a")

    assert isinstance(answer, NativeAnswer)
    assert isinstance(answer.outcome, UnavailableError)
    assert server.store(wave_of(0)) != stored_of(1)
    assert server.core.find(NativeReadWaves(segment=SEGMENT, start=0, stop=9, max_bytes=1)) == []


def test_a_loglet_of_later_is_served_as_by_anybody() -> None:
    """A server has seen everything of a loglet that was created after it joined."""
    server = Server()
    server.core.joined = SEGMENT.version - 1

    assert server.store(wave_of(0, 2)) == stored_of(2)
    assert server.state() == state_of(2)


COPY = NativeSeal(segment=SEGMENT, rebuilds=True)


WHOLE = NativeSeal(segment=SEGMENT, rebuilds=True, whole=True)


def copied(server: Server, *waves: Wave) -> Any:
    """One piece of a copy."""
    blobs = tuple(wave.blob for wave in waves)
    return server.ask(
        f"piece {len(server.answers)}",
        NativeRepair(segment=SEGMENT, waves=blobs, known_tail=waves[0].first, rebuilds=True),
    )


def test_what_was_copied_to_a_server_that_joined_later_is_served() -> None:
    """Re-replication says when all of it is there; from then on, also after a restart, the server
    has the loglet."""
    server = Server()
    server.core.joined = SEGMENT.version

    assert server.ask("begin", COPY) == state_of(0)
    assert copied(server, wave_of(0), wave_of(1)) == stored_of(2)
    assert server.ask("end", WHOLE) == state_of(2, sealed=True, known_tail=0)
    server.restart()
    server.core.joined = SEGMENT.version
    assert server.state() == state_of(2, sealed=True, known_tail=0)


def test_half_a_copy_says_nothing_and_gets_no_hole() -> None:
    """Neither a tail check nor a trim counts on it; a repair by a tail check, which skips what is committed, is refused: what
    it skips could never be copied any more."""
    server, segment = Server(), SEGMENT
    server.core.joined = SEGMENT.version
    server.ask("begin", COPY)
    copied(server, wave_of(0))

    assert isinstance(server.ask("state", NativeGetState(segment=segment)), UnavailableError)
    assert isinstance(server.ask("trim", NativeTrim(segment=segment, offset=1, known_tail=3)), UnavailableError)
    assert isinstance(server.repair(wave_of(3), known_tail=3), UnavailableError)
    assert isinstance(server.store(wave_of(1)), UnavailableError)
    assert server.ask("again", COPY) == state_of(1)
    assert copied(server, wave_of(1), wave_of(2), wave_of(3)) == stored_of(4, known_tail=1)
    assert len(server.core.find(NativeReadWaves(segment=segment, start=0, stop=4, max_bytes=1))) == 4


def test_a_copy_is_whole_once_the_record_that_says_so_is_durable() -> None:
    """Until then, and if the disk has no room for it, the server still knows nothing: least of all that it is not sealed."""
    server = Server()
    server.core.joined = SEGMENT.version
    server.ask("begin", COPY)

    server.ask("end", WHOLE, sync=False)
    assert isinstance(server.ask("meanwhile", NativeGetState(segment=SEGMENT), sync=False), UnavailableError)
    server.refuse()
    assert isinstance(server.answers["end"], DiskFullError)
    assert isinstance(server.ask("afterwards", NativeGetState(segment=SEGMENT)), UnavailableError)
    assert isinstance(server.store(wave_of(9), known_tail=9), UnavailableError)
    assert server.ask("once more", WHOLE) == state_of(0, sealed=True)
