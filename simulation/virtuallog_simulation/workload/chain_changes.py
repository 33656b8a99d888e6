"""Chain changes by operators, of every kind, and half-done ones."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Final

import trio

from virtuallog.contract.chain import Chain, Segment
from virtuallog.contract.errors import SealedError, UnavailableError
from virtuallog.contract.placement import Placement
from virtuallog.contract.provider import replicated
from virtuallog.contract.register import Register
from virtuallog.contract.types import LogletOffset, LogPosition, NodeId
from virtuallog.testing.checker.actions import (
    CloseChange,
    ExtendChange,
    LogTrim,
    MembersChange,
    ModifyChange,
    TruncateChange,
)
from virtuallog.testing.weak_seal_provider import KIND as WEAK_SEAL
from virtuallog_simulation.workload.actor import Actor, Acts, WorkloadContext, attempt
from virtuallog_simulation.workload.required_shapes import SWAPPING

JUDGES: Final = "j"
"""Actors of the judge: what it demands is not what a run has brought about by itself."""
COPY_BYTES: Final = 1 << 20
ARCHIVE: Final = "archive"
STRIPE_SERVERS: Final = 3
MEMBERS: Final = 3
"""Fewest members of the MetaStore: the nemesis may take one of them for good."""


async def extend(actor: Actor, kind: str | None = None, settings: Mapping[str, str] | None = None) -> Register:
    """Extend to `kind`, or to the kind of the last segment; a log that ends with an archive is opened again with the first kind."""
    log = actor.client.log
    before = (await log.view.refresh()).chain
    last = before.last.kind if before.last.kind != ARCHIVE else actor.stage.cluster.kind_names[0]
    kind, settings = kind or last, settings or {}
    asked = ExtendChange(kind, " ".join(f"{name}={value}" for name, value in settings.items()))
    after = await actor.change(asked, log.reconfig_extend(kind, settings))
    if after.chain.last.id != before.last.id:
        _tell(actor, before, after.chain)
    return after


def _tell(actor: Actor, before: Chain, after: Chain) -> None:
    """Count the outcome of an extend. Another client's may lie in between: then it was made on top
    of that one."""
    old, new = before.last, after.last
    actor.did("extend to the same kind" if old.kind == new.kind else "extend to another kind")
    if old.start == new.start:
        actor.did("replace an empty segment")
    if old.stop is not None:
        actor.did("reopen the log")
    if (swapped := f"swap {old.kind} for {new.kind}") in SWAPPING and not actor.name.startswith(JUDGES):
        actor.did(swapped)
    if old.kind == new.kind:
        provider = actor.client.log.view.provider(new.kind)
        was, now = provider.describe(old.config), provider.describe(new.config)
        if was.get("servers") != now.get("servers"):
            actor.did("extend to other servers")
        if was.get("sequencer") != now.get("sequencer"):
            actor.did("extend to another sequencer")
    placement = _placement(actor, new)
    if new.kind == "striped" and placement is not None:
        actor.did(f"stripe over {'the same' if len(set(placement.groups)) == 1 else 'disjoint'} servers")


def _placement(actor: Actor, segment: Segment) -> Placement | None:
    provider = replicated(actor.client.log.view.provider(segment.kind))
    return None if provider is None else provider.placement(segment.config)


async def extend_alike(actor: Actor) -> None:
    await extend(actor)


async def extend_otherwise(actor: Actor) -> None:
    """Extend with any kind, and with settings of its own if the kind has any."""
    kinds = [kind for kind in sorted(actor.client.log.view.providers) if kind != ARCHIVE]
    kind = actor.random.choice(kinds)
    await extend(actor, kind, _settings(kind, actor.random, actor.stage.cluster.plan.nodes))


def _settings(kind: str, source: random.Random, nodes: int) -> Mapping[str, str]:
    """Draw settings that an operator may ask for: none, other servers, another sequencer."""
    numbers = [str(number) for number in range(1, nodes + 1)]
    if kind == "striped":
        return _stripes(source, numbers)
    settings = {}
    if source.random() < 0.5:
        settings["servers"] = ",".join(source.sample(numbers, source.choice((3, nodes - (nodes + 1) % 2))))
    if source.random() < 0.5:
        settings["sequencer"] = source.choice(numbers)
    if kind == "paxos" and "sequencer" in settings:
        settings["coordinator"] = settings.pop("sequencer")
    if kind == "raft" and "sequencer" in settings:
        settings["leader"] = settings.pop("sequencer")
    return settings if kind in {"native", "paxos", "raft"} else {}


def _stripes(source: random.Random, numbers: Sequence[str]) -> Mapping[str, str]:
    """Stripes over the same servers, or over disjoint ones, where there are enough."""
    shuffled = source.sample(numbers, len(numbers))
    settings = {"stripes": str(source.choice((2, 2, 3)))}
    if source.random() < 0.5 and len(numbers) >= 2 * STRIPE_SERVERS:
        halves = (shuffled[:STRIPE_SERVERS], shuffled[STRIPE_SERVERS : 2 * STRIPE_SERVERS])
        return {"groups": ";".join(",".join(sorted(half)) for half in halves)}
    if source.random() < 0.5:
        settings["servers"] = ",".join(shuffled[:STRIPE_SERVERS])
    return settings


async def swap(actor: Actor) -> None:
    """Another kind takes the place of the one in use, on nodes of its own choice; then, most often, the first one again."""
    for _ in range(actor.random.choice((1, 2, 2))):
        before = (await actor.client.log.view.refresh()).chain.last
        kind = actor.random.choice([kind for kind in actor.stage.swaps if kind != before.kind])
        striped = kind == "striped" and actor.random.random() < 0.7
        await extend(actor, kind, _settings(kind, actor.random, actor.stage.cluster.plan.nodes) if striped else None)
        await trio.sleep(actor.random.expovariate(20.0))


async def extend_often(actor: Actor) -> None:
    """Extend several times in a row: most of these segments stay empty."""
    for _ in range(actor.random.randint(2, 4)):
        await extend(actor)
    actor.did("extend several times in a row")


async def race(actor: Actor) -> None:
    """Two or three clients want to extend the same segment."""
    won: list[bool] = []

    async def rival() -> None:
        async with actor.stage.cluster.client("rival") as client:
            other = Actor(actor.stage, client, client.random, client.name)
            won.append(await attempt(extend_otherwise(other)))

    async with trio.open_nursery() as nursery:
        for _ in range(actor.random.randint(2, 3)):
            nursery.start_soon(rival)
    if sum(won) >= 2:
        actor.did("race for the next segment")


async def seal_only(actor: Actor) -> None:
    """Leave the state of a reconfigurer that died after the first of its three steps."""
    log = actor.client.log
    active = (await log.view.refresh()).chain.active
    if active is not None:
        await log.view.loglet(active).seal()
        actor.did("seal and leave")


async def close_and_reopen(actor: Actor) -> None:
    """Unless the operator dies in between; then another one does, or the judge."""
    if actor.stage.plan.close:
        closed = await actor.change(CloseChange(), actor.client.log.seal())
        if closed.chain.active is None:
            actor.did("close the log")
        await trio.sleep(actor.random.expovariate(4.0))
    await extend(actor)


async def truncate(actor: Actor) -> None:
    """Truncate as a trim does, by hand: first the loglet, then the chain."""
    log = actor.client.log
    segment = (await log.view.refresh()).chain.segments[0]
    if segment.stop is not None:
        with actor.record(LogTrim(segment.stop)) as returned:
            try:
                await log.view.loglet(segment).prefix_trim(segment.offset(segment.stop))
            except SealedError:  # what a loglet may say and a log may not: this trim stands for one of the log
                raise UnavailableError("others have trimmed it away meanwhile") from None
            trimmed = await log.find_trim_point()
            if trimmed < segment.stop:
                raise UnavailableError("a copy has taken its place meanwhile, and may not know of this trim")
            returned(trimmed)
    after = await actor.change(TruncateChange(), log.reconfig_truncate())
    if after.chain.find(segment.id) is None:
        actor.did("truncate the chain")


async def modify(actor: Actor) -> None:
    """Put a copy under a closed segment."""
    segment = await closed_segment(actor)
    if segment is None or not await copy_segment(actor, segment):
        await extend_otherwise(actor)


async def closed_segment(actor: Actor) -> Segment | None:
    segments = (await actor.client.log.view.refresh()).chain.segments
    closed = [segment for segment in segments if segment.stop is not None]
    return actor.random.choice(closed) if closed else None


async def copy_segment(actor: Actor, segment: Segment) -> bool:
    """Copy a closed segment to an external service and put the copy in its place. Returns False if
    there is no service.

    The copy may begin at any offset of the new loglet; only the chain knows at which.
    """
    log, copies, stop = actor.client.log, actor.stage.copies, segment.stop
    if copies is None or stop is None:
        return False
    base = actor.random.choice((0, 0, 7))
    placed, at = [], segment.start
    while at < stop:
        for item in await log.read(at, stop, COPY_BYTES):
            placed.append(item.shift(base - segment.start))
            at = LogPosition(item.stop)
    config = await copies.store_copy(log.view.environment, f"copy {actor.name}", placed)
    work = log.reconfig_modify(segment.id, WEAK_SEAL, config, LogletOffset(base))
    after = await actor.change(ModifyChange(segment.id, WEAK_SEAL, base), work)
    if after.chain.find(segment.id) is None:
        actor.did("modify a segment")
    return True


async def change_members(actor: Actor) -> None:
    nodes = actor.stage.cluster.plan.nodes
    count = actor.random.choice((MEMBERS, nodes))
    members = sorted(NodeId(node) for node in actor.random.sample(range(1, nodes + 1), count))
    before = (await actor.client.log.view.refresh()).members
    after = (await put_members(actor, members)).members
    if after == tuple(members) != before:
        actor.did("change the members")


async def put_members(actor: Actor, members: Sequence[NodeId]) -> Register:
    """Let these nodes decide from now on."""
    return await actor.change(MembersChange(tuple(members)), actor.client.log.reconfig_members(members))


ACTS: Final[Acts] = (
    (3, extend_alike),
    (4, extend_otherwise),
    (1.5, extend_often),
    (1, race),
    (1, seal_only),
    (1, close_and_reopen),
    (1, truncate),
    (1.5, modify),
    (1.5, change_members),
)
SWAP_WEIGHT: Final = 10


def acts(stage: WorkloadContext) -> Acts:
    """Acts of operators in a run that has these kinds of loglets."""
    swapping: Acts = ((SWAP_WEIGHT, swap),) if stage.swaps else ()
    return (*ACTS, *swapping)
