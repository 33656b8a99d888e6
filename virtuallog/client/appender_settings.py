"""Settings of an appender: batch sizes, window, queue, retries."""

from __future__ import annotations

from typing import Final

import attrs

from virtuallog.client.append_queue import BATCH_HEADERS_BYTES
from virtuallog.contract.batch import BATCH_BYTES_MAX, BATCH_COUNT_MAX, ENTRY_BYTES_MAX
from virtuallog.contract.errors import InvalidSettingError

WINDOW_MAX: Final = 64
"""Largest `AppenderSettings.window`; loglets remember about as many batches of a session."""


@attrs.frozen(kw_only=True)
class AppenderSettings:
    """Batching and patience of an appender. Sizes in bytes, times in seconds.

    Raises:
        InvalidSettingError: when made, if batches would be larger than loglets take.
    """

    entry_bytes_max: int = ENTRY_BYTES_MAX
    """Size limit of one entry, checked by `append` and `post`."""
    batch_bytes: int = 1 << 20
    """Size at which a batch takes no more entries. One entry or one `append_many` may exceed it."""
    batch_entries: int = 4096
    """Number of entries at which a batch takes no more."""
    window: int = 8
    """Batches in flight; see `AppendSession.window`.

    More helps over long distances, fewer keeps batches larger.
    """
    queue_bytes_max: int = 32 << 20
    """Queue size above which `append` waits, so that a producer cannot outgrow a slow log."""
    retry_min: float = 0.005
    """First pause before a batch is offered again; doubles up to `retry_max`."""
    retry_max: float = 0.25
    """Longest pause. Each pause ends with a look at the chain, so a successor is noticed this late."""
    give_up: float = 60.0
    """Time without progress after which appends fail with UnavailableError: unknown outcome, for good.

    Loglets need not remember an idle session for much longer than this default. With a larger value
    an entry could be in the log twice.
    """
    one_session: bool = False
    """True if the appender ends when its session has to be given up; by default it goes on as a new one.

    A session is given up when the outcome of an append is unknown, or an append was refused. With
    `one_session` all queued and later appends then fail. For callers that tell others which session
    their entries belong to.
    """

    def __attrs_post_init__(self) -> None:
        _check_range("batch_entries", self.batch_entries, BATCH_COUNT_MAX)
        _check_range("batch_bytes", self.batch_bytes, BATCH_BYTES_MAX - BATCH_HEADERS_BYTES - 4 * self.batch_entries)
        _check_range("window", self.window, WINDOW_MAX)


def _check_range(name: str, value: int, limit: int) -> None:
    if not 1 <= value <= limit:
        raise InvalidSettingError(name, f"must be between 1 and {limit}, not {value}")
