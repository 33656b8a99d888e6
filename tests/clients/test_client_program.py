"""Client programs as processes: one that ends too early is noticed at once."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import trio

from tests.clients.client_program import running

READY = 'print(\'{"event": "ready"}\', flush=True)'
SECONDS = 60.0
"""Much less than a client is given for its next line."""


@pytest.mark.processes
@pytest.mark.parametrize("code", [0, 3])
async def test_a_program_that_ends_is_not_waited_for(tmp_path: Path, code: int) -> None:
    """Its last words are in the error. It was waited for for two minutes if it had not been reaped when its last line came."""
    command = [sys.executable, "-c", f"{READY}; import sys; sys.stderr.write('gave up'); sys.exit({code})"]
    with trio.fail_after(SECONDS), pytest.raises(ExceptionGroup) as caught:
        async with running(command, errors=tmp_path / "errors") as program:
            await program.advance(1)

    assert caught.group_contains(AssertionError, match="gave up")
