"""The LogServer core: what it accepts, what it answers, and when."""

from __future__ import annotations

import pytest

from tests.loglets.native.core.log_server_bench import SEGMENT, Server, state_of, stored_of, wave_of
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import CorruptionError, DiskFullError, MalformedError, UnavailableError
from virtuallog_loglets.native.core.durable_state import LogletSealed, encode
from virtuallog_loglets.native.core.log_server import WAIT_TICKS, WAITERS_MAX
from virtuallog_loglets.native.core.log_server_effects import NativeAnswer, NativeFail, NativePersist
from virtuallog_loglets.native.messages import (
    NativeReadWaves,
    NativeSeal,
    NativeStore,
    NativeTrim,
    NativeWaitTail,
)


def test_a_store_is_answered_once_it_is_durable() -> None:
    """P1 4.2.1: locally committed means written and synced; only then does the server say so."""
    server, wave = Server(), wave_of(0, 2)

    effects = server.core.step(NativeStore(segment=SEGMENT, wave=wave.blob, known_tail=0), "a")

    (persist,) = effects
    assert isinstance(persist, NativePersist)
    assert persist.records == (encode(wave),)
    assert not persist.essential
    assert server.core.persisted(persist, [1]) == [NativeAnswer("a", stored_of(2))]  # type: ignore[list-item]


def test_the_state_shows_only_what_is_durable() -> None:
    """A reserved wave is invisible until its sync: a crash could still take it away."""
    server = Server()
    server.store(wave_of(0, 2), sync=False)

    assert server.state() == state_of(0)
    server.sync()
    assert server.state() == state_of(2)


def test_item_32_a_wave_that_comes_before_its_predecessor_is_refused_and_changes_nothing() -> None:
    """The local-commit rule: wave n + 1 before wave n is not stored, so it cannot count for what lies below."""
    server = Server()

    assert server.store(wave_of(2)) == stored_of(0, accepted=False)
    assert server.written == []
    assert server.store(wave_of(0, 2)) == stored_of(2)
    assert server.store(wave_of(2)) == stored_of(3)


def test_waves_may_be_reserved_before_their_predecessors_are_durable() -> None:
    """Several waves in flight: the check is against the reserved tail, the answers come in order."""
    server = Server()
    server.store(wave_of(0), sync=False, ticket="a")
    server.store(wave_of(1), sync=False, ticket="b")

    server.sync(1)
    assert server.answers == {"a": stored_of(1)}
    server.sync(1)
    assert server.answers["b"] == stored_of(2)


def test_a_gap_is_legal_if_all_below_is_committed_and_the_known_tail_is_saved_with_it() -> None:
    """A slow server catches up by omission; after a restart it must still know why the gap is legal."""
    server = Server()

    assert server.store(wave_of(5), known_tail=5) == stored_of(6, known_tail=5)
    server.restart()
    assert server.state() == state_of(6, known_tail=5)


def test_item_33_the_same_wave_again_is_accepted_and_not_written_again() -> None:
    """A retry after a lost answer is idempotent."""
    server, wave = Server(), wave_of(0)
    server.store(wave)
    written = len(server.written)

    assert server.store(wave) == stored_of(1)
    assert len(server.written) == written


def test_item_33_the_same_wave_again_is_not_accepted_before_the_first_is_durable() -> None:
    """The second copy of a store must not vouch for what its first copy is still writing."""
    server, wave = Server(), wave_of(0)
    server.store(wave, sync=False, ticket="first")

    assert server.store(wave, sync=False, ticket="second") is None
    server.sync()
    assert server.answers == {"first": stored_of(1), "second": stored_of(1)}


@pytest.mark.parametrize("synced", [True, False])
def test_item_33_other_bytes_at_a_stored_offset_are_fatal(synced: bool) -> None:
    """There must have been two sequencers: the server says so and serves no more."""
    server = Server()
    server.store(wave_of(0, text=b"one"), sync=synced)

    assert isinstance(server.store(wave_of(0, text=b"two"), sync=synced), CorruptionError)
    assert [type(effect) for effect in server.other_effects] == [NativeFail]


def test_waves_that_overlap_without_being_equal_are_fatal() -> None:
    """Wave boundaries are the same everywhere."""
    server = Server()
    server.store(wave_of(0, 4))

    assert isinstance(server.store(wave_of(2, 4)), CorruptionError)


def test_item_29_a_seal_answers_behind_every_store_in_flight() -> None:
    """A store passes the seal test, its sync is slow, a seal arrives: the seal's answer covers the store."""
    server = Server()
    server.store(wave_of(0), sync=False, ticket="store")
    server.seal(sync=False)

    assert server.answers == {}
    server.sync(1)
    assert server.answers == {"store": stored_of(1)}
    server.sync(1)
    assert server.answers["seal"] == state_of(1, sealed=True)


def test_item_29_a_store_behind_a_seal_in_flight_is_refused_once_the_seal_is_durable() -> None:
    """The refusal begins with the request, not with the sync; it says sealed only when that cannot be undone."""
    server = Server()
    server.seal(sync=False)
    server.store(wave_of(0), sync=False, ticket="late")

    assert len(server.queue) == 1
    assert "late" not in server.answers
    server.sync()
    assert server.answers["late"] == stored_of(0, accepted=False, sealed=True)


def test_a_stored_wave_offered_again_after_the_seal_is_not_accepted() -> None:
    """A repair may have put it there; only an acceptance before the seal counts for an acknowledgement."""
    server, wave = Server(), wave_of(0)
    server.seal()
    server.repair(wave)

    assert server.store(wave) == stored_of(1, accepted=False, sealed=True)


def test_a_seal_that_was_not_written_is_not_answered_with_a_state() -> None:
    """Its record found no room, while a later one, of another loglet, did. Who asked again meanwhile had been put behind
    that one, and must not take the answer for a sealed server's."""
    server, other = Server(), SegmentId(4, 1)
    server.seal(sync=False)
    server.ask("other", NativeSeal(segment=other), sync=False)
    server.ask("again", NativeSeal(segment=SEGMENT), sync=False)
    first, second = server.queue

    answers = server.core.failed(first, DiskFullError("full"))
    answers += server.core.persisted(second, [1])  # type: ignore[list-item]

    outcomes = {answer.ticket: answer.outcome for answer in answers if isinstance(answer, NativeAnswer)}
    assert isinstance(outcomes["again"], UnavailableError)
    assert outcomes["other"] == state_of(0, sealed=True)


def test_item_37_seal_waves_trim_and_floor_survive_a_restart() -> None:
    """P1 4.2.1: what a server has said stays true."""
    server = Server()
    server.store(wave_of(0, 2))
    server.store(wave_of(2, 2), known_tail=2)
    server.ask("trim", NativeTrim(segment=SEGMENT, offset=2, known_tail=2))
    server.seal()

    server.restart()

    assert server.state() == state_of(4, sealed=True, known_tail=2, trim=2)
    assert server.core.find(NativeReadWaves(segment=SEGMENT, start=2, stop=4, max_bytes=99)) == [2]
    assert server.store(wave_of(4)) == stored_of(4, accepted=False, sealed=True, known_tail=2)


def test_item_38_the_first_message_to_an_unknown_loglet_may_be_a_seal() -> None:
    """It is created sealed, so that a store which comes later is refused."""
    server = Server()

    assert server.seal() == state_of(0, sealed=True)
    assert server.store(wave_of(0)) == stored_of(0, accepted=False, sealed=True)
    server.restart()
    assert server.state() == state_of(0, sealed=True)


def test_a_question_about_an_unknown_loglet_creates_nothing() -> None:
    """Its state is that of a loglet without entries."""
    server = Server()

    assert server.state() == state_of(0)
    assert server.core.durable.loglets == {}


def test_a_second_seal_waits_for_the_first_to_be_durable() -> None:
    """Two sealers at once; neither is answered early."""
    server = Server()
    server.seal(sync=False, ticket="one")
    server.seal(sync=False, ticket="two")

    assert server.answers == {}
    server.sync()
    assert server.answers == {"one": state_of(0, sealed=True), "two": state_of(0, sealed=True)}
    assert server.seal(ticket="three") == state_of(0, sealed=True)
    assert server.written == [(1, encode(LogletSealed(SEGMENT)))]


def test_item_34_a_repair_is_taken_by_sealed_and_by_unsealed_servers() -> None:
    """Repair bypasses the seal, and a server that is not sealed yet needs no seal for it."""
    unsealed, sealed = Server(), Server()
    sealed.seal()

    assert unsealed.repair(wave_of(0), wave_of(1)) == stored_of(2)
    assert sealed.repair(wave_of(0), wave_of(1)) == stored_of(2, sealed=True)


def test_item_34_a_repair_may_leave_a_gap_below_the_known_tail_of_its_sender() -> None:
    """Repair begins at the known tail: what is below is on a majority already."""
    server = Server()
    server.seal()

    assert server.repair(wave_of(7), known_tail=7) == stored_of(8, sealed=True, known_tail=7)


def test_a_repair_that_does_not_follow_is_refused() -> None:
    """The local-commit rule holds for repairs, too."""
    server = Server()

    assert server.repair(wave_of(7)) == stored_of(0, accepted=False)


def test_a_waiter_is_answered_by_a_durable_wave_a_known_tail_a_seal_or_time() -> None:
    """Each tells it something; a wave on its way does not."""
    server = Server()
    for ticket, past in (("wave", 0), ("known", 5), ("sealed", 9)):
        assert server.ask(ticket, NativeWaitTail(segment=SEGMENT, past=past, known_tail=0)) is None

    server.store(wave_of(0), sync=False)
    assert "wave" not in server.answers
    server.sync()
    assert server.answers["wave"] == state_of(1)
    server.store(wave_of(1), known_tail=6)
    assert server.answers["known"].known_tail == 6
    server.seal()
    assert server.answers["sealed"].sealed


def test_a_waiter_does_not_wait_for_ever() -> None:
    """After some ticks it gets the present state."""
    server = Server()
    server.ask("wait", NativeWaitTail(segment=SEGMENT, past=0, known_tail=0))
    for _ in range(WAIT_TICKS - 1):
        server.run(server.core.tick())
    assert "wait" not in server.answers

    server.run(server.core.tick())

    assert server.answers["wait"] == state_of(0)
    assert server.core.waiting == 0


def test_waiters_are_bounded() -> None:
    """Another one gets the present state at once: a client that needs a tail to go on can still see it come."""
    server = Server()
    for n in range(WAITERS_MAX):
        server.ask(str(n), NativeWaitTail(segment=SEGMENT, past=0, known_tail=0))

    assert server.ask("more", NativeWaitTail(segment=SEGMENT, past=0, known_tail=0)) == state_of(0)
    assert server.core.waiting == WAITERS_MAX


def test_a_full_disk_leaves_no_hole() -> None:
    """A store fails while its successor is on its way: that one is passed over, and both can be offered again."""
    server = Server()
    server.store(wave_of(0), sync=False, ticket="a")
    server.store(wave_of(1), sync=False, ticket="b")
    server.refuse()
    server.sync()

    assert isinstance(server.answers["a"], DiskFullError)
    assert server.answers["b"] == stored_of(0, accepted=False)
    assert server.store(wave_of(0)) == stored_of(1)
    assert server.store(wave_of(1)) == stored_of(2)
    server.restart()
    assert server.state() == state_of(2)


def test_a_seal_that_could_not_be_written_can_be_asked_for_again() -> None:
    """Nothing was promised; stores go on meanwhile."""
    server = Server()
    server.seal(sync=False)
    server.refuse()

    assert isinstance(server.answers["seal"], DiskFullError)
    assert server.store(wave_of(0)) == stored_of(1)
    assert server.seal(ticket="again") == state_of(1, sealed=True)


def test_seals_trims_and_repairs_may_use_the_headroom_of_a_full_disk_and_stores_may_not() -> None:
    """Else a full disk could not be sealed and trimmed, which is the way out."""
    server = Server()
    server.store(wave_of(0), sync=False)
    server.seal(sync=False)
    server.ask("trim", NativeTrim(segment=SEGMENT, offset=1, known_tail=1), sync=False)
    server.run(server.core.forget(2, "forget"))

    assert [persist.essential for persist in server.queue] == [False, True, True, True]


def test_damaged_and_misdirected_waves_are_refused() -> None:
    """Bytes from the network are checked; a wave names its loglet."""
    server, wave = Server(), wave_of(0)
    damaged = wave.blob[:-1] + b"!"

    assert isinstance(server.ask("a", NativeStore(segment=SEGMENT, wave=damaged, known_tail=0)), CorruptionError)
    assert isinstance(server.ask("b", NativeStore(segment=SEGMENT, wave=b"VW", known_tail=0)), MalformedError)
    assert isinstance(
        server.ask("c", NativeStore(segment=SegmentId(9, 9), wave=wave.blob, known_tail=0)), CorruptionError
    )
    assert server.other_effects == []


def test_waves_are_found_by_any_offset_within_and_up_to_a_gap() -> None:
    """Reads begin in the middle of a wave and end before what is not here."""
    server = Server()
    server.store(wave_of(0, 3))
    server.store(wave_of(3, 3))
    server.store(wave_of(9, 3), known_tail=9)

    def found(start: int, stop: int) -> list[int]:
        return list(server.core.find(NativeReadWaves(segment=SEGMENT, start=start, stop=stop, max_bytes=99)))

    assert found(1, 12) == [1, 2]
    assert found(4, 5) == [2]
    assert found(6, 12) == []
    assert found(11, 12) == [4]
    assert found(12, 13) == []
