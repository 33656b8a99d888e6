"""Set-up of the log, once per process: all log lines go to stderr, since stdout belongs to results."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from virtuallog.runtime.log import LOGGER, LogLine, spell_fields


def configure(level: str, *, as_json: bool = False, **fields: Any) -> None:
    """Log lines of `level` and above to stderr, as text or as one JSON object per line. `fields` are added to each."""
    handler = logging.StreamHandler()
    handler.setFormatter(LogFormatter(as_json, fields))
    LOGGER.handlers = [handler]
    LOGGER.propagate = False
    LOGGER.setLevel(level.upper())


class LogFormatter(logging.Formatter):
    """Text or JSON of a record whose message is a `LogLine`."""

    def __init__(self, as_json: bool, fields: Mapping[str, Any]) -> None:
        super().__init__()
        self._as_json, self._fields = as_json, fields

    def format(self, record: logging.LogRecord) -> str:
        line = record.msg
        assert isinstance(line, LogLine), "the logger is that of `virtuallog.runtime.log`"
        fields = {**self._fields, **line.fields}
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        level = record.levelname.lower()
        error = self.formatException(record.exc_info) if record.exc_info else ""
        if self._as_json:
            told = {**fields, "event": line.event, "level": level, "timestamp": when}
            return json.dumps({**told, "exception": error} if error else told, default=repr)
        return f"{when} [{level:<9}] {line.event:<30} {spell_fields(fields)}".rstrip() + (f"\n{error}" if error else "")
