"""Log lines: their text, and their way through `logging`."""

from __future__ import annotations

import logging

import pytest

from virtuallog.runtime import log
from virtuallog.runtime.log import LogLine
from virtuallog.testing.logs import capture_logs


def test_a_line_reads_as_event_and_fields(caplog: pytest.LogCaptureFixture) -> None:
    """A program that formats `%(message)s` sees the fields too, each as one word or quoted."""
    log.warning("link down", node=2, reason="no answer", empty="", address="a:1", odd="a=b")

    (record,) = caplog.records
    assert (
        record.getMessage() == "link down                      address=a:1 empty='' node=2 odd='a=b' reason='no answer'"
    )
    assert (record.name, record.levelname) == ("virtuallog", "WARNING")
    assert (record.filename, record.funcName) == ("test_log.py", "test_a_line_reads_as_event_and_fields")


def test_a_line_has_no_character_that_a_terminal_obeys() -> None:
    """A value that a client has chosen, such as a path, clears no screen and turns no text around."""
    spelled = log.spell_fields({"path": "/\x1b[2J", "user": "\u202etxt", "name": "Zoë"})
    assert spelled == r"name=Zoë path='/\x1b[2J' user='\u202etxt'"


def test_a_handler_gets_the_fields_apart(caplog: pytest.LogCaptureFixture) -> None:
    """One that writes JSON need not parse a text."""
    log.error("role refused", role="native")

    line = caplog.records[0].msg
    assert isinstance(line, LogLine)
    assert (line.event, line.fields) == ("role refused", {"role": "native"})


def test_an_unconfigured_program_sees_warnings_only() -> None:
    """A library prints no news of links that come and go."""
    assert not log.LOGGER.isEnabledFor(logging.INFO)
    assert log.LOGGER.isEnabledFor(logging.WARNING)


def test_captured_lines_have_every_level_and_leave_the_configuration_as_it_was() -> None:
    """A test sees what an operator would see with every level on."""
    before = log.LOGGER.handlers, log.LOGGER.level
    with capture_logs() as lines:
        log.debug("step")
        log.info("change", node=1)
        try:
            int("odd")
        except ValueError:
            log.exception("a handler failed")

    assert lines == [
        {"event": "step", "log_level": "debug"},
        {"event": "change", "log_level": "info", "node": 1},
        {"event": "a handler failed", "log_level": "error", "exc_info": True},
    ]
    assert (log.LOGGER.handlers, log.LOGGER.level) == before
