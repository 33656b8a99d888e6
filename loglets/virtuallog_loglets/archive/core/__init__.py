"""Format of an archive: manifest, rows, Parquet files and content digest.

Pure: bytes in, bytes out. Imports nothing else of the archive.
"""
