"""Ledgers that client programs in several languages keep while servers are killed and the log under them is swapped.

The same programs do the same on real ZooKeeper, for comparison: there its servers are killed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
import trio

from tests.clients.ensembles import ENSEMBLES, Open
from tests.clients.ledger.history import judge
from tests.clients.ledger.languages import LANGUAGES, Command, Language
from tests.clients.ledger.programs import LedgerProgram, find, running
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
    async with (
        open_ensemble(tmp_path) as ensemble,
        observing(ensemble.hosts) as observer,
        running(command, ensemble.hosts, "/lives", observer, tmp_path) as program,
    ):
        async with running(command, ensemble.hosts, "/dies", observer, tmp_path) as other:
            troubles = Troubles(ensemble, lambda: advance(program, other))
            await troubles.run(ROUNDS - 1)
            await check_presence(observer, program, other)
            await other.kill()
        troubles.go_on = lambda: advance(program)
        await troubles.run(1)
        await check_presence(observer, program)
        await program.end()
        assert list(judge(program.history, await find(observer, program.root))) == []
        assert list(judge(other.history, await find(observer, other.root), killed=True)) == []
    history = program.history
    gaps = longest_gaps(troubles.seen, history.times)
    note(language.client, ensemble.name, len(history.acknowledged), history.unknown, len(history.events("seen")), gaps)


async def advance(*programs: LedgerProgram) -> None:
    async with trio.open_nursery() as nursery:
        for program in programs:
            nursery.start_soon(program.advance, WRITES)


async def check_presence(observer: Observer, *programs: LedgerProgram) -> None:
    """The ephemerals are still those of the first sessions."""
    await observer.sync()
    for program in programs:
        stat = await observer.call(observer.client.exists, f"{program.root}/presence/alive")
        assert stat is not None and stat.ephemeralOwner == program.session
