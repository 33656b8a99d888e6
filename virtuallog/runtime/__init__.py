"""Adapters to the operating system and to trio: clock, disk, RocksDB, worker threads, nurseries, TOML files, kazoo. Imports the contract only."""
