"""A segmented write-ahead log with group commit, preallocated segments and checksummed recovery.

It knows nothing of loglets: records are (kind, bytes). See `log.py` for the contract, `format.py` for the files.
"""

from virtuallog_loglets.wal.core.record import Address, WalRecord
from virtuallog_loglets.wal.log import AppendCallback, WriteAheadLog
from virtuallog_loglets.wal.metrics import WalStatistics
from virtuallog_loglets.wal.settings import WalSettings

__all__ = ["Address", "AppendCallback", "WalRecord", "WalSettings", "WalStatistics", "WriteAheadLog"]
