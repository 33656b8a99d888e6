"""Local store of a database on RocksDB: `open_store_directory`."""

from __future__ import annotations

from virtuallog_database.rocks.directory import RocksDirectory, open_store_directory
from virtuallog_database.rocks.store import RocksStore, StoreSettings

__all__ = ["RocksDirectory", "RocksStore", "StoreSettings", "open_store_directory"]
