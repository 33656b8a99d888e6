"""The programs of the ledgers themselves: an answer that is lost is no fault of the servers, and they must not call it one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.client_program import SESSION_MS, running
from tests.clients.ledger.judge import judge
from tests.clients.ledger.languages import LANGUAGES
from tests.clients.ledger.lossy_server import open_lossy_server
from tests.clients.ledger.tree import find, make
from tests.clients.observer import observing

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.xdist_group("clients")]

WRITES = 20


@pytest.mark.parametrize("language", LANGUAGES)
async def test_an_ephemeral_whose_answer_is_lost_is_made_once(language: str, tmp_path: Path) -> None:
    """The program asks again, as it does not know; that there is one then is its own doing, and no refusal. Each program ended itself."""
    folder = tmp_path / "program"
    folder.mkdir()
    command = LANGUAGES[language].build(folder)
    async with open_lossy_server("/lives/presence/alive") as (address, port), observing(address) as observer:
        await make(observer, "/lives")
        arguments = (address, "/lives", str(SESSION_MS))
        async with running(command, *arguments, errors=tmp_path / "errors") as program:
            await program.advance(WRITES)
            await program.end()
        assert port.lost == 1
        assert list(judge(program.history, await find(observer, "/lives"))) == []
