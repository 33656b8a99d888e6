"""Links that delay, lose, double, replay, reorder, clog and crawl, and partitions of every shape.

A message lost by a partition is counted as "cut by" its class, so that each shape proves that it
has cut something.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Final, TypeAlias

import attrs

from virtuallog.contract.types import NodeId
from virtuallog_simulation.faults.context import FaultContext
from virtuallog_simulation.faults.fault_class import FaultClass

Pair: TypeAlias = tuple[NodeId, NodeId]
"""A direction: from, to."""

# -- how links are, for a whole run -------------------------------------------------------------------------------


def _delay(stage: FaultContext) -> None:
    source = stage.random
    _worsen(stage, tail_probability=source.choice((0.01, 0.1, 0.3)), tail_seconds=source.choice((0.005, 0.05, 0.5)))


def _loss(stage: FaultContext) -> None:
    _worsen(stage, loss=stage.random.choice((0.002, 0.02, 0.1)))


def _duplication(stage: FaultContext) -> None:
    _worsen(stage, duplicate=stage.random.choice((0.005, 0.05, 0.3)))


def _replay(stage: FaultContext) -> None:
    source = stage.random
    _worsen(stage, replay=source.choice((0.005, 0.05)), replay_seconds=stage.pace * source.choice((0.5, 5.0)))


def _reorder(stage: FaultContext) -> None:
    _worsen(stage, reorder=stage.random.choice((0.01, 0.1, 0.5)))


def _worsen(stage: FaultContext, **quality: float) -> None:
    network = stage.world.network
    network.set_quality(attrs.evolve(network.quality, **quality))


# -- single links -------------------------------------------------------------------------------------------------


async def _clog(stage: FaultContext) -> None:
    one, other = stage.pair()
    seconds = stage.pace * stage.random.uniform(0.05, 2.0)
    stage.struck(f"{one} -> {other} for {seconds:.2f} s")
    stage.world.network.link(one, other).clogged_until = stage.world.now() + seconds


async def _slow_links(stage: FaultContext) -> None:
    node, network = stage.machine().node, stage.world.network
    factor = stage.random.choice((5.0, 50.0))
    stage.struck(f"{node} by {factor:g}")
    links = [network.link(*pair) for pair in _between([node], stage.nodes)]
    for link in links:
        link.slowness = factor
    await stage.rest()
    for link in links:
        link.slowness = 1.0


async def _one_way(stage: FaultContext) -> None:
    one, other = stage.pair()
    await _cut(stage, f"{one} -> {other}", [(one, other)])


async def _client_one_way(stage: FaultContext) -> None:
    """Requests arrive and are never answered, or the other way round."""
    clients = stage.clients
    if clients:
        pair = [stage.random.choice(clients), stage.machine().node]
        stage.random.shuffle(pair)
        one, other = pair
        await _cut(stage, f"{one} -> {other}", [(one, other)])


# -- partitions ---------------------------------------------------------------------------------------------------


async def _isolate(stage: FaultContext) -> None:
    """Clients still reach it, and see what it makes of its loneliness."""
    node = stage.machine().node
    await _cut(stage, str(node), _between([node], stage.nodes))


async def _cut_off(stage: FaultContext) -> None:
    node, network, cause = stage.machine().node, stage.world.network, _cause(stage)
    stage.struck(node)
    network.cut_off(node, cause)
    await stage.rest()
    network.rejoin(node, cause)


async def _halves(stage: FaultContext) -> None:
    shuffled = stage.shuffled()
    size = stage.random.randint(1, len(shuffled) - 1)
    half, rest = shuffled[:size], shuffled[size:]
    await _cut(stage, f"{half} {rest}", _between(half, rest))


async def _bridge(stage: FaultContext) -> None:
    """Either two halves that meet in one node, or a ring in which each sees only its neighbours."""
    shuffled = stage.shuffled()
    if len(shuffled) > 3 and stage.random.random() < 0.5:
        await _cut(stage, f"ring {shuffled}", _across_ring(shuffled))
        return
    middle, *others = shuffled
    half, rest = others[::2], others[1::2]
    await _cut(stage, f"{half} {middle} {rest}", _between(half, rest))


def _across_ring(ring: Sequence[NodeId]) -> Iterable[Pair]:
    """All pairs that are further apart than a majority around each node reaches."""
    size = len(ring)
    reach = (size // 2 + 1) // 2  # half of the others, on two sides
    for (here, one), (there, other) in combinations(enumerate(ring), 2):
        if min(there - here, size - there + here) > reach:
            yield from ((one, other), (other, one))


def _between(some: Iterable[NodeId], others: Sequence[NodeId]) -> list[Pair]:
    """Both directions of every pair, but for a node and itself."""
    return [pair for one in some for other in others if one != other for pair in ((one, other), (other, one))]


async def _cut(stage: FaultContext, detail: str, pairs: Iterable[Pair]) -> None:
    links, cause = [stage.world.network.link(*pair) for pair in pairs], _cause(stage)
    stage.struck(detail)
    for link in links:
        link.cut(cause)
    await stage.rest()
    for link in links:
        link.mend(cause)


def _cause(stage: FaultContext) -> str:
    return f"cut by {stage.name}"


CLASSES: Final = (
    FaultClass(name="delay", about="some messages take much longer than others", proof=("delayed",), prepare=_delay),
    FaultClass(
        name="loss",
        about="messages are lost, replies too: calls are executed and not answered",
        proof=("lost",),
        prepare=_loss,
    ),
    FaultClass(name="duplication", about="messages arrive twice", proof=("duplicated",), prepare=_duplication),
    FaultClass(name="replay", about="messages arrive once more, seconds later", proof=("replayed",), prepare=_replay),
    FaultClass(name="reorder", about="messages overtake each other", proof=("reordered",), prepare=_reorder),
    FaultClass(
        name="clog", about="a link holds everything, then delivers it in a burst", proof=("clogged",), act=_clog
    ),
    FaultClass(
        name="slow links", about="all links of a node take 5 or 50 times as long", proof=("slowed",), act=_slow_links
    ),
    FaultClass(
        name="isolate",
        about="a node is cut off from the other nodes, not from clients",
        proof=("cut by isolate",),
        act=_isolate,
    ),
    FaultClass(
        name="cut off", about="a node is cut off from nodes and clients", proof=("cut by cut off",), act=_cut_off
    ),
    FaultClass(name="halves", about="the nodes fall into two groups", proof=("cut by halves",), act=_halves),
    FaultClass(
        name="bridge",
        about="every node sees a majority, but not the same one",
        proof=("cut by bridge",),
        act=_bridge,
    ),
    FaultClass(
        name="one way",
        about="one direction between two nodes is cut",
        proof=("cut by one way",),
        act=_one_way,
    ),
    FaultClass(
        name="client one way",
        about="one direction between a client and a node is cut",
        proof=("cut by client one way",),
        act=_client_one_way,
    ),
)
