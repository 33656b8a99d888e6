"""A progress bar on stderr, for terminals."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import Any


def progress_bar() -> Any:
    """A context manager whose value is a `rich.progress.Progress`. None if stderr is no terminal."""
    if not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console  # takes a good part of a second to import
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)
