"""The audit records in the log: appended, and the last ones read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from virtuallog.audit import AuditRecord
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import UnavailableError, VirtualLogError
from virtuallog.contract.types import Gap, LogPosition
from virtuallog_console.views.audit_records import find_record
from virtuallog_console.views.log_bounds import find_bounds, joined
from virtuallog_database.engines.core.audit_entry import audit_entry
from virtuallog_database.engines.core.entry import TOKEN_BYTES

APPEND_SECONDS: Final = 5.0
"""Time for an append. A log that takes appends does so in some milliseconds, or after a change of the chain in a second or two."""
RECORDS_MAX: Final = 20
"""Records that are shown."""
POSITIONS_MAX: Final = 20_000
"""Positions that are looked at for them, from the tail backwards."""
BYTES_MAX: Final = 16 << 20
"""Bytes of the same, about: some tenths of a second."""
READ_SECONDS: Final = 3.0
"""Time for the same."""
PIECE: Final = 1000
"""Most positions that are looked at together."""
FIRST_PIECE: Final = 4
"""Positions that are looked at first. Each piece is four times as large as the last one, or a quarter if that was large."""
PIECE_BYTES: Final = 256 << 10
"""Bytes of a piece that counts as large."""


@attrs.frozen(kw_only=True)
class AuditView:
    """The last audit records of a log."""

    records: Sequence[tuple[int, AuditRecord]] = ()
    """Each with its position, the newest first."""
    looked_from: int | None = None
    """First position that was looked at. None if none was."""
    is_whole: bool = False
    """True if there is no older record in the log."""
    problem: str = ""
    """Reason why not all was read. Empty if it was, within the bounds."""


@attrs.frozen
class AuditLog:
    """Audit records of one log."""

    _log: VirtualLog

    async def append(self, record: AuditRecord) -> LogPosition:
        """Append a record; on return it is durable. After an error it may be in the log, now or later.

        Raises:
            VirtualLogError: as `VirtualLog.append`; UnavailableError after `APPEND_SECONDS`.
        """
        environment = self._log.view.environment
        with environment.clock.timeout(APPEND_SECONDS):
            payload = record.encode()
            if (await self._log.view.current()).database:
                payload = audit_entry(payload, environment.random.randbytes(TOKEN_BYTES))
            return await self._log.append(payload)
        raise UnavailableError(f"the log has taken no append for {APPEND_SECONDS:g} s")

    async def read_last(self) -> AuditView:
        """The last records, within the bounds above."""
        bounds = await find_bounds(self._log)
        if bounds.tail is None:
            return AuditView(problem=bounds.problem)
        low, found = max(bounds.trim_point or 0, bounds.tail - POSITIONS_MAX), list[tuple[int, AuditRecord]]()
        count, stop, left, problem = FIRST_PIECE, bounds.tail, BYTES_MAX, f"not all was read within {READ_SECONDS:g} s"
        with self._log.view.environment.clock.timeout(READ_SECONDS):
            try:
                while stop > low and left > 0 and len(found) < RECORDS_MAX:
                    start = max(low, stop - count)
                    piece, size = await self._read_piece(start, stop)
                    found, stop, left = found + piece[::-1], start, left - size
                    count = min(4 * count, PIECE) if size < PIECE_BYTES else max(1, count // 4)
                problem = ""
            except VirtualLogError as error:
                problem = str(error)
        return AuditView(
            records=found[:RECORDS_MAX],
            looked_from=stop,
            is_whole=len(found) <= RECORDS_MAX and stop == (bounds.trim_point or 0),
            problem=joined(bounds.problem, problem),
        )

    async def _read_piece(self, start: int, stop: int) -> tuple[list[tuple[int, AuditRecord]], int]:
        """The last records in a range, one more than are shown, and the bytes that were read."""
        found, size, at = list[tuple[int, AuditRecord]](), 0, start
        while at < stop:
            for placed in await self._log.read(LogPosition(at), LogPosition(stop)):
                at = placed.stop
                if isinstance(placed, Gap):
                    continue
                size += len(placed.batch.blob)
                records = ((record.position, find_record(record.payload)) for record in placed.records())
                found += [(position, record) for position, record in records if record is not None]
                del found[: -RECORDS_MAX - 1]
        return found, size
