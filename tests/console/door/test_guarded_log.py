"""The guarded log of a database, behind a console that nodes take for an admin."""

from __future__ import annotations

from trio.testing import MockClock

from tests.console.actions.acting import USERS, acting
from tests.console.views.test_nodes import log_of
from tests.server.database.test_role import client_of, start
from tests.server.node.world import make_world, until
from virtuallog_server.database.ownership import put_guard


async def test_only_admins_append_to_it(autojump_clock: MockClock) -> None:
    """Nodes let this console append, and see no other caller: the console refuses those whom nodes would refuse."""
    async with make_world() as world:
        nodes = await start(world, 1, 2, 3)
        log = log_of(nodes[0])
        await client_of(nodes[0]).create("/a")
        assert (await put_guard(log)).is_guarded
        found = {}
        async with acting(log) as console:
            for user, asked in USERS.items():
                headers = {**asked.get("headers", {}), "content-type": "text/plain"}
                answer = await console.room.ask(
                    method="POST", path="/v1/entries", body=[b"x"], **{**asked, "headers": headers}
                )
                found[user] = answer.status
                assert answer.status == 201 or answer.json["type"].endswith("forbidden-by-log")

    assert found == {"alice": 201, "bob": 403, "loopback": 403}


async def test_a_guard_counts_from_the_moment_that_another_process_puts_it(autojump_clock: MockClock) -> None:
    """A console that has not looked at the chain for a while looks before it appends for a client."""
    async with make_world() as world:
        nodes = [await world.start(number) for number in (1, 2, 3)]
        await until(lambda: all(not node.not_ready() for node in nodes))
        log, other = log_of(nodes[0]), log_of(nodes[1])
        async with acting(log) as console:
            before = log.view.cached
            assert before is not None
            assert not before.is_guarded
            assert (await put_guard(other)).is_guarded
            log.view.cached = before  # as in a process that had nothing to do meanwhile
            asked = USERS["bob"]
            headers = {**asked.get("headers", {}), "content-type": "text/plain"}
            answer = await console.room.ask(
                method="POST", path="/v1/entries", body=[b"x"], **{**asked, "headers": headers}
            )
    assert answer.status == 403
