"""Kinds of loglets, one folder each, and the write-ahead log (`wal`) under two of them."""
