"""Delays and rates of reads: a write seen at another server, an append seen by a reader that waits at the tail, a scan."""
