"""Failovers of examples/master.py, and what the verdict on them must find."""

from __future__ import annotations

import json
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
import trio
from click.testing import CliRunner
from trio.testing import MockClock

from tests.database.table.table_world import worlds
from tests.source_tree import ROOT
from virtuallog_database.client.client import DatabaseClient
from virtuallog_database.registrar.registrar import open_registrar
from virtuallog_database.state.core.record_changes import RecordChanges
from virtuallog_database.state.records import PackedRecords
from virtuallog_database.state.state import State
from virtuallog_database.state.storages.memory import MemoryStorage
from virtuallog_database.tree.commands import CloseSession, Origin
from virtuallog_lab.experiments.registrar import masters
from virtuallog_lab.experiments.registrar.masters import CLOCK, Acknowledged, Load, disorder, judge, measure


@pytest.fixture(scope="module")
def example() -> Any:
    """examples/master.py as a module."""
    spec = spec_from_file_location("master", ROOT / "examples/master.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BAD_LINES = [
    b"", b"[" * 3000, b"\xff", b"1", b"null", b'["list"]', b'"list"', b"{}", b'{"list": false}', b'{"admit": null}', b'{"admit": ""}',
    b'{"admit": 1}', b'{"admit": "a", "hostname": null}', b'{"admit": "a", "hostname": 1}', b'{"admit": "\\ud800"}', b'{"remove": ["a"]}',
    json.dumps({"admit": "x" * 600}).encode(), json.dumps({"admit": "\N{SNOWMAN}" * 86}).encode(), json.dumps({"remove": ""}).encode(),
]  # fmt: skip


@pytest.mark.parametrize("leads", [True, False])
async def test_a_line_that_asks_for_nothing_is_an_error(example: Any, leads: bool) -> None:
    """At every master: an answer that it does not lead would make the agent ask all others the same, for ever."""
    async with open_registrar(
        PackedRecords(MemoryStorage()), "agents", tables=[example.AGENTS, example.REMOVED], owner="me"
    ) as registrar:
        await registrar.recover()
        master = example.Master(None, "me", registrar if leads else None)
        for line in BAD_LINES:
            assert [*await master.answer(line)] == ["error"], line
        assert registrar.registry.count(example.AGENTS) == 0


async def test_a_registry_that_is_expunged_is_not_begun_again(example: Any, autojump_clock: MockClock) -> None:
    """The master that led loses its lead and goes on: an operator may restore the registry. Agents admitted before could come back otherwise."""
    async with worlds() as world, trio.open_nursery() as nursery:
        await world.tables()
        client = DatabaseClient(world.handles[1])
        await client.create("/masters")
        both = [example.Master(client, name) for name in ("a", "b")]
        for master in both:
            nursery.start_soon(master.run)

        async def ask(**line: Any) -> dict[str, Any]:
            while True:
                for master in both:
                    answer: dict[str, Any] = await master.answer(json.dumps(line).encode())
                    if "permitted" in answer:
                        return answer
                await CLOCK.sleep(0.1)

        assert (await ask(admit="a1", hostname="h"))["permitted"]
        state = State(client.variables)
        kept = await client.variables.load("agents")
        assert kept is not None
        assert await state.expunge(await state.fetch("agents"))
        with CLOCK.timeout(60):
            await ask(admit="a2")
            raise AssertionError("the registry was begun again")
        assert await client.variables.load("agents") is None
        assert await client.variables.update(
            "agents", b"", RecordChanges(b"r" * 16, dict(kept.records)), may_create=True
        )
        assert (await ask(admit="a2"))["permitted"]
        assert not (await ask(admit="a1"))["permitted"]
        nursery.cancel_scope.cancel()


async def test_a_deposed_master_leads_again(example: Any, autojump_clock: MockClock) -> None:
    """Another owner that did not hold the lock has turned it out; its process stays."""
    async with worlds() as world, trio.open_nursery() as nursery:
        await world.tables()
        client = DatabaseClient(world.handles[1])
        await client.create("/masters")
        master = example.Master(client, "a")
        nursery.start_soon(master.run)
        for name in ("a1", "a2", "a3"):
            while "permitted" not in await master.answer(json.dumps({"admit": name}).encode()):
                await CLOCK.sleep(0.1)
            tables = [example.AGENTS, example.REMOVED]
            async with open_registrar(client.variables, "agents", tables=tables, owner="other") as registrar:
                await registrar.recover()
                assert registrar.registry.get(example.AGENTS, name) is not None
        nursery.cancel_scope.cancel()


async def test_a_standby_whose_session_expires_can_lead(example: Any, autojump_clock: MockClock) -> None:
    """It takes part in the election anew: its znode is deleted with its session."""
    async with worlds() as world, trio.open_nursery() as nursery:
        await world.tables()
        client = DatabaseClient(world.handles[1])
        await client.create("/masters")
        async with client.session() as session:
            await session.create_ephemeral("/masters/", b"", sequential=True)
            master = example.Master(client, "a")
            nursery.start_soon(master.run)
            while len(found := sorted(await client.children("/masters"))) < 2:
                await CLOCK.sleep(0.1)
            owner = (await client.get(f"/masters/{found[1]}")).stat.ephemeral_owner
            await client._handle.database.proposals.execute(CloseSession(owner), Origin())
            while found[1] in await client.children("/masters"):
                await CLOCK.sleep(0.1)
        while "permitted" not in await master.answer(b'{"admit": "a1"}'):
            await CLOCK.sleep(0.1)
        nursery.cancel_scope.cancel()


def test_the_example_is_found_from_any_directory(tmp_path: Path) -> None:
    """By its place in the checkout; where there is none, the command says so."""
    assert masters.EXAMPLE == ROOT / "examples/master.py"
    refused = CliRunner().invoke(masters.main, ["--example", str(tmp_path / "none.py")])
    assert refused.exit_code == 2
    assert "checkout" in refused.output


def test_disorder_is_found() -> None:
    """An operation that is stored before one that was acknowledged before it was offered; those at one time may be in any order."""
    first, meanwhile, later = (
        Acknowledged("admit", name, offered, answered)
        for name, offered, answered in (("a", 0.0, 1.0), ("b", 0.5, 3.0), ("c", 2.0, 4.0))
    )
    assert disorder([(first, 1), (meanwhile, 2), (later, 3)]) == []
    assert disorder([(first, 2), (meanwhile, 1), (later, 3)]) == []
    assert len(disorder([(first, 3), (meanwhile, 1), (later, 2)])) == 1


def test_lost_and_restored_agents_are_found() -> None:
    """An agent whose removal has no answer may be there or not; all others are where the answers say."""
    load = Load(masters.Masters(ROOT, ROOT, ROOT, ()))
    load.acknowledged += [Acknowledged("admit", name, 0.0, 1.0) for name in "abc"]
    load.acknowledged.append(Acknowledged("remove", "a", 2.0, 3.0))
    load.leaving |= {"a", "b"}
    right = {("removed", "a"): 4, ("agents", "b"): 2, ("agents", "c"): 3}
    assert judge(right, load) == []
    assert judge({("removed", "a"): 4, ("removed", "b"): 5, ("agents", "c"): 3}, load) == []
    assert len(judge({("removed", "a"): 4, ("agents", "b"): 2}, load)) == 1
    assert len(judge({("removed", "a"): 4, ("agents", "c"): 3}, load)) == 1
    assert "a was removed, and is back" in judge({**right, ("agents", "a"): 1}, load)


@pytest.mark.processes
@pytest.mark.slow
async def test_a_killed_and_a_stopped_leader(tmp_path: Path) -> None:
    """Another one takes over; the rogue cannot write; nothing that was acknowledged is lost, and nothing removed is back."""
    load, times, problems = await measure(2, ROOT / "examples/master.py", tmp_path / "masters")

    assert problems == []
    assert [len(found) for found in times.values()] == [1, 1]
    assert load.counts["rogue writes tried"] == 1
    assert load.counts["rogue writes accepted"] == 0
