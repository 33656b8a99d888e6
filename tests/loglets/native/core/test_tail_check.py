"""The tail check: five states, the R2 round, repair. P1 figure 6; specs/delos.md, section 5.3."""

from __future__ import annotations

from tests.loglets.native.core.log_server_bench import config_of, state_of, stored_of, wave_of
from virtuallog.contract.errors import ReconfigurationNeededError
from virtuallog.contract.types import NodeId, Open, Sealed
from virtuallog_loglets.native.core.suffix_repair import Complete, Fetch
from virtuallog_loglets.native.core.tail_check import GiveUp, NativeAsk, NativeFinish, NativeQuestion, NativeTailCheck

S1, S2, S3, S4, S5 = (NodeId(n) for n in range(1, 6))
ALL = (S1, S2, S3)


def check(servers: int = 3, known_tail: int = 0) -> NativeTailCheck:
    core = NativeTailCheck(config_of(servers), known_tail)
    assert core.begin() == [NativeAsk(1, NativeQuestion.STATE, config_of(servers).servers)]
    return core


def test_item_27_none_sealed_and_all_there_is_final() -> None:
    """A majority that has X and is not sealed needs no further proof: every sealed majority shares a server with it."""
    core = check()

    assert core.answer(1, S1, state_of(5)) == []
    assert core.answer(1, S2, state_of(5)) == [NativeFinish(Open(5))]
    assert core.known_tail == 5


def test_item_27_none_sealed_and_tails_differ_waits_for_the_highest() -> None:
    """P1: the higher one may have been acknowledged, by a majority that did not answer."""
    core = check()
    core.answer(1, S1, state_of(5))

    assert core.answer(1, S3, state_of(4)) == [NativeAsk(2, NativeQuestion.WAIT, ALL, past=4)]
    assert core.answer(2, S3, state_of(5)) == [NativeFinish(Open(5))]


def test_a_wait_that_brings_nothing_is_repeated_for_that_server_only() -> None:
    """Its time was up, or too many wait there; the others are still being waited for."""
    core = check()
    core.answer(1, S1, state_of(5))
    core.answer(1, S3, state_of(4))

    assert core.answer(2, S3, state_of(4)) == [NativeAsk(2, NativeQuestion.WAIT, (S3,), past=4, pause=True)]
    assert core.answer(2, S1, state_of(5)) == []


def test_with_all_servers_heard_a_lone_entry_need_not_be_waited_for() -> None:
    """An entry that only one of three servers has cannot have been acknowledged."""
    core = check()
    core.answer(1, S1, state_of(5))
    core.answer(1, S3, state_of(4))

    assert core.answer(2, S2, state_of(4)) == [NativeFinish(Open(4))]


def test_item_30_a_target_that_is_committed_by_hearsay_needs_a_fresh_majority_that_is_not_sealed() -> None:
    """The R2 round: a known tail says nothing about seals."""
    core = check()
    core.answer(1, S1, state_of(5))
    core.answer(1, S3, state_of(4))

    assert core.answer(2, S3, state_of(4, known_tail=5)) == [NativeAsk(3, NativeQuestion.STATE, ALL)]
    assert core.answer(2, S2, state_of(5)) == [], "an answer to an earlier round is not fresh"
    assert core.answer(3, S3, state_of(4)) == []
    assert core.answer(3, S1, state_of(5)) == [NativeFinish(Open(5))]


def test_item_30_the_known_tail_that_the_client_brings_needs_the_fresh_majority_too() -> None:
    """N = 3 with one known tail shared by all operations of a process: the second modelled trace."""
    core = check(known_tail=1)
    core.answer(1, S1, state_of(0))

    assert core.answer(1, S3, state_of(1)) == [NativeAsk(2, NativeQuestion.STATE, ALL)]
    assert core.answer(2, S1, state_of(0, sealed=True)) == [NativeAsk(3, NativeQuestion.SEAL, ALL)]


def test_item_30_five_servers_and_a_repair_behind_the_back_of_the_check() -> None:
    """The first modelled trace. O reads s1 (tail 0) and s4 (tail 1), both unsealed. R seals s1, s2, s3 and installs stop
    0. Another client seals s4, repairs entry 0, and its known tail 1 reaches the unsealed s5, which tells O. Without
    R2 the answer would be Open(1), although the segment ended at 0."""
    core, everybody = check(5), (S1, S2, S3, S4, S5)
    core.answer(1, S1, state_of(0))
    core.answer(1, S4, state_of(1))
    assert core.answer(1, S5, state_of(0)) == [NativeAsk(2, NativeQuestion.WAIT, everybody, past=0)]

    assert core.answer(2, S5, state_of(0, known_tail=1)) == [NativeAsk(3, NativeQuestion.STATE, everybody)]
    core.answer(3, S5, state_of(0, known_tail=1))
    assert core.answer(3, S2, state_of(0, sealed=True)) == [NativeAsk(4, NativeQuestion.SEAL, everybody)]


def test_item_27_some_sealed_seals_the_rest_and_looks_again() -> None:
    """Only answers of sealed servers count from then on."""
    core = check()
    core.answer(1, S1, state_of(5))

    assert core.answer(1, S2, state_of(5, sealed=True)) == [NativeAsk(2, NativeQuestion.SEAL, ALL)]
    assert core.answer(1, S3, state_of(9, sealed=True)) == [], "of an earlier round"
    assert core.answer(2, S1, state_of(5, sealed=True)) == []
    assert core.answer(2, S2, state_of(5, sealed=True)) == [NativeFinish(Sealed(5))]


def test_a_sealed_majority_is_not_asked_again() -> None:
    """A reconfiguration checks right after its seal, while the third server's seal may still be on its way."""
    core = check()
    core.answer(1, S1, state_of(5, sealed=True))

    assert core.answer(1, S3, state_of(5, sealed=True)) == [NativeFinish(Sealed(5))]
    assert core.answer(1, S2, state_of(4)) == []


def test_item_27_a_seal_that_lands_during_the_wait_is_noticed() -> None:
    """The waiting state leaves towards `some sealed`."""
    core = check()
    core.answer(1, S1, state_of(5))
    core.answer(1, S3, state_of(4))

    assert core.answer(2, S3, state_of(4, sealed=True)) == [NativeAsk(3, NativeQuestion.SEAL, ALL)]


def test_item_28_whatever_majority_is_sealed_the_acknowledged_is_below_the_tail() -> None:
    """An entry on s1 and s2: both sealed majorities that lack one of them still find it."""
    for others, tails in (((S1, S3), (1, 0)), ((S2, S3), (1, 0))):
        core = check()
        core.answer(1, others[1], state_of(tails[1], sealed=True))
        assert core.answer(1, others[0], state_of(tails[0], sealed=True)) == [Fetch(others[0], 0, 1)]


def sealed_apart(known_tail: int = 0) -> NativeTailCheck:
    """s1 has [0, 3), s2 has [0, 1); both are sealed, and a repair has begun."""
    core = check()
    core.answer(1, S1, state_of(3, sealed=True, known_tail=known_tail))
    assert core.answer(1, S2, state_of(1, sealed=True)) == [Fetch(S1, max(1, known_tail), 3)]
    return core


def test_item_27_all_sealed_and_tails_differ_repairs_ascending_and_then_is_final() -> None:
    """P1: copy from any holder, bypassing the seal, until a majority has everything below X."""
    core, one, two = sealed_apart(), wave_of(1), wave_of(2)

    assert core.fetched(S1, [one]) == [Complete(S2, (one,), 0)]
    assert core.completed(S2, stored_of(2, sealed=True)) == [Fetch(S1, 2, 3)]
    assert core.fetched(S1, [two]) == [Complete(S2, (two,), 0)]
    assert core.completed(S2, stored_of(3, sealed=True)) == [NativeFinish(Sealed(3))]
    assert core.known_tail == 3


def test_item_34_repair_begins_at_the_known_tail() -> None:
    """Below, everything is on a majority; the message says so, and the target may leave a gap."""
    core, wave = sealed_apart(known_tail=2), wave_of(2)

    assert core.fetched(S1, [wave]) == [Complete(S2, (wave,), 2)]


def test_item_34_repair_begins_at_the_trim_point() -> None:
    """Trimmed entries are available nowhere, and not needed."""
    core = check()
    core.answer(1, S1, state_of(3, sealed=True, known_tail=2, trim=2))

    assert core.answer(1, S2, state_of(0, sealed=True)) == [Fetch(S1, 2, 3)]


def test_repair_never_goes_past_the_tail_it_was_begun_for() -> None:
    """The offsets beyond are outside this check: another client may meanwhile have repaired a
    holder further."""
    core, one, two, beyond = sealed_apart(), wave_of(1), wave_of(2), wave_of(3)

    assert core.fetched(S1, [one, two, beyond]) == [Complete(S2, (one, two), 0)]


def test_item_34_a_repair_that_cannot_go_on_begins_anew() -> None:
    """The only holder has nothing to give, or the target refuses: ask again rather than fail."""
    core = sealed_apart()
    assert core.fetched(S1, []) == [NativeAsk(2, NativeQuestion.SEAL, ALL, pause=True)]

    core = sealed_apart()
    core.fetched(S1, [wave_of(1)])
    assert core.completed(S2, stored_of(1, accepted=False, sealed=True)) == [
        NativeAsk(2, NativeQuestion.SEAL, ALL, pause=True)
    ]


def test_item_34_two_concurrent_repairs_do_not_disturb_each_other() -> None:
    """The other one has raised the target's tail meanwhile: the answer says so, and that is that."""
    core = sealed_apart()
    core.fetched(S1, [wave_of(1)])

    assert core.completed(S2, stored_of(3, sealed=True)) == [NativeFinish(Sealed(3))]


def test_item_34_what_is_known_to_be_committed_needs_no_repair() -> None:
    """Another client has repaired it on servers that do not answer: of those that answer only one
    has it, for ever.

    (Found by the simulator: the check asked the same three servers again and again.)
    """
    core = check(5)
    core.answer(1, S1, state_of(0, sealed=True))
    core.answer(1, S4, state_of(1, sealed=True))

    assert core.answer(1, S5, state_of(0, sealed=True, known_tail=1)) == [NativeFinish(Sealed(1))]


def test_item_40_copies_of_what_was_trimmed_as_a_whole_end_where_it_did() -> None:
    """A closed loglet may move when nothing is left to copy: the newcomers have no entry, and know of the trim."""
    core = check()
    core.answer(1, S1, state_of(0, sealed=True, known_tail=11, trim=11))

    assert core.answer(1, S2, state_of(0, sealed=True, known_tail=11, trim=11)) == [NativeFinish(Sealed(11))]


def test_item_34_repair_from_a_server_with_gaps_takes_another_holder() -> None:
    """Five servers; the first holder lacks the wave, the second has it."""
    core = check(5)
    core.answer(1, S1, state_of(0, sealed=True))
    core.answer(1, S2, state_of(2, sealed=True))

    assert core.answer(1, S3, state_of(2, sealed=True)) == [Fetch(S2, 0, 2)]
    assert core.fetched(S2, []) == [Fetch(S3, 0, 2)]
    both = (wave_of(0), wave_of(1))
    assert core.fetched(S3, both) == [Complete(S1, both, 0)]
    assert core.completed(S1, stored_of(2, sealed=True)) == [NativeFinish(Sealed(2))]


def test_a_target_that_does_not_answer_is_waited_for_with_the_others_and_then_all_are_asked_again() -> None:
    """Another server may make up the majority next time; answers of this repair must not reach the next one."""
    core, everybody, wave = check(5), (S1, S2, S3, S4, S5), wave_of(0)
    core.answer(1, S1, state_of(1, sealed=True))
    for server in (S2, S3):
        core.answer(1, server, state_of(0))
    core.answer(2, S1, state_of(1, sealed=True))
    core.answer(2, S2, state_of(0, sealed=True))
    assert core.answer(2, S3, state_of(0, sealed=True)) == [Fetch(S1, 0, 1)]
    assert core.fetched(S1, [wave]) == [Complete(S2, (wave,), 0), Complete(S3, (wave,), 0)]

    assert core.completed(S2, None) == []
    assert core.completed(S3, stored_of(1, sealed=True)) == [NativeAsk(3, NativeQuestion.SEAL, everybody, pause=True)]


def test_item_39_a_dead_sequencer_is_noticed() -> None:
    """Tails differ, no server is sealed, and the entries are not completed: a seal is needed."""
    core = check()
    core.answer(1, S1, state_of(5))
    core.answer(1, S3, state_of(4))

    (give_up,) = core.waited_long()

    assert isinstance(give_up, GiveUp)
    assert isinstance(give_up.error, ReconfigurationNeededError)


def test_a_check_that_does_not_wait_cannot_have_waited_long() -> None:
    """The driver's timer may fire while a round is on its way."""
    assert check().waited_long() == []
