"""Ledgers that client programs in several languages keep while servers are killed and the log under them is swapped.

The same programs do the same on real ZooKeeper, for comparison: there its servers are killed.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import pytest
import trio

from tests.clients.client_program import SESSION_MS, ClientProgram, Command, running
from tests.clients.ensembles import ENSEMBLES, Open
from tests.clients.ledger.judge import judge
from tests.clients.ledger.languages import LANGUAGES, Language
from tests.clients.ledger.tree import find, make
from tests.clients.observer import Observer, observing
from tests.clients.seen import Note
from tests.clients.troubles import Troubles, longest_gaps

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.xdist_group("clients")]

ROUNDS: Final = 2
"""Each kills every server once."""
WRITES: Final = 100
"""Writes that each client completes between two troubles."""


@pytest.fixture(params=list(LANGUAGES))
def language(request: pytest.FixtureRequest) -> Language:
    return LANGUAGES[request.param]


@pytest.fixture
def command(language: Language, tmp_path: Path) -> Command:
    folder = tmp_path / "program"
    folder.mkdir()
    return language.build(folder)


@pytest.mark.parametrize("open_ensemble", ENSEMBLES)
async def test_a_ledger_is_whole_after_swaps_and_kills(
    tmp_path: Path, language: Language, command: Command, open_ensemble: Open, note: Note
) -> None:
    """Nothing that was acknowledged is lost or doubled, the order is kept, watches miss nothing, sessions live on, and the ephemeral
    of a client goes once: at its end, or after it was killed.
    """
    async with open_ensemble(tmp_path) as ensemble, observing(ensemble.hosts) as observer, AsyncExitStack() as stack:

        async def start(root: str) -> ClientProgram:
            await make(observer, root)
            arguments = (ensemble.hosts, root, str(SESSION_MS))
            return await stack.enter_async_context(
                running(command, *arguments, errors=tmp_path / f"{root.strip('/')}.errors")
            )

        lives, dies = await start("/lives"), await start("/dies")
        troubles = Troubles(ensemble, lambda: advance(lives, dies))
        await troubles.run(ROUNDS - 1)
        assert await owner(observer, "/dies") == session(dies)
        await dies.kill()
        troubles.go_on = lambda: advance(lives)
        await troubles.run(1)
        assert await owner(observer, "/lives") == session(lives)
        await lives.end()
        assert list(judge(lives.history, await find(observer, "/lives"))) == []
        assert list(judge(dies.history, await find(observer, "/dies"), killed=True)) == []
    history = lives.history
    gaps = longest_gaps(troubles.seen, history.times)
    note(language.client, ensemble.name, len(history.acknowledged), history.unknown, len(history.events("seen")), gaps)


async def advance(*programs: ClientProgram) -> None:
    async with trio.open_nursery() as nursery:
        for program in programs:
            nursery.start_soon(program.advance, WRITES)


def session(program: ClientProgram) -> int:
    return int(program.history.events("ready")[0]["session"], 16)


async def owner(observer: Observer, root: str) -> int:
    """Session of the ephemeral. It must be the one that made it."""
    await observer.sync()
    stat = await observer.call(observer.client.exists, f"{root}/presence/alive")
    assert stat is not None
    return int(stat.ephemeralOwner)
