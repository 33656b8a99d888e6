"""Errors out of nurseries that are none of the caller's business."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def plain_errors() -> Iterator[None]:
    """Around a nursery that a block of somebody else runs in: an error of his own reaches him as he raised it."""
    try:
        yield
    except BaseExceptionGroup as group:
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from None
        raise
