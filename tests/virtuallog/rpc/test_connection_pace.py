"""The pace of connections: a burst, then so many per second, for each address by itself."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from virtuallog.rpc.connection_pace import ADDRESSES_MAX, ConnectionPace


def pace(unpaced: str = "") -> ConnectionPace:
    return ConnectionPace(per_second=10, burst=3, wait_seconds=0.25, unpaced=lambda address: address == unpaced)


def test_a_burst_then_turns_then_refusals() -> None:
    """Three at once, two that wait, the rest refused; a refused one costs no turn. Other addresses, and proxies, do not notice."""
    found = pace("proxy")
    waits = [found.take("a", 100.0) for _ in range(10)]

    assert [None if wait is None else round(wait, 3) for wait in waits] == [0, 0, 0, 0.1, 0.2, *[None] * 5]
    assert found.take("b", 100.0) == 0
    assert [found.take("proxy", 100.0) for _ in range(10)] == [0] * 10
    assert found.take("a", 100.1) is not None
    assert [found.take("a", 200.0) for _ in range(3)] == [0, 0, 0], "all turns are back"


def test_turns_that_are_given_back_do_not_count() -> None:
    """Connections of use come at any pace, also while others of the address have taken all of its turns but one."""
    found = pace()
    assert [found.take("a", 100.0) for _ in range(2)] == [0, 0]
    for _ in range(10):
        assert found.take("a", 100.0) == 0
        found.give_back("a")
    assert found.take("a", 100.0) == 0
    assert found.take("a", 100.0) != 0
    found.give_back("b")


def test_addresses_without_number_share_one_pace() -> None:
    """The table is bounded: of many more addresses the last ones share their turns, until others are done."""
    found = pace()
    for number in range(ADDRESSES_MAX):
        assert found.take(str(number), 100.0) == 0
    assert [found.take(f"x{number}", 100.0) for number in range(4)][-1] != 0
    assert found.take("y", 101.0) == 0


@given(st.lists(st.floats(0, 0.3), max_size=200))
def test_no_address_goes_faster(gaps: list[float]) -> None:
    """Whenever its connections come, those that are served in a time are a burst and its rate at most."""
    found, now, served = pace(), 100.0, list[float]()
    for gap in gaps:
        now += gap
        wait = found.take("a", now)
        if wait is not None:
            served.append(now + wait)
    for first in range(len(served)):
        assert len(served) - first <= 3 + 10 * (served[-1] - served[first]) + 1.001
