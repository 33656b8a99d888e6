"""Set-up of structlog, once per process: all log messages go to stderr, since stdout belongs to results."""

from __future__ import annotations

import logging
import sys

import structlog


def configure(level: str, *, as_json: bool = False) -> None:
    """Log messages of `level` and above to stderr, as text or as one JSON object per line."""
    renderer = structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(colors=False)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *([structlog.processors.format_exc_info] if as_json else []),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
    )
