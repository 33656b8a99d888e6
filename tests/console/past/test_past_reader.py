"""Processes that answer questions about the past: one at a time, within bounds, and never left behind."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from virtuallog.contract.errors import MalformedError, OverloadedError, UnavailableError
from virtuallog.rpc.security.tls_files import TlsFiles
from virtuallog.runtime.clock import SystemClock
from virtuallog_console.past import past_reader
from virtuallog_console.past.past_reader import PastReader, PastRefusedError

CLOCK = SystemClock()


def reader(script: str, tls: TlsFiles | None = None, seconds: float = 60.0) -> PastReader:
    """A reader whose program is a script."""
    return PastReader(Path("cluster.toml"), tls, "normal", CLOCK, (sys.executable, "-c", script), seconds)


async def test_a_question_is_a_command_with_our_certificate() -> None:
    """The path comes last, behind `--`; the certificate is in the environment."""
    script = "import json, os, sys; print(json.dumps([sys.argv[1:], os.environ['VIRTUALLOG_KEY']]))"
    tls = TlsFiles(certificate=Path("c"), key=Path("k"), authority=Path("a"))

    answer: Any = await reader(script, tls).history("/--app", "17", 5, 0)

    words, key = answer
    assert words[:2] == ["database", "history"] and words[-2:] == ["--", "/--app"] and key == "k"
    assert {"--alone", "--json", "--last"} <= {*words} and words[words.index("--to") + 1] == "17"


@pytest.mark.parametrize(
    ("script", "error", "text"),
    [
        ("import sys; print('virtuallog: no such znode', file=sys.stderr); sys.exit(1)", PastRefusedError, "no such znode"),
        ("import sys; print('noise\\nvirtuallog: no node', file=sys.stderr); sys.exit(3)", UnavailableError, "no node"),
        ("import sys; sys.exit(1)", PastRefusedError, "has ended with 1"),
        ("print('nonsense')", MalformedError, "or is none"),
        (f"print('[' + '1,' * {past_reader.ANSWER_BYTES_MAX} + '1]')", MalformedError, "more than"),
    ],
    ids=["refused", "unavailable", "silent", "nonsense", "too much"],
)  # fmt: skip
async def test_a_failure_is_an_error_with_its_reason(script: str, error: type[Exception], text: str) -> None:
    """The next question is answered."""
    asked = reader(script)
    for _ in range(2):
        with pytest.raises(error, match=text):
            await asked.history("/app", "", 5, 0)


async def test_a_second_question_is_refused_and_a_cancelled_one_leaves_no_process(tmp_path: Path) -> None:
    """Then the next one has its turn."""
    file = tmp_path / "pid"
    script = (
        f"import os, pathlib, time; pathlib.Path({str(file)!r}).write_text(str(os.getpid()) + '.'); time.sleep(1000)"
    )
    asked = reader(script)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(asked.history, "/app", "", 5, 0)
        with CLOCK.timeout(60):
            while not file.exists() or not file.read_text().endswith("."):
                await CLOCK.sleep(0.01)
        with pytest.raises(OverloadedError):
            await asked.history("/app", "", 5, 0)
        nursery.cancel_scope.cancel()

    with pytest.raises(ProcessLookupError):
        os.kill(int(file.read_text().rstrip(".")), 0)
    with pytest.raises(UnavailableError):
        await reader(script, seconds=0.2).history("/app", "", 5, 0)


async def test_a_question_that_takes_too_long_is_ended() -> None:
    """Its time is over, and so is its process."""
    with pytest.raises(UnavailableError, match=r"no answer within 0\.2 s"):
        await reader("import time; time.sleep(1000)", seconds=0.2).history("/app", "", 5, 0)


async def test_a_process_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ignores SIGTERM. Otherwise no further question would be answered until the console is started again."""
    monkeypatch.setattr(past_reader, "END_SECONDS", 0.2)
    ignoring = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)"
    asked = reader(ignoring, seconds=2.0)

    for _ in range(2):
        with CLOCK.timeout(60) as scope, pytest.raises(UnavailableError, match="no answer within 2 s"):
            await asked.history("/app", "", 5, 0)
        assert not scope.cancelled_caught


async def test_a_process_that_was_killed_has_not_taken_too_long() -> None:
    """As by the kernel, for want of memory: the reason is another one."""
    with pytest.raises(UnavailableError, match="ended by signal 9"):
        await reader("import os; os.kill(os.getpid(), 9)").history("/app", "", 5, 0)
