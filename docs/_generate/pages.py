"""The generated pages by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from docs._generate import api, cli, configuration, errors, limits, metrics, transitions
from docs._generate.source import ROOT

FOLDER: Final = ROOT / "docs" / "reference"
PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "api": api.page,
    "cli": cli.page,
    "configuration": configuration.page,
    "errors": errors.page,
    "limits": limits.page,
    "metrics": metrics.page,
    "transitions": transitions.page,
}
