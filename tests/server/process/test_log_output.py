"""Log lines of a process of ours: text or JSON on stderr."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from virtuallog.runtime import log
from virtuallog.testing.logs import capture_logs
from virtuallog_server.process import log_output


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    with capture_logs():  # puts the configuration back
        yield


def test_text_has_time_level_event_and_the_fields_of_the_process(capsys: pytest.CaptureFixture[str]) -> None:
    """A reader of many nodes' logs sees when, how bad, what, and where."""
    log_output.configure("info", node=3)
    log.debug("not wanted")
    log.info("listening", address="127.0.0.1:7001")

    out, err = capsys.readouterr()
    when, _, rest = err.partition(" ")
    assert out == "", "stdout belongs to results"
    assert len(when) == len("2026-01-01T00:00:00.000000Z") and when.endswith("Z")
    assert rest == "[info     ] listening                      address=127.0.0.1:7001 node=3\n"


def test_json_is_one_object_per_line_also_with_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    """A collector of logs parses each line by itself; values that JSON lacks become text."""
    log_output.configure("warning", as_json=True, node=3)
    try:
        int("odd")
    except ValueError:
        log.exception("a handler failed", request=b"\x00")

    told = json.loads(capsys.readouterr().err)
    assert told.pop("timestamp").endswith("Z")
    assert told.pop("exception").splitlines()[-1] == "ValueError: invalid literal for int() with base 10: 'odd'"
    assert told == {"event": "a handler failed", "level": "error", "node": 3, "request": "b'\\x00'"}


def test_configured_again_it_writes_each_line_once(capsys: pytest.CaptureFixture[str]) -> None:
    """`serve` sets levels of its own, after those of every command."""
    log_output.configure("warning")
    log_output.configure("warning")
    log.warning("link down")

    assert capsys.readouterr().err.count("link down") == 1
