"""Storage of archives: the port to a directory of files, its fsspec adapter, trim markers, Arrow
tables.

May import core and config.
"""
