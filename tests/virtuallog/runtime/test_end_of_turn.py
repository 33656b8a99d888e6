"""The end of a turn of the event loop, and what comes before it."""

from __future__ import annotations

from functools import partial

import pytest
import trio

from virtuallog.runtime.end_of_turn import end_of_turn


async def test_runs_when_every_task_of_the_turn_has_run() -> None:
    """Functions run once, in order, behind the tasks of the turn that can run."""
    seen: list[str] = []

    async def other_task() -> None:
        seen.append("task")

    async with trio.open_nursery() as nursery:
        end_of_turn().put(partial(seen.append, "first"))
        end_of_turn().put(partial(seen.append, "second"))
        assert seen == []
        await trio.lowlevel.checkpoint()
        assert seen == ["first", "second"]
        nursery.start_soon(other_task)
        end_of_turn().put(partial(seen.append, "third"))

    await trio.lowlevel.checkpoint()
    assert sorted(seen[2:]) == ["task", "third"]


async def test_may_come_early() -> None:
    """`flush` runs what was put so far, now, and only once."""
    seen: list[int] = []
    end = end_of_turn()
    end.put(partial(seen.append, 1))
    end.flush()
    assert seen == [1]
    end.put(partial(seen.append, 2))
    await trio.lowlevel.checkpoint()

    assert seen == [1, 2]


async def test_what_may_block_comes_last() -> None:
    """A message put after a write leaves before it, and neither a second time."""
    seen: list[str] = []
    end = end_of_turn()
    end.put_last(partial(seen.append, "write"))
    end.put(partial(seen.append, "message"))
    end.flush()
    await trio.lowlevel.checkpoint()

    assert seen == ["message", "write"]


async def test_writes_that_follow_each_other_do_not_hold_the_loop() -> None:
    """A write that brings the next one: its message leaves at once, the next write waits for the end of the turn."""
    seen: list[str] = []
    end = end_of_turn()

    def write() -> None:
        seen.append("write")
        if len(seen) < 20:
            end.put(partial(seen.append, "message"))
            end.put_last(write)
            end.flush()

    end.put_last(write)
    end.flush()
    assert seen == ["write", "message"]
    while len(seen) < 20:
        await trio.lowlevel.checkpoint()

    assert seen == ["write", "message"] * 10


async def test_the_loop_does_not_wait_for_what_was_put_between_two_turns() -> None:
    """Functions may wake tasks, unless the loop has decided how long it waits; what they put then runs all the same."""
    seen: list[bool] = []
    is_done = trio.Event()
    end = end_of_turn()

    def third() -> None:
        seen.append(end.may_wake)
        end.later(is_done.set)

    def second() -> None:
        seen.append(end.may_wake)
        end.put_last(third)

    end.put(lambda: seen.append(end.may_wake))
    end.flush()
    end.put_last(second)
    with trio.fail_after(5):
        await is_done.wait()

    assert seen == [True, False, False]


def test_an_error_is_not_lost() -> None:
    """Trio drops an instrument that raises. An error of a function ends the event loop instead, and the others run."""
    seen: list[int] = []

    def fail() -> None:
        raise ValueError("a bug")

    async def main() -> None:
        end_of_turn().put(fail)
        end_of_turn().put(partial(seen.append, 1))
        await trio.sleep_forever()

    with pytest.raises(trio.TrioInternalError) as caught:
        trio.run(main)

    assert "a bug" in repr(caught.value.__cause__) or "a bug" in repr(caught.value.__context__)
    assert seen == [1]
