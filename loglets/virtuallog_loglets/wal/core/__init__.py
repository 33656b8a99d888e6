"""Formats of the write-ahead log: records, segments, indexes, and the scan of a segment image.

Pure; imports nothing of the log that writes them.
"""
