"""A segmented write-ahead log with group commit, preallocated segments and checksummed recovery.

It knows nothing of loglets: records are (kind, bytes). See `log.py` for the contract, `format.py` for the files.
"""

from loglets.wal.log import Appended, WriteAheadLog
from loglets.wal.metrics import WalStatistics
from loglets.wal.record import Address, Record
from loglets.wal.settings import WalSettings

__all__ = ["Address", "Appended", "Record", "WalSettings", "WalStatistics", "WriteAheadLog"]
