"""Segmented write-ahead log with group commit, preallocated segments and checksummed recovery.

It knows nothing of loglets: records are (kind, bytes). `log.py` has the contract, `segment_writer.py` the group commit,
`core/segment_format.py` the file format, `recovery.py` the restart, `scrub.py` the search for rot.
"""

from virtuallog_loglets.wal.core.record import Address, WalRecord
from virtuallog_loglets.wal.log import WriteAheadLog
from virtuallog_loglets.wal.metrics import WalMetrics, WalStatistics
from virtuallog_loglets.wal.settings import WalSettings

__all__ = ["Address", "WalMetrics", "WalRecord", "WalSettings", "WalStatistics", "WriteAheadLog"]
