"""Options that commands and programs which measure share. `--help` imports this module, so it imports click alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import click

Form: TypeAlias = Literal["text", "markdown", "json"]
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def whole_numbers(_: click.Context, __: click.Parameter, text: str) -> list[int]:
    """Callback of an option `N,N`."""
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise click.BadParameter("must be whole numbers above 0, separated by commas")
    return numbers


def form_options(function: FunctionT) -> FunctionT:
    """`--json` and `--markdown`, as an argument `form`."""
    text = click.option("--text", "form", flag_value="text", default=True, hidden=True, type=str)
    markdown = click.option(
        "--markdown", "form", flag_value="markdown", help="Tables for docs/results/measurements.md."
    )
    as_json = click.option("--json", "form", flag_value="json", help="One JSON object, and nothing else on stdout.")
    return text(markdown(as_json(function)))


picture_option = click.option(
    "--picture",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.png",
    help="Draw what happened; needs the extra virtuallog[lab].",
)
keep_option = click.option(
    "--keep",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Put the cluster there, and leave it: the nodes' logs say what they thought. Without it, all is removed.",
)
