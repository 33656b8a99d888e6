"""Slots of connections that have not shown that they are of use: the oldest is closed, of its
address or of all."""

from __future__ import annotations

from contextlib import ExitStack

from virtuallog.rpc.connection_slots import ConnectionSlots


def test_the_oldest_of_an_address_gives_way_before_others_do() -> None:
    """One address has no more than its part, and a new connection always gets a slot. Unknown
    addresses count in all only."""
    places, ended = ConnectionSlots(4, 2), list[str]()
    with ExitStack() as held:
        for name, address in (("1", "a"), ("2", "b"), ("3", "a"), ("4", "a"), ("5", ""), ("6", ""), ("7", "")):
            held.enter_context(places.take(address, lambda name=name: ended.append(name)))  # type: ignore[misc]
        assert ended == ["1", "2", "3"]
        assert len(places) == 4
    assert len(places) == 0
    assert ended == ["1", "2", "3"], "those that have left are not ended"
