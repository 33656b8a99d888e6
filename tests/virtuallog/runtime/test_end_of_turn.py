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
