"""Members of a log, and watches for their number: NetworkTest of Mesos."""

from __future__ import annotations

import operator
from collections.abc import Callable

import pytest
import trio
import trio.testing

from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.standalone.network import LogMember, LogNetwork, WatchMode

COMPARISONS: dict[WatchMode, Callable[[int, int], bool]] = {
    WatchMode.EQUAL: operator.eq,
    WatchMode.NOT_EQUAL: operator.ne,
    WatchMode.LESS: operator.lt,
    WatchMode.LESS_OR_EQUAL: operator.le,
    WatchMode.GREATER: operator.gt,
    WatchMode.GREATER_OR_EQUAL: operator.ge,
}


@pytest.mark.parametrize("mode", WatchMode)
@pytest.mark.parametrize("wanted", [0, 1, 2])
async def test_watch(mode: WatchMode, wanted: int) -> None:
    """Each comparison is answered at once if it holds already; else as soon as a member that is added or removed makes it hold."""
    network = LogNetwork(b"l" * 16, 2, ())
    answers: list[tuple[int, int]] = []
    sizes = [0, 1, 2, 1, 0]

    async def watch(begun: int) -> None:
        answers.append((begun, await network.watch(wanted, mode)))

    async with trio.open_nursery() as nursery:
        for step, size in enumerate(sizes):
            if step:
                _change(network, sizes[step - 1], size)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(watch, step)
            await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    assert dict(answers) == _expected(sizes, COMPARISONS[mode], wanted)


def _change(network: LogNetwork, before: int, after: int) -> None:
    if after > before:
        network.add(LogMember(node=NodeId(after), address="127.0.0.1:1"))
    else:
        network.remove(NodeId(before))


def _expected(sizes: list[int], holds: Callable[[int, int], bool], wanted: int) -> dict[int, int]:
    """Expected result by the step at which each watch began: the first matching size from then on."""
    first = {step: next((size for size in sizes[step:] if holds(size, wanted)), None) for step in range(len(sizes))}
    return {step: size for step, size in first.items() if size is not None}
