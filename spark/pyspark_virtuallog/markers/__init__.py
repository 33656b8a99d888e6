"""Markers: which rows of a sink count. The writer appends them, committed readers and the audit look for them (docs/internals/protocols/sink.md)."""
