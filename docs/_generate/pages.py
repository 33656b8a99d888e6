"""The generated pages, by the files that they are in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from docs._generate import alerts, api, cli, configuration, errors, limits, man, metrics, transitions, wire
from docs._generate.source import ROOT
from virtuallog_server.cli.commands.completion import script

PAGES: Final[Mapping[Path, Callable[[], str]]] = {
    **{
        ROOT / "docs" / "reference" / f"{module.__name__.rpartition('.')[2]}.md": module.page
        for module in (alerts, api, cli, configuration, errors, limits, metrics, transitions, wire)
    },
    ROOT / "share" / "man" / "man1" / "virtuallog.1": man.page,
    ROOT / "share" / "bash-completion" / "completions" / "virtuallog": partial(script, "bash"),
    ROOT / "share" / "zsh" / "site-functions" / "_virtuallog": partial(script, "zsh"),
    ROOT / "share" / "fish" / "vendor_completions.d" / "virtuallog.fish": partial(script, "fish"),
}
"""Those of docs/reference, and those of the wheel for shells and `man`."""
