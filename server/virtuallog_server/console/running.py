"""Puts the console of a node together and runs it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import structlog
from trio.abc import Listener

from virtuallog_server.console.application import Console, Subject
from virtuallog_server.console.process_metrics import DataDirectoryMetrics, process_collectors
from virtuallog_server.console.serving import ConsoleServer

log = structlog.get_logger(__name__)


async def run_console(
    subject: Subject, parts: Sequence[object], data: Path, listeners: Sequence[Listener[Any]]
) -> None:
    """Serve until cancelled; returns when the console has failed, which the node survives.

    Args:
        subject: the node.
        parts: whatever may be `Measured` in its process.
        data: its data directory.
        listeners: where the console listens.
    """
    try:
        console = Console(subject, [*parts, DataDirectoryMetrics(data)], process_collectors())
        await ConsoleServer(console).run(listeners)
    except Exception:
        log.exception("the console has ended")
