"""Adapters to the operating system and to trio. Imports the contract only.

Clock, disk, RocksDB, worker threads, nurseries, TOML files, kazoo.
"""
