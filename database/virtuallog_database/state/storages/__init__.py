"""Storages of `State`, one module each."""
