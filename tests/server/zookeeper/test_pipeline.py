"""Replies leave in the order of requests, and reads see what they may see."""

from __future__ import annotations

import attrs
from hypothesis import given
from hypothesis import strategies as st

from virtuallog_server.zookeeper.wire.pipeline import PendingReply, Pipeline


@attrs.define(eq=False)
class Tree:
    """Applies writes when a test says so, several at once; a read shows how many were applied."""

    pipeline: Pipeline = attrs.field(init=False)
    sent: list[bytes] = attrs.field(factory=list)
    submitted: list[PendingReply] = attrs.field(factory=list)
    applied: int = 0
    room: bool = True

    def __attrs_post_init__(self) -> None:
        self.pipeline = Pipeline(self.sent.append, lambda: self.room)

    def write(self, size: int = 1) -> None:
        self.pipeline.write(self._submit, size)

    def _submit(self, turn: PendingReply) -> None:
        self.submitted.append(turn)

    def read(self) -> None:
        self.pipeline.read(lambda: b"read %d" % self.applied)

    def apply(self) -> None:
        """All that is submitted, in one transaction; then the answers."""
        turns, self.submitted = self.submitted, []
        first = self.applied
        self.applied += len(turns)
        for number, turn in enumerate(turns, start=first + 1):
            self.pipeline.finish(turn, b"write %d" % number)


def test_a_read_with_nothing_before_it_is_answered_at_once() -> None:
    """No turn of the scheduler in between."""
    tree = Tree()
    tree.read()
    assert tree.sent == [b"read 0"]


def test_writes_of_one_client_are_under_way_together() -> None:
    """And answered in order, in any order of completion."""
    tree = Tree()
    tree.write()
    tree.write()
    first, second = tree.submitted
    tree.pipeline.finish(second, b"second")
    assert tree.sent == []
    tree.pipeline.finish(first, b"first")
    assert tree.sent == [b"first", b"second"]
    assert (len(tree.pipeline), tree.pipeline.held_bytes) == (0, 0)


def test_a_read_never_shows_a_later_write_of_its_own_client() -> None:
    """The writes behind it wait for it: in one transaction with those before it, they would show."""
    tree = Tree()
    for act in (tree.write, tree.read, tree.write, tree.write, tree.read, tree.write):
        act()
    assert len(tree.submitted) == 1
    tree.apply()
    assert tree.sent == [b"write 1", b"read 1"]
    assert len(tree.submitted) == 2
    tree.apply()
    tree.apply()
    assert tree.sent == [b"write 1", b"read 1", b"write 2", b"write 3", b"read 3", b"write 4"]


def test_what_asks_nothing_of_the_tree_holds_no_write() -> None:
    """A ping between two writes is answered in its turn, and the second write leaves at once."""
    tree = Tree()
    tree.write()
    tree.pipeline.answer(lambda: b"ping")
    tree.write()
    assert len(tree.submitted) == 2
    tree.apply()
    assert tree.sent == [b"write 1", b"ping", b"write 2"]


def test_what_shows_the_applied_state_is_made_in_its_turn() -> None:
    """A sync that ends early is not answered with an older state than the read before it, which waits for a write."""
    tree = Tree()
    tree.write()
    tree.read()
    turn = tree.pipeline.wait()
    tree.pipeline.finish_later(turn, lambda: b"sync %d" % tree.applied)
    tree.apply()

    assert tree.sent == [b"write 1", b"read 1", b"sync 1"]


def test_a_write_that_is_answered_while_it_is_submitted() -> None:
    """As one that is refused before it gets to the log."""
    tree = Tree()
    tree.write()
    tree.read()
    tree.pipeline.write(lambda turn: tree.pipeline.finish(turn, b"refused"), 1)
    tree.read()
    tree.apply()
    assert tree.sent == [b"write 1", b"read 1", b"refused", b"read 1"]


def test_nothing_is_read_while_replies_pile_up() -> None:
    """It is read when there is room again, and shows what is there then."""
    tree = Tree(room=False)
    tree.read()
    assert tree.sent == []
    tree.applied, tree.room = 5, True
    tree.pipeline.advance()
    assert tree.sent == [b"read 5"]


def test_what_is_to_happen_after_an_answer_happens_after_it() -> None:
    """Both when it waits, and when it does not."""
    tree = Tree()
    tree.pipeline.answer(lambda: b"a", lambda: tree.sent.append(b"after a"))
    tree.write()
    tree.pipeline.answer(lambda: b"b", lambda: tree.sent.append(b"after b"))
    tree.apply()
    assert tree.sent == [b"a", b"after a", b"write 1", b"b", b"after b"]


@given(st.lists(st.sampled_from(["write", "read", "apply", "full", "room"]), max_size=60))
def test_replies_are_those_of_a_client_that_waits_for_each(acts: list[str]) -> None:
    """However requests, transactions and bounds mix: a read shows exactly the writes before it."""
    tree, expected, writes = Tree(), [], 0
    for act in acts:
        if act == "write":
            writes += 1
            expected.append(b"write %d" % writes)
            tree.write()
        elif act == "read":
            expected.append(b"read %d" % writes)
            tree.read()
        elif act == "apply":
            tree.apply()
        else:
            tree.room = act == "room"
            tree.pipeline.advance()
        assert tree.sent == expected[: len(tree.sent)]
    tree.room = True
    tree.pipeline.advance()
    while tree.submitted:
        tree.apply()
    assert tree.sent == expected
    assert (len(tree.pipeline), tree.pipeline.held_bytes) == (0, 0)
