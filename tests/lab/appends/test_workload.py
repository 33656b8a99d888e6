"""The judge of a checked workload finds each kind of wrong, and nothing in a log that is right."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtuallog.contract.batch import SessionId
from virtuallog.contract.types import Data, Gap, GapKind, LogPosition, Record
from virtuallog_lab.workload.entries import Entry
from virtuallog_lab.workload.verdict import Verdict, judge
from virtuallog_lab.workload.writers import WriterAcknowledgements, acknowledgement_times

SESSION = SessionId(b"s" * 16)


def record(position: int, payload: bytes, sequence: int | None = None) -> Data:
    return Data(LogPosition(position), payload, 0, SESSION, position if sequence is None else sequence)


def told(*places: tuple[int, int, float, float]) -> dict[int, WriterAcknowledgements]:
    """Acknowledgements from (writer, position, offered at, acknowledged at), numbers counted from
    0."""
    found: dict[int, WriterAcknowledgements] = {}
    for writer, position, began, ended in places:
        found.setdefault(writer, WriterAcknowledgements()).add(LogPosition(position), began, ended)
    return found


RIGHT = [record(0, b"1/0"), record(1, b"2/0"), record(2, b"1/1"), record(3, b"1/2")]
TOLD = told((1, 0, 0.0, 0.2), (2, 1, 0.0, 0.2), (1, 2, 0.2, 0.3))


def test_a_right_log_is_found_right() -> None:
    """Entries of several writers between each other, one of them appended but never acknowledged."""
    assert judge(TOLD, RIGHT) == Verdict(4, ())


@pytest.mark.parametrize(
    ("records", "problem"),
    [
        (RIGHT[:2], "number=1) was acknowledged at 2 but is at no position"),
        ([*RIGHT, record(4, b"1/2")], "is at 3 and at 4"),
        ([RIGHT[2], RIGHT[0], RIGHT[1], RIGHT[3]], "where number 0 belongs"),
        ([RIGHT[0], RIGHT[1], RIGHT[3]], "where number 1 belongs"),
        ([record(0, b"1/0"), record(1, b"1/1"), record(2, b"2/0")], "acknowledged at 1 but is at 2"),
        ([*RIGHT, record(4, b"noise")], "holds what no writer wrote: b'noise'"),
        ([*RIGHT, record(4, b"3/0")], "holds what no writer wrote: b'3/0'"),
        ([*RIGHT, record(4, b"1/3")], "holds what no writer wrote: b'1/3'"),
        ([*RIGHT, record(4, b"2/1", sequence=9)], "sequence 9 of a session, where 4 belongs"),
        ([Gap(0, 1, GapKind.LOST), *RIGHT[1:]], "[0, 1) is gone: lost"),
    ],
    ids=["lost", "doubled", "swapped", "hole", "elsewhere", "foreign", "writer", "number", "session", "gap"],
)
def test_each_kind_of_wrong_is_found(records: list[Record], problem: str) -> None:
    """A judge that cannot find it is worth nothing."""
    assert any(problem in found for found in judge(TOLD, records).problems)


def test_an_entry_behind_one_that_was_offered_later_is_found() -> None:
    """The entry of writer 1 was acknowledged before writer 2 offered its own; the log has them the other way round."""
    places = told((2, 0, 0.5, 0.6), (1, 1, 0.1, 0.2))

    assert [*judge(places, [record(0, b"2/0"), record(1, b"1/0")]).problems] == [
        "Entry(writer=1, number=0) is at 1, behind one that was offered when it had been acknowledged"
    ]


@given(st.data())
def test_whatever_is_done_to_a_right_log_is_found(data: st.DataObject) -> None:
    """One of thirty acknowledged entries dropped, doubled, or exchanged with another."""
    order = data.draw(st.permutations([writer for writer in range(3) for _ in range(10)]))
    numbers, places, records = dict.fromkeys(range(3), 0), [], []
    for position, writer in enumerate(order):
        places.append((writer, position, float(position), position + 0.5))
        records.append(record(position, Entry(writer, numbers[writer]).encode(100)))
        numbers[writer] += 1
    assert judge(told(*places), records) == Verdict(30, ())

    spoilt, victim = list(records), data.draw(st.integers(0, 29))
    match data.draw(st.sampled_from(["drop", "double", "exchange"])):
        case "drop":
            del spoilt[victim]
        case "double":
            spoilt.insert(data.draw(st.integers(0, 30)), spoilt[victim])
        case "exchange":
            other = data.draw(st.integers(0, 29).filter(lambda index: index != victim))
            spoilt[victim], spoilt[other] = spoilt[other], spoilt[victim]

    assert judge(told(*places), spoilt).problems


def test_acknowledgements_are_told_in_order_of_time() -> None:
    """Over all writers."""
    assert acknowledgement_times(TOLD.values()) == [0.2, 0.2, 0.3]


def test_an_entry_survives_its_filling() -> None:
    """Padded to a size, or longer than it."""
    assert len(Entry(7, 123).encode(100)) == 100
    assert Entry.parse(Entry(7, 123).encode(100)) == Entry.parse(Entry(7, 123).encode(2)) == Entry(7, 123)
