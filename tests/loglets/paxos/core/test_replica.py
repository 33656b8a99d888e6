"""The rules of a replica, row by row of the table in docs/internals/protocols/paxos.md; and what bounds it."""

from __future__ import annotations

import attrs
import pytest

from tests.loglets.paxos.core.replica_bench import (
    LOG,
    NODE,
    K,
    N,
    decide,
    learn,
    payload,
    persists,
    promise,
    step,
    voting,
    write,
    written_to,
)
from virtuallog.contract.errors import CorruptionError, UnavailableError
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.core.effects import PaxosAnswer, PaxosFail, PaxosPersist
from virtuallog_loglets.paxos.core.replica import Replica
from virtuallog_loglets.paxos.messages import (
    NO_NODE,
    NOWHERE,
    Decided,
    Incarnation,
    Learn,
    PaxosRecord,
    PaxosRecover,
    PaxosWrite,
    PaxosWritten,
    Promise,
    Promised,
    Status,
    TrimSealed,
    Verdict,
)

# -- promises -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [Status.EMPTY, Status.STARTING, Status.RECOVERING])
def test_who_does_not_vote_ignores(status: Status) -> None:
    """It echoes the number, which may be tried again, and stores nothing. Decisions are learned all the same."""
    replica = Replica(LOG, NODE, 5, status)
    for answer in (promise(replica, 7), promise(replica, 7, 0, 3), write(replica, 7, 0, b"a")):
        assert (answer.verdict, answer.proposal) == (Verdict.IGNORED, 7)
    assert (replica.promised, replica.end, replica.coordinator) == (0, 0, NO_NODE)

    assert learn(replica, 0, values.nop()).learned == 1


def test_a_number_is_promised_once() -> None:
    """Implicitly: for every position without a record. An equal number is refused, as it may be another proposer's."""
    replica = voting()
    assert promise(replica, 2) == Promised(
        verdict=Verdict.ACCEPT, proposal=2, end=0, records=(), incarnation=5, incarnations=(), coordinator=K
    )
    for number in (1, 2):
        answer = promise(replica, number)
        assert (answer.verdict, answer.proposal, answer.coordinator) == (Verdict.REJECT, 2, K)
    assert promise(replica, 3).verdict is Verdict.ACCEPT


def test_a_promise_is_durable_before_it_is_told() -> None:
    """The implicit one is in the header, an explicit one in the record of each position."""
    request = Promise(segment=LOG, proposal=2, coordinator=K)
    assert persists(voting(), request) == [PaxosPersist()]
    explicit = attrs.evolve(request, first=4, stop=6)
    assert persists(voting(), explicit) == [
        PaxosPersist((PaxosRecord(position=4, promised=2), PaxosRecord(position=5, promised=2)))
    ]


def test_an_explicit_promise_respects_the_implicit_one() -> None:
    """This holds where there is no record; otherwise an old explicit proposer and an elected
    coordinator could both own a position."""
    replica = voting()
    promise(replica, 5)

    assert (promise(replica, 5, 3, 4).verdict, promise(replica, 5, 3, 4).proposal) == (Verdict.REJECT, 5)
    assert promise(replica, 6, 3, 4).verdict is Verdict.ACCEPT
    assert replica.promised == 5, "an explicit promise concerns its positions only"
    assert (replica.end, promise(replica, 6, 3, 4).proposal) == (3, 6)


def test_an_explicit_promise_tells_what_was_there() -> None:
    """The answer has the record as it was before. The promise may be given although the implicit
    one is higher by then."""
    replica = written_to(2)
    promise(replica, 9)
    answer = promise(replica, 2, 0, 2)

    assert answer.verdict is Verdict.ACCEPT
    assert [(record.position, record.promised, record.performed, record.learned) for record in answer.records] == [
        (0, 1, 1, False),
        (1, 1, 1, False),
    ]
    kept = [replica.slots.open_record(place) for place in (0, 1)]
    assert [record.promised for record in kept if record is not None] == [2, 2]


def test_one_position_that_refuses_keeps_all_as_they_were() -> None:
    """A promise for a range holds for all of it or for nothing, and the answer says what number would do."""
    replica = voting()
    promise(replica, 4, 1, 2)
    promise(replica, 7, 2, 3)
    before = replica.standing()

    answer = promise(replica, 5, 0, 4)

    assert (answer.verdict, answer.proposal) == (Verdict.REJECT, 7), "the highest in the way"
    assert replica.standing() == before
    assert replica.slots.open_record(1) == PaxosRecord(position=1, promised=4)


def test_what_is_decided_is_told_whatever_the_number_is() -> None:
    """Defect 6 of Mesos, where it costs a retry. A truncated position is a learned tombstone (5: there it was silence)."""
    replica = written_to(4, number=9)
    decide(replica, 9, 0, 4)
    learn(replica, 4, values.truncate(2, 1))
    before = replica.standing()

    answer = promise(replica, 1, 0, 5)

    assert answer.verdict is Verdict.ACCEPT
    assert [values.kind_of(record.value).name for record in answer.records] == [
        "NOP",
        "NOP",
        "APPEND",
        "APPEND",
        "TRUNCATE",
    ]
    assert [values.is_tombstone(record.value) for record in answer.records] == [True, True, False, False, False]
    assert all(record.learned for record in answer.records)
    assert replica.standing() == before


# -- writes ---------------------------------------------------------------------------------------------------------------


def test_a_write_with_the_promised_number_is_accepted() -> None:
    """The records are durable before the vote is sent, and carry the promise."""
    replica = voting()
    promise(replica, 3)
    request = PaxosWrite(segment=LOG, proposal=3, coordinator=K, first=0, values=(values.nop(), values.append(b"a", 1)))
    accepted = tuple(PaxosRecord(position=p, promised=3, performed=3, value=v) for p, v in enumerate(request.values))

    assert replica.step(request, "asker") == [
        PaxosPersist(accepted),
        PaxosAnswer(
            "asker",
            PaxosWritten(
                verdict=Verdict.ACCEPT, proposal=3, end=1, records=(), incarnation=5, incarnations=(), coordinator=K
            ),
        ),
    ]


def test_a_write_below_a_promise_is_refused_whole() -> None:
    """The implicit promise refuses it, or that of any of its positions."""
    replica = voting()
    promise(replica, 3)
    assert (write(replica, 2, 0, b"a").verdict, replica.end) == (Verdict.REJECT, 0)
    promise(replica, 9, 1, 2)
    answer = write(replica, 5, 0, b"a", b"b")

    assert (answer.verdict, answer.proposal) == (Verdict.REJECT, 9)
    assert payload(replica, 0) is None


def test_accepting_raises_the_promise_of_the_position() -> None:
    """Defect 1 of Mesos: N was promised 2 by others, and writes here; K, elected with 1, must not overwrite that."""
    replica = voting()
    promise(replica, 1)
    assert write(replica, 2, 0, b"x", coordinator=N).verdict is Verdict.ACCEPT

    assert write(replica, 1, 0, b"y").verdict is Verdict.REJECT
    assert payload(replica, 0) == b"x"
    assert replica.promised == 1, "of the position: a fill must not turn a coordinator out"


def test_a_write_that_comes_twice_is_accepted_twice() -> None:
    """The answer to the first may be lost; a later number then replaces the value."""
    replica = voting()
    assert write(replica, 1, 0, b"a") == write(replica, 1, 0, b"a")
    assert write(replica, 2, 0, b"b").verdict is Verdict.ACCEPT
    assert payload(replica, 0) == b"b"


def test_a_number_has_one_value_per_position() -> None:
    """All that is inferred from numbers rests on it. Two values are never both taken."""
    replica = written_to(1)
    outcome = step(
        replica, PaxosWrite(segment=LOG, proposal=1, coordinator=N, first=0, values=(values.append(b"b", 1),))
    )
    assert isinstance(outcome, CorruptionError)
    assert payload(replica, 0) == b"a"


def test_what_is_decided_is_never_written_over() -> None:
    """This holds for any number. The answer has the decisions, with tombstones for truncated
    positions; the rest of the request is stored."""
    replica = written_to(4)
    decide(replica, 1, 0, 4)
    learn(replica, 4, values.truncate(1, 1))

    answer = write(replica, 9, 0, b"x", b"a", b"x", b"a", b"x", b"new")

    assert answer.verdict is Verdict.ACCEPT
    assert [record.position for record in answer.records] == [0, 1, 2, 3, 4]
    assert values.is_tombstone(answer.records[0].value)
    assert (payload(replica, 5), replica.learned) == (b"new", 5)


# -- learning -------------------------------------------------------------------------------------------------------------


def test_decided_marks_what_was_accepted_with_that_number_or_a_higher_one() -> None:
    """A lower one may have had another value. What was only promised is nothing."""
    replica = voting()
    write(replica, 1, 0, b"a")
    write(replica, 2, 1, b"b")
    write(replica, 3, 2, b"c")
    promise(replica, 4, 3, 4)

    standing = decide(replica, 2, 0, 4)

    assert replica.missing(0, 4) == [range(1), range(3, 4)]
    assert (standing.learned, standing.end) == (0, 3)
    assert decide(replica, 1, 0, 1).learned == 3


def test_decided_rides_on_a_write_that_is_refused() -> None:
    """The decision is true although the write is refused."""
    replica = written_to(2)
    promise(replica, 9)
    late = PaxosWrite(
        segment=LOG,
        proposal=1,
        coordinator=K,
        first=2,
        values=(values.nop(),),
        decided=Decided(proposal=1, first=0, stop=2),
    )
    assert step(replica, late).verdict is Verdict.REJECT
    assert replica.learned == 2


def test_decided_of_everything_that_can_be_takes_no_time() -> None:
    """The replica visits only positions that it has, for any range in the request."""
    replica = written_to(3)
    assert decide(replica, 1, 0, 1 << 46).learned == 3


def test_two_decisions_for_one_position_end_the_replica() -> None:
    """A replica has forgotten a promise, so nothing here can be trusted."""
    replica = written_to(1)
    decide(replica, 1, 0, 1)
    other = PaxosRecord(position=0, promised=2, performed=2, value=values.append(b"b", 1), learned=True)
    effects = replica.step(Learn(segment=LOG, records=(other,)), "asker")
    failed, answered = effects
    assert isinstance(failed, PaxosFail)
    assert isinstance(failed.error, CorruptionError)
    assert isinstance(answered, PaxosAnswer)


def test_what_is_on_the_disk_is_not_stored_again() -> None:
    """A decision that was accepted here costs no write; another one replaces what was accepted."""
    replica = written_to(2)
    same, other = (
        PaxosRecord(position=place, promised=1, performed=1, value=values.append(data, 1), learned=True)
        for place, data in ((0, b"a"), (1, b"b"))
    )
    assert persists(replica, Learn(segment=LOG, records=(same,))) == []
    assert persists(replica, Learn(segment=LOG, records=(other,))) == [PaxosPersist((other,))]
    assert replica.learned == 2


def test_truncation_drops_ranges_and_begin_never_goes_back() -> None:
    """A truncation drops hundreds of millions at once; an older one that is learned later changes nothing."""
    replica = written_to(3)
    far = 600_020_000
    request = Learn(
        segment=LOG,
        records=(
            PaxosRecord(position=far, promised=1, performed=1, value=values.truncate(600_000_000, 1), learned=True),
        ),
    )
    assert persists(replica, request) == [PaxosPersist(request.records, drop_below=600_000_000)]
    assert (replica.begin, replica.learned, replica.end) == (600_000_000, 600_000_000, far)
    assert replica.missing(0, far + 1) == [range(600_000_000, far)]

    assert learn(replica, far + 1, values.truncate(5, 1)).begin == 600_000_000
    assert replica.slots.open_bytes == 0


def test_a_tombstone_truncates_all_up_to_itself() -> None:
    """A tombstone truncates all up to itself, also decided positions: others have dropped them."""
    replica = written_to(6)
    decide(replica, 1, 0, 6)

    standing = learn(replica, 3, values.TOMBSTONE)

    assert (standing.begin, standing.learned, standing.end) == (4, 6, 5)
    assert learn(replica, 1, values.TOMBSTONE).begin == 4


# -- standings ------------------------------------------------------------------------------------------------------------


def test_uniform_is_how_far_back_one_number_goes() -> None:
    """After each write or promise, all positions from there through the end were accepted with that number."""
    replica = voting()
    assert (replica.standing().uniform_from, replica.standing().uniform) == (1, NOWHERE)
    write(replica, 1, 0, b"a", b"a", b"a")
    assert (replica.standing().uniform_from, replica.standing().uniform) == (0, 1)
    write(replica, 2, 3, b"b", b"b")
    assert (replica.standing().uniform_from, replica.standing().uniform) == (3, 2)
    write(replica, 2, 2, b"b")
    assert (replica.standing().uniform_from, replica.standing().uniform) == (2, 2)
    write(replica, 2, 6, b"b")
    assert (replica.standing().uniform_from, replica.standing().uniform) == (6, 2), "5 is missing"
    promise(replica, 3, 7, 8)
    assert (replica.standing().uniform_from, replica.standing().end) == (8, 7), "not even the end was accepted"


def test_uniform_ends_at_what_is_decided() -> None:
    """Other replicas may have accepted another value there with the same number."""
    replica = voting()
    write(replica, 2, 1, b"a")
    learn(replica, 2, values.append(b"b", 1), number=1)
    assert (replica.standing().uniform_from, replica.standing().uniform) == (3, NOWHERE)
    write(replica, 2, 3, b"c")
    assert (replica.standing().uniform_from, replica.standing().uniform) == (3, 2)


def test_a_seal_is_seen_before_it_closes_the_log() -> None:
    """It is accepted, then learned above a hole, then closes the log. Later decisions behind it change nothing."""
    replica = written_to(1)
    seal = PaxosWrite(segment=LOG, proposal=1, coordinator=K, first=2, values=(values.seal(1),))
    assert step(replica, seal).verdict is Verdict.ACCEPT
    assert (replica.standing().seal_seen, replica.seal) == (2, NOWHERE)
    write(replica, 2, 2, b"instead")
    assert replica.standing().seal_seen == NOWHERE
    learn(replica, 2, values.seal(1))
    assert (replica.standing().seal_seen, replica.seal) == (2, NOWHERE)
    write(replica, 1, 1, b"b")

    assert decide(replica, 1, 0, 2).seal == 2
    learn(replica, 3, values.seal(2))
    learn(replica, 4, values.truncate(4, 1))
    assert (replica.seal, replica.begin, replica.learned) == (2, 2, 5)


def test_a_closed_log_is_trimmed_up_to_its_seal() -> None:
    """Offsets are of the loglet; the position that holds the first one kept stays, and so does the SEAL."""
    replica = written_to(5)
    trim = TrimSealed(segment=LOG, offset=(2 << 16) + 7)
    assert isinstance(step(replica, trim), UnavailableError), "not known to be closed"
    decide(replica, 1, 0, 5)
    learn(replica, 5, values.seal(1))

    assert persists(replica, trim) == [PaxosPersist(drop_below=3)]
    assert (replica.begin, replica.trim) == (3, (2 << 16) + 7)
    assert persists(replica, trim) == []
    standing = step(replica, attrs.evolve(trim, offset=1 << 60))
    assert (standing.begin, standing.trim, standing.seal, standing.learned) == (5, 4 << 16, 5, 6)


# -- recovery -------------------------------------------------------------------------------------------------------------


def test_whoever_answers_a_recovery_remembers_the_new_store() -> None:
    """Durably, and in every answer from then on. An older store, or one that has forgotten nothing, is no news."""
    replica = written_to(2)
    ask = PaxosRecover(segment=LOG, node=N, incarnation=8)
    told = (Incarnation(node=N, incarnation=8),)

    assert [type(effect) for effect in replica.step(ask, "asker")] == [PaxosPersist, PaxosAnswer]
    assert persists(replica, ask) == []
    assert persists(replica, attrs.evolve(ask, incarnation=7)) == []
    assert persists(replica, attrs.evolve(ask, incarnation=NOWHERE)) == []
    answer = step(replica, attrs.evolve(ask, node=K, incarnation=NOWHERE))
    assert (answer.status, answer.promised, answer.begin, answer.end) == (Status.VOTING, 0, 0, 1)
    assert answer.incarnations == told
    assert promise(replica, 5).incarnations == write(replica, 5, 2, b"x").incarnations == told
    assert replica.standing().incarnations == told


def test_what_recovery_brings_only_goes_up() -> None:
    """Old answers take nothing back, and what was lost may have promised as much."""
    replica = Replica(LOG, NODE, 5, Status.RECOVERING)
    effects = replica.adopt(Status.VOTING, 9, begin=4, trim=77, incarnations=(Incarnation(node=N, incarnation=8),))
    assert effects == [PaxosPersist(drop_below=4)]
    replica.adopt(Status.VOTING, 3, begin=2, trim=5, incarnations=(Incarnation(node=N, incarnation=2),))

    standing = replica.standing()
    assert (standing.status, standing.promised, standing.begin, standing.trim) == (Status.VOTING, 9, 4, 77)
    assert (standing.learned, standing.end) == (4, 3)
    assert standing.incarnations == (Incarnation(node=N, incarnation=8),)
    assert promise(replica, 9).verdict is Verdict.REJECT, "promised before the store was lost, perhaps"
