"""Extras of the package: the one that brings a module which is not installed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

EXTRAS: Final[Mapping[str, str]] = {
    "fsspec": "archive",
    "numpy": "archive",
    "pyarrow": "archive",
    "hypercorn": "console",
    "prometheus_client": "console",
    "starlette": "console",
    "kazoo": "zookeeper",
    "matplotlib": "lab",
    "pandas": "spark",
    "pyspark": "spark",
}
"""Top-level module -> extra, as in `pyproject.toml`."""


def remedy(error: BaseException) -> str:
    """The installation command, if a module of an extra is missing. Empty for any other error."""
    module = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    extra = EXTRAS.get(module)
    return f"{module} is not installed: pip install 'virtuallog[{extra}]'" if extra else ""
