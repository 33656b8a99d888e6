"""The sink: what Spark calls to write rows into the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def batch_writer(options: Mapping[str, str], schema: Any, *, overwrite: bool) -> Any:
    """For `DataSource.writer`."""
    raise NotImplementedError


def stream_writer(options: Mapping[str, str], schema: Any, *, overwrite: bool) -> Any:
    """For `DataSource.streamWriter`."""
    raise NotImplementedError
