"""Delays and rates of reads: a write seen at another server, an append seen by a parked reader, a scan."""
