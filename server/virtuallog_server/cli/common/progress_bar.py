"""A progress bar on stderr, for terminals."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import Any, Protocol


def progress_bar() -> Any:
    """A context manager whose value is a `rich.progress.Progress`. None if stderr is no terminal."""
    if not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console  # takes a good part of a second to import
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)


class Tell(Protocol):
    """Callback for progress."""

    def __call__(self, what: str, done: int, total: int | None = None, /) -> None:
        """Show that a step is done up to a position or a count, out of `total` if that is known."""
        ...


def teller(bar: Any) -> Tell:
    """Callback that shows progress in the value of `progress_bar`: a line for each step."""
    tasks: dict[str, Any] = {}

    def tell(what: str, done: int, total: int | None = None, /) -> None:
        if bar is not None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done, total=total)

    return tell
