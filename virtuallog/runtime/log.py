"""Log lines of the product: an event and fields, over `logging` of the standard library.

    log.warning("link down", node=2, reason="no answer")

All go to the logger `virtuallog`. The product configures it in processes of its own only
(`virtuallog_server.process.log_output`). Elsewhere the program decides; by default `logging` prints warnings and
errors to stderr.

Rejected: structlog. It imports Rich and Pygments for tracebacks wherever they are installed: a fifth of the start
of a command.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

import attrs

LOGGER: Final = logging.getLogger("virtuallog")


@attrs.frozen(eq=False)
class LogLine:
    """Message of a log record (`LogRecord.msg`), for handlers that want its fields apart."""

    event: str
    fields: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.event:<30} {spell_fields(self.fields)}".rstrip()


def spell_fields(fields: Mapping[str, Any]) -> str:
    """Spell fields as `name=value`, by name. Texts that are not one word, or not printable, are quoted."""
    return " ".join(f"{name}={_spell(value)}" for name, value in sorted(fields.items()))


def debug(event: str, /, **fields: Any) -> None:
    """Log a step that only developers want to see."""
    _write(logging.DEBUG, event, fields)


def info(event: str, /, **fields: Any) -> None:
    """Log a change of state in normal operation."""
    _write(logging.INFO, event, fields)


def warning(event: str, /, **fields: Any) -> None:
    """Log a fault that the product copes with."""
    _write(logging.WARNING, event, fields)


def error(event: str, /, **fields: Any) -> None:
    """Log a fault that an operator must act on."""
    _write(logging.ERROR, event, fields)


def exception(event: str, /, **fields: Any) -> None:
    """Log an error with the traceback of the exception that is being handled."""
    _write(logging.ERROR, event, fields, traceback=True)


def _write(level: int, event: str, fields: Mapping[str, Any], *, traceback: bool = False) -> None:
    if LOGGER.isEnabledFor(level):
        LOGGER.log(level, LogLine(event, fields), exc_info=traceback, stacklevel=3)


def _spell(value: Any) -> str:
    is_word = isinstance(value, str) and value and value.isprintable() and not any(each in " ='\"" for each in value)
    return str(value) if is_word else repr(value)
