"""Settings of a write-ahead log, and the check of their combination."""

from __future__ import annotations

import attrs

from virtuallog.contract.errors import InvalidSettingError


@attrs.frozen(kw_only=True)
class WalSettings:
    """Sizes in bytes. Changing them never makes existing segments unreadable."""

    segment_bytes: int = 64 << 20
    """Size of a segment file. Space comes back in whole segments, and each begins with a snapshot
    of its user's state. So small ones trim finely and large ones snapshot rarely. The next segment
    is zero-filled ahead, so twice this much disk is taken from the start."""

    record_bytes_max: int = 16 << 20
    """Largest record. Larger ones are refused with `TooLargeError` when they are offered."""

    group_bytes_max: int = 20 << 20
    """Approximate limit of what is written under one sync, and the limit of one `append` (all its
    records and their headers together).

    A larger group has a better throughput, but the next append waits longer. At least a record with
    its header; together with the headroom at most three quarters of a segment: the last quarter is
    for the snapshot.
    """

    queue_bytes_max: int = 64 << 20
    """Bytes that may wait for the disk before `append` answers `OverloadedError`. Bounds memory; a
    few groups' worth keeps the disk busy. At least `group_bytes_max`."""

    headroom_bytes: int = 16 << 20
    """Bytes that the last segment keeps free for essential records (seals, trims, repairs) once the
    disk is full. Ordinary records use them only if the next segment already exists."""

    files_open_max: int = 64
    """Most closed segments kept open for reading."""

    begins_late: bool = False
    """True to make no segment before the first append, which waits for it: a log that may never be used takes no disk space."""

    def __attrs_post_init__(self) -> None:
        self._require(self.segment_bytes < 1 << 32, "segment_bytes must be below 4 GiB: addresses keep 32 bits for it")
        self._require(self.record_bytes_max > 0, "record_bytes_max must be positive")
        self._require(
            self.record_bytes_max + 64 <= self.group_bytes_max, "group_bytes_max must hold the largest record"
        )
        self._require(
            4 * (self.group_bytes_max + self.headroom_bytes) <= 3 * self.segment_bytes,
            "group_bytes_max and headroom_bytes together are at most three quarters of a segment",
        )
        self._require(self.group_bytes_max <= self.queue_bytes_max, "queue_bytes_max must hold a group")
        self._require(self.headroom_bytes >= 0, "headroom_bytes must not be negative")
        self._require(self.files_open_max > 0, "files_open_max must be positive")

    @property
    def snapshot_bytes_max(self) -> int:
        """Room for a snapshot, so that a group and the headroom still fit behind it."""
        return self.segment_bytes // 4 - 128  # 128: header and footer of the segment

    @staticmethod
    def _require(holds: bool, reason: str) -> None:
        if not holds:
            raise InvalidSettingError(where="wal", reason=reason)
