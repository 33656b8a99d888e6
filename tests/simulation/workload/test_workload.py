"""Clients of the main scenario: every shape arises, and narrowing a run leaves the rest as it was."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from typing import Any

import attrs
import pytest
import trio

from tests.simulation.world.stage import PLAN, on_stage, shapes_of
from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.register import decode_untrusted
from virtuallog.contract.types import Gap, GapKind, PlacedBatch
from virtuallog.testing.checker.actions import LogAppend, RegisterGet
from virtuallog.testing.weak_seal import EntriesServer, RequestInLog, TrimBelow, WeakSealFetch, WeakSealImport
from virtuallog_simulation.runs.runner import SeedReport, run_seed
from virtuallog_simulation.workload import appends, blocked_readers, chain_changes, driver, followers, reads, trims
from virtuallog_simulation.workload.actor import Act, Actor
from virtuallog_simulation.workload.required_shapes import (
    APPENDING,
    LIVING,
    OPERATING,
    PARKING,
    PREFIX,
    READING,
    REGISTERING,
    SHAPES,
    TAILING,
    TRIMMING,
)
from virtuallog_simulation.world.options import Options

SEEDS = range(1, 9)
SHORT = Options(faults=(), operations=3, seconds=1.0, transport="calls")


@pytest.mark.parametrize(
    ("act", "shape"),
    [
        (appends.one, "append one entry"),
        (appends.batch, "append a batch"),
        (appends.together, "append beside others"),
        (appends.session, "append in a session of its own"),
        (appends.conditional, "append at the expected tail"),
        (appends.conditional, "miss the expected tail"),
        (appends.race, "race for the expected tail"),
        (reads.up_to_the_tail, "read up to the tail"),
        (reads.around_a_boundary, "read around a boundary"),
        (reads.in_small_steps, "read a byte at a time"),
        (reads.over_segments, "read over three segments"),
        (reads.trim_point, "find the trim point"),
        (reads.leave_and_resume, "leave a reader in a batch"),
        (reads.in_pieces, "scan in pieces"),
        (blocked_readers.at_the_tail, "park at the tail"),
        (blocked_readers.beyond_the_tail, "park beyond the tail"),
        (blocked_readers.below_the_trim_point, "park below the trim point"),
        (blocked_readers.at_an_empty_segment, "park at an empty segment"),
        (blocked_readers.at_a_sealed_loglet, "park at a sealed loglet"),
        (blocked_readers.at_a_replaced_loglet, "park at a replaced loglet"),
        (trims.at_a_boundary, "trim at a boundary"),
        (trims.below_a_boundary, "trim below a boundary"),
        (trims.above_a_boundary, "trim above a boundary"),
        (trims.near_the_tail, "trim near the tail"),
        (trims.past_the_tail, "trim past the tail"),
        (trims.twice, "trim twice"),
        (chain_changes.extend_alike, "extend to the same kind"),
        (chain_changes.extend_otherwise, "extend to another kind"),
        (chain_changes.extend_otherwise, "extend to other servers"),
        (chain_changes.extend_otherwise, "extend to another sequencer"),
        (chain_changes.extend_often, "extend several times in a row"),
        (chain_changes.extend_often, "replace an empty segment"),
        (chain_changes.race, "race for the next segment"),
        (chain_changes.seal_only, "seal and leave"),
        (chain_changes.close_and_reopen, "close the log"),
        (chain_changes.close_and_reopen, "reopen the log"),
        (chain_changes.modify, "modify a segment"),
        (chain_changes.truncate, "truncate the chain"),
        (chain_changes.change_members, "change the members"),
    ],
)
def test_an_act_brings_about_its_shape(act: Act, shape: str) -> None:
    """Without faults, in one of some worlds: those that depend on a draw need a few."""
    assert any(shapes_of(act, seed)[shape] for seed in SEEDS)


def test_a_tailing_reader_meets_trims_and_reconfigurations() -> None:
    """It follows the log while another client trims and extends it."""

    async def story(actor: Actor) -> None:
        await actor.append(3)
        await actor.trim(2)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(followers.follow_from_the_start, actor)
            await trio.sleep(0.01)
            await chain_changes.extend_alike(actor)
            await actor.append(3)
            await trio.sleep(0.5)
            nursery.cancel_scope.cancel()

    plan = attrs.evolve(PLAN, pauses={**PLAN.pauses, "tailer": 100.0})
    counts = on_stage(story, plan=plan).counts
    assert all(counts[f"did: {shape}"] for shape in TAILING)


def test_clients_are_cancelled_and_killed_in_the_middle() -> None:
    """By a clock, at an await, by the death of their process."""

    async def story(actor: Actor) -> None:
        await driver.run(actor.stage)

    plan = attrs.evolve(PLAN, cancel=0.8, lifetime_seconds=0.2, acts=dict.fromkeys(PLAN.acts, 8))
    counts = on_stage(story, plan=plan).counts
    assert all(counts[f"did: {shape}"] for shape in LIVING)


def test_clients_of_a_bare_register_bring_about_every_shape() -> None:
    """Within some seeds: equal bytes, newcomers, unknown outcomes, members that come and go."""
    missing = {PREFIX + shape for shape in REGISTERING}
    for seed in range(1, 101):
        missing -= run_seed(seed, "register").counts.keys()
        if not missing:
            break
    assert missing == set()


def test_every_shape_belongs_to_one_family() -> None:
    """The list that a set of seeds is measured by has each name once."""
    families = (APPENDING, READING, TAILING, PARKING, TRIMMING, OPERATING, LIVING)
    assert sorted(SHAPES) == sorted(shape for family in families for shape in family)
    assert len(set(SHAPES)) == len(SHAPES)


def test_a_shape_that_nobody_has_heard_of_cannot_be_counted() -> None:
    """A misspelled name would be demanded for ever and never be seen."""

    async def story(actor: Actor) -> None:
        with pytest.raises(AssertionError, match="apend"):
            actor.did("apend")

    on_stage(story)


# -- narrowing --------------------------------------------------------------------------------------------------------


def offered(report: SeedReport) -> Mapping[str, list[bytes]]:
    """Batches that each act of the appenders offered, in order."""
    acts: dict[str, set[bytes]] = defaultdict(set)
    for append in report.history.operations(LogAppend):
        for payload in append.action.payloads:
            client, act, *_ = payload.decode().split(".")
            if not client.startswith("j"):  # the judge has no acts
                acts[f"{client}.{act}"].add(payload)
    return {act: sorted(payloads) for act, payloads in acts.items()}


def test_fewer_operations_leave_those_that_remain_as_they_were() -> None:
    """An act of a client offers the same entries, independent of the acts after it and of other clients."""
    full = offered(run_seed(3, options=attrs.evolve(SHORT, operations=None, seconds=None)))
    few = offered(run_seed(3, options=attrs.evolve(SHORT, seconds=None)))

    assert {act.split(".")[1] for act in few} <= {"1", "2", "3"}
    assert len(few) >= 3
    assert len(full) > len(few) + 10
    for act in few.keys() & full.keys():
        # An act that was given up half-way has offered less.
        assert set(few[act]) <= set(full[act]) or set(full[act]) <= set(few[act])


def kinds_of(report: SeedReport) -> set[str]:
    """Kinds of loglets in all registers that a client has read."""
    registers = [get.result[1] for get in report.history.operations(RegisterGet) if get.returned and get.result[0]]
    return {segment.kind for value in set(registers) for segment in decode_untrusted(value).chain.segments}


@cache
def drawn_kinds(seed: int) -> frozenset[str]:
    return frozenset(kinds_of(run_seed(seed, options=SHORT)))


def test_half_of_the_seeds_have_loglets_on_somebody_elses_service() -> None:
    """The others have native ones alone; whichever is first, both come about."""
    assert {frozenset({"native"}), frozenset({"native", "weak-seal"})} <= {drawn_kinds(seed) for seed in SEEDS}


@pytest.mark.parametrize("kind", ["native", "weak-seal"])
def test_a_run_has_only_the_loglets_that_it_is_narrowed_to(kind: str) -> None:
    """As far as the seed has any of them: options take away and never add."""
    mixed = next(seed for seed in SEEDS if len(drawn_kinds(seed)) == 2)

    assert kinds_of(run_seed(mixed, options=attrs.evolve(SHORT, loglets=(kind,)))) == {kind}


def test_what_cannot_travel_is_left_out() -> None:
    """The messages of a weak-seal loglet have no wire form."""
    mixed = next(seed for seed in SEEDS if len(drawn_kinds(seed)) == 2)

    for loglets in (None, ("weak-seal",)):
        assert kinds_of(run_seed(mixed, options=attrs.evolve(SHORT, transport="streams", loglets=loglets))) == {
            "native"
        }


# -- the judge --------------------------------------------------------------------------------------------------------


async def never(*_: Any, **__: Any) -> Any:
    """A planted function that never answers."""
    await trio.sleep(0.5)
    raise UnavailableError("no answer")


async def asleep(*_: Any) -> Any:
    """Plants: a reader that nothing wakes."""
    await trio.sleep_forever()


@pytest.mark.parametrize(
    ("target", "replacement", "missing"),
    [
        ("virtuallog.client.virtual_log:VirtualLog.append", never, "no first append"),
        ("virtuallog.client.virtual_log:VirtualLog.reconfig_extend", never, "no extend"),
        ("virtuallog.client.virtual_log:VirtualLog.reconfig_members", never, "no change of the members"),
        ("virtuallog.client.reader:Reader.wait_readable", asleep, "no arrival of all readers"),
        ("virtuallog.client.virtual_log:VirtualLog.prefix_trim", never, "no trim"),
    ],
)
def test_the_judge_misses_whatever_does_not_come(target: str, replacement: Any, missing: str) -> None:
    """Each of its demands has a time of its own, and a report names the one that was not met."""
    report = run_seed(1, patches={target: replacement}, options=attrs.evolve(SHORT, loglets=("native",)))

    progress = [violation.message for violation in report.violations if violation.check == "progress"]
    assert [message[: len(missing)] for message in progress] == [missing]


# -- another machine's service ----------------------------------------------------------------------------------------


def ask(server: EntriesServer, request: Any) -> Any:
    answers: list[Any] = []
    server.handlers[RequestInLog](RequestInLog("copy", request), answers.append)
    (answer,) = answers
    return answer


def test_a_copy_holds_what_was_copied_where_it_was() -> None:
    """Trimmed parts are trimmed; a second copy of the call does not bring back what was trimmed since."""
    server = EntriesServer()
    batch = Batch.build(SessionId(bytes(16)), 0, [b"a", b"b"])
    copied = WeakSealImport(
        (Gap(7, 9, GapKind.TRIMMED), PlacedBatch(range(9, 11), batch, 0), Gap(11, 12, GapKind.FILLER))
    )
    ask(server, copied)

    assert ask(server, WeakSealFetch(7, 12, 1 << 20)).placed == copied.placed
    ask(server, TrimBelow(10))
    ask(server, copied)
    assert ask(server, WeakSealFetch(7, 10, 1 << 20)).placed == (Gap(7, 10, GapKind.TRIMMED),)
