"""Capture of log lines (`virtuallog.runtime.log`) by a test or the simulator."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from virtuallog.runtime.log import LOGGER, LogLine


@contextmanager
def logs_to(write: Callable[[str, LogLine, bool], None]) -> Iterator[None]:
    """Pass each line of any level to `write`, and to no other handler, for the length of the block.

    Args:
        write: called with the level (`"warning"`), the line, and True if the line has a traceback.
    """
    before = LOGGER.handlers, LOGGER.level, LOGGER.propagate
    LOGGER.handlers, LOGGER.propagate = [_Handler(write)], False
    LOGGER.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        LOGGER.handlers, level, LOGGER.propagate = before
        LOGGER.setLevel(level)


@contextmanager
def capture_logs() -> Iterator[list[dict[str, Any]]]:
    """Collect the lines of a block: their fields, with `event`, `log_level`, and `exc_info` if there is a traceback."""
    lines: list[dict[str, Any]] = []

    def write(level: str, line: LogLine, has_traceback: bool) -> None:
        lines.append(
            {**line.fields, "event": line.event, "log_level": level} | ({"exc_info": True} if has_traceback else {})
        )

    with logs_to(write):
        yield lines


class _Handler(logging.Handler):
    def __init__(self, write: Callable[[str, LogLine, bool], None]) -> None:
        super().__init__()
        self._write = write

    def emit(self, record: logging.LogRecord) -> None:
        assert isinstance(record.msg, LogLine)
        self._write(record.levelname.lower(), record.msg, bool(record.exc_info))
